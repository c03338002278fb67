/* SPDX-License-Identifier: Apache-2.0 */
/*
 * bench.h - the subcommands
 *
 * Each takes its own argv (argv[0] is its name) and returns the exit status:
 * 0, 1 when something failed or missed that must not, 2 for bad arguments.
 */
#ifndef FKV_BENCH_BENCH_H
#define FKV_BENCH_BENCH_H

#include "bench/report.h"
#include "bench/run.h"

int bench_pressure(int argc, char **argv);
int bench_trace(int argc, char **argv);
int bench_sizes(int argc, char **argv);
int bench_limits(int argc, char **argv);
int bench_hit(int argc, char **argv);
int bench_ssdget(int argc, char **argv);

/*
 * client_cpu_seconds, daemon_cpu_seconds (null: not known) and
 * cpu_seconds_per_gib of both together, clients only when that is not known
 * (cpu_includes_daemon says which).
 */
void bench_row_cpu(struct json_object *row, const struct bench_outcome *o);

#endif
