// SPDX-License-Identifier: Apache-2.0
/*
 * main.c - fluxonkv-bench: choose the subcommand
 */
#include <signal.h>
#include <stdio.h>
#include <string.h>

#include <sodium.h>

#include <fluxonkv.h>

#include "bench/bench.h"

static const struct {
	const char *name;
	int (*run)(int argc, char **argv);
	const char *summary;
} subcommands[] = {
	{ "pressure", bench_pressure,
	  "Zipf reads of a data set larger than memory" },
	{ "trace", bench_trace, "replay of recorded prefix-cache requests" },
	{ "sizes", bench_sizes, "put, get and exists at real object sizes" },
	{ "hit", bench_hit, "latency of a hit in local memory" },
	{ "ssdget", bench_ssdget, "gets of values that are only on SSD" },
	{ "limits", bench_limits, "what memory, disk and sockets can do here" },
};

#define NR_SUBCOMMANDS	(sizeof(subcommands) / sizeof(subcommands[0]))

static void usage(FILE *out)
{
	fputs("usage: fluxonkv-bench SUBCOMMAND [OPTION]...\n\n", out);
	for (size_t i = 0; i < NR_SUBCOMMANDS; i++)
		fprintf(out, "  %-10s%s\n", subcommands[i].name,
			subcommands[i].summary);
	fputs("\n'fluxonkv-bench SUBCOMMAND --help' lists its options; "
	      "--version, --help.\n\nEXAMPLES\n"
	      "  fluxonkv-bench pressure --daemon fluxonkvd --ssd-dir "
	      "/mnt/nvme/kv --json\n"
	      "  fluxonkv-bench trace --file trace.jsonl --block-bytes 256k\n"
	      "  fluxonkv-bench hit --keys 1000 --threads 2\n", out);
}

int main(int argc, char **argv)
{
	if (argc < 2) {
		usage(stderr);
		return 2;
	}
	if (!strcmp(argv[1], "--help") || !strcmp(argv[1], "-h")) {
		usage(stdout);
		return 0;
	}
	if (!strcmp(argv[1], "--version")) {
		printf("fluxonkv-bench %s\n", fluxonkv_version());
		return 0;
	}
	if (sodium_init() < 0) {
		fputs("fluxonkv-bench: libsodium does not start\n", stderr);
		return 1;
	}
	signal(SIGPIPE, SIG_IGN);
	for (size_t i = 0; i < NR_SUBCOMMANDS; i++)
		if (!strcmp(argv[1], subcommands[i].name))
			return subcommands[i].run(argc - 1, argv + 1);
	fprintf(stderr, "fluxonkv-bench: '%s' is no subcommand\n\n", argv[1]);
	usage(stderr);
	return 2;
}
