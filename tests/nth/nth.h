/* SPDX-License-Identifier: Apache-2.0 */
/*
 * nth.h - every Nth allocation and every Nth I/O fails, one after the other
 *
 * A case is one scenario with one failure. It runs first without any, which
 * counts what could fail; then for each N with only the Nth failing, and again
 * with all from the Nth on. malloc and its family are this program's own (so
 * libraries' calls are seen, too) and count while armed; what is allocated
 * during a case and not freed at its end is a leak.
 */
#ifndef FKV_TESTS_NTH_H
#define FKV_TESTS_NTH_H

#include <setjmp.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum nth_what {
	NTH_NOTHING,		/* counts only */
	NTH_ONE,		/* the Nth */
	NTH_REST,		/* the Nth and all that follow */
};

struct nth_case {
	const char *name;
	enum nth_what what;
	uint64_t n;
};

extern struct nth_case nth;

/* Allocations that follow may fail / do not count and succeed (nests). */
void nth_arm(void);
void nth_disarm(void);
/* This thread's never do, and are nobody's leak (a server in the test). */
void nth_exempt(void);
/* What failed so far in this case; points passed so far. */
uint64_t nth_failures(void);
uint64_t nth_points(void);
/* No more failures in this case. */
void nth_heal(void);

/* One more point of another kind, for I/O: does it fail? Any thread. */
bool nth_io_fails(void);
/* The same, with a name for what is said when its case is wrong. */
bool nth_call_fails(const char *name);

/* What of a case is wrong: said once with its name, and counted. */
void nth_wrong(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
#define nth_check(cond, ...)			\
	do {					\
		if (!(cond))			\
			nth_wrong(__VA_ARGS__);	\
	} while (0)
/* Is the case that runs all right so far? */
bool nth_right(void);

/*
 * Run @scenario without a failure, then all cases of it. Before each, and
 * after, nothing of it is left. A process that ends itself (fkv_assert) fails
 * its case; what it leaves is not looked at. One that hangs or crashes ends the
 * program, with its name.
 */
void nth_all(const char *name, void (*scenario)(void *arg), void *arg);
/* The same, its points being those of nth_io_fails(); allocations work. */
void nth_all_io(const char *name, void (*scenario)(void *arg), void *arg);
/*
 * Points of another process, which @count says after the first run; those that
 * @next steps to, and all from there on at each fourth of them.
 */
void nth_some(const char *name, void (*scenario)(void *arg),
	      uint64_t (*next)(uint64_t n), const _Atomic uint64_t *count);
void nth_skip(const char *name, const char *why);

/* All from the Nth on only for each fourth N, unless NTH_ALL is set. */
void nth_few_rests(void);
/* A scenario that ends itself leaves threads: the program ends with it. */
void nth_keeps_threads(void);

/* The closing line; the exit status. */
int nth_end(void);

#endif
