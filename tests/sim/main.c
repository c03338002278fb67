// SPDX-License-Identifier: Apache-2.0
/*
 * sim - runs the cores through random histories and checks every step
 *
 *	sim [--seeds N] [--seed S] [--steps K] [--strict] [--verbose]
 *
 * Runs N seeds from S on. The first broken rule is printed with the command
 * that replays it; the exit status is 1 then.
 */
#include <getopt.h>
#include <inttypes.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include "sim.h"

#define END_NS	(15 * FKV_SEC)

static struct sim *running;
static const char *program;

static void say_replay(void)
{
	fprintf(stderr, "replay: %s --seed %" PRIu64 " --seeds 1 --steps %"
		PRIu64 "%s --verbose\n", program, running->cfg.seed,
		running->cfg.steps, running->cfg.strict ? " --strict" : "");
}

_Noreturn void sim_fail(struct sim *s, const char *fmt, ...)
{
	va_list ap;

	fflush(stdout);
	fprintf(stderr, "seed %" PRIu64 " step %" PRIu64 " at %.6f s: ",
		s->cfg.seed, s->steps, (double)s->now_ns / 1e9);
	va_start(ap, fmt);
	vfprintf(stderr, fmt, ap);
	va_end(ap);
	fputc('\n', stderr);
	say_replay();
	_exit(EXIT_FAILURE);
}

void sim_say(struct sim *s, const char *fmt, ...)
{
	va_list ap;

	if (!s->cfg.verbose)
		return;
	printf("%6" PRIu64 " %.6f ", s->steps, (double)s->now_ns / 1e9);
	va_start(ap, fmt);
	vprintf(fmt, ap);
	va_end(ap);
	putchar('\n');
}

/* an assertion of a core failed */
static void on_abort(int sig)
{
	(void)sig;
	fflush(stdout);
	fprintf(stderr, "seed %" PRIu64 " step %" PRIu64 "\n",
		running->cfg.seed, running->steps);
	say_replay();
	_exit(EXIT_FAILURE);
}

static unsigned int sometimes(struct sim *s, unsigned int per_mille)
{
	return sim_chance(s, 400) ?
		1 + (unsigned int)sim_random(s, per_mille) : 0;
}

/* What kind of world a seed makes. */
static void choose(struct sim *s)
{
	static const uint64_t paces[] = {
		100 * FKV_US, FKV_MS, 5 * FKV_MS, 20 * FKV_MS,
		300 * FKV_MS, 3 * FKV_SEC,
	};
	struct sim_config *c = &s->cfg;

	s->rng = c->seed * 0x9e3779b97f4a7c15ULL + 1;
	c->pages = 32 << sim_random(s, 5);
	c->keys = 2 + (uint32_t)sim_random(s, SIM_KEYS_MAX - 2);
	c->clients = 2 + (uint32_t)sim_random(s, SIM_CLIENTS_MAX - 2);
	c->value_pages = 2 + (uint32_t)sim_random(s, c->pages / 3);
	c->devices = sim_chance(s, 200) ? 0 : 1 + (uint32_t)sim_random(s, 2);
	c->shards = 1 + (uint32_t)sim_random(s, 3);
	c->unit = (uint32_t)(SIM_PAGE << sim_random(s, 2));
	c->ring_pages = 16 << sim_random(s, 5);
	c->delayed = sim_chance(s, 350);
	c->first = sim_chance(s, 500);
	if (sim_chance(s, 150))
		c->client_cap = c->pages / 4 * SIM_PAGE;
	c->p_read = sometimes(s, 200);
	c->p_write = sometimes(s, 200);
	c->p_flip = sometimes(s, 500);
	c->p_slow = sometimes(s, 50);
	c->p_die = 1 + (unsigned int)sim_random(s, 20);
	c->p_stall = sometimes(s, 300);
	c->p_pin = 50 + (unsigned int)sim_random(s, 1000);
	c->pace_ns = paces[sim_random(s, FKV_ARRAY_SIZE(paces))];
	/* a put must be able to grow old */
	if (c->pace_ns >= 300 * FKV_MS)
		c->p_die = 1 + c->p_die / 5;
}

static void make_keys(struct sim *s)
{
	char name[FKV_KEY_MAX + 1];

	for (uint32_t k = 0; k < s->cfg.keys; k++) {
		size_t len = 3;

		memset(name, 'x', sizeof(name));
		snprintf(name, 4, "k%02u", k % 100);
		/* the index takes keys of up to 208 bytes */
		if (sim_chance(s, 100))
			len = FKV_KEY_MAX - sim_random(s, 300);
		name[3] = 'x';
		s->key[k] = fkv_key_create(name, len);
	}
}

static void make_ring(struct sim *s)
{
	struct fkv_ring_config rc = { .nr_devices = s->cfg.devices };
	uint32_t n = s->cfg.devices * s->cfg.shards;

	if (!n)
		return;
	for (uint32_t d = 0; d < rc.nr_devices; d++)
		rc.device[d] = (struct fkv_ring_device_config){
			.nr_shards = s->cfg.shards,
			.ring_size = s->cfg.ring_pages * SIM_PAGE,
			.unit = s->cfg.unit,
		};
	fkv_assert(!fkv_ring_create(&rc, &s->ring));
	for (uint32_t i = 0; i < n; i++) {
		s->disk[i].page = fkv_zalloc(s->cfg.ring_pages *
					     sizeof(struct sim_word));
		s->disk[i].flipped = fkv_zalloc(s->cfg.ring_pages);
	}
}

static void make_cores(struct sim *s)
{
	struct fkv_owner_config oc = {
		.client_cap = s->cfg.client_cap,
		.uid_cap = s->cfg.client_cap * 2,
		.ring = s->ring,
		.ring_devices = s->cfg.devices,
		.ring_shards = s->cfg.devices * s->cfg.shards,
	};
	struct fkv_master_config mc = {
		.segment_bytes = s->cfg.pages * SIM_PAGE,
		.epoch = 1,
		.shards = oc.ring_shards,
		.first = s->cfg.first,
	};
	struct fkv_msg state = {
		.type = FKV_MSG_SSD_STATE,
		.n = s->cfg.devices,
	};

	fkv_assert(!fkv_owner_create(&oc, &s->owner));
	fkv_assert(!fkv_master_create(&mc, &s->master));
	fkv_master_step(s->master, 0, &state, &s->mout);
	s->to_master.tail = &s->to_master.head;
	s->to_owner.tail = &s->to_owner.head;
}

static struct sim *sim_create(const struct sim_config *cfg)
{
	struct sim *s = fkv_zalloc(sizeof(*s));

	fkv_assert(s);
	running = s;
	s->cfg = *cfg;
	s->now_ns = FKV_SEC;
	s->next_pin = 1;
	choose(s);
	sim_say(s, "pages %u keys %u clients %u value %u devices %u shards %u "
		"unit %u ring %u%s, faults r %u w %u flip %u slow %u stall %u",
		s->cfg.pages, s->cfg.keys, s->cfg.clients, s->cfg.value_pages,
		s->cfg.devices, s->cfg.shards, s->cfg.unit, s->cfg.ring_pages,
		s->cfg.delayed ? " delayed" : "", s->cfg.p_read,
		s->cfg.p_write, s->cfg.p_flip, s->cfg.p_slow, s->cfg.p_stall);
	s->page = fkv_zalloc(s->cfg.pages * sizeof(*s->page));
	make_keys(s);
	make_ring(s);
	make_cores(s);
	for (uint32_t i = 0; i < s->cfg.clients; i++)
		sim_client_start(s, i);
	sim_at(s, s->now_ns, SIM_HITS, 0, 0);
	sim_at(s, s->now_ns, SIM_READER, 0, 0);
	sim_at(s, s->now_ns, SIM_FLIP, 0, 0);
	return s;
}

static void sim_free(struct sim *s)
{
	sim_posts_done(s);
	sim_io_done_all(s);
	fkv_owner_free(s->owner);
	fkv_master_free(s->master);
	fkv_ring_free(s->ring);
	fkv_out_done(&s->out);
	fkv_out_done(&s->mout);
	for (uint32_t i = 0; i < FKV_SHARDS_MAX; i++) {
		fkv_free(s->disk[i].page);
		fkv_free(s->disk[i].flipped);
	}
	for (uint32_t k = 0; k < SIM_KEYS_MAX; k++) {
		fkv_key_put(s->key[k]);
		fkv_free(s->history[k].at);
	}
	fkv_free(s->heap);
	fkv_free(s->page);
	fkv_free(s->op);
	fkv_free(s->version);
	fkv_free(s->index);
	fkv_free(s->pin);
	fkv_free(s);
}

static void scan(struct sim *s)
{
	struct fkv_in in = { .type = FKV_IN_SCANNED };

	s->scan_armed = false;
	while ((in.entry = sim_index_scanned(s)))
		sim_feed(s, &in);
	if (!sim_index_retired(s))
		return;
	s->scan_armed = true;
	sim_at(s, s->now_ns + FKV_MS, SIM_SCAN, 0, 0);
}

static void handle(struct sim *s, const struct sim_event *ev)
{
	switch (ev->type) {
	case SIM_CLIENT:
		sim_client_event(s, ev);
		break;
	case SIM_WRITE:
		sim_client_write(s, ev);
		break;
	case SIM_IO:
		sim_io_event(s, ev);
		break;
	case SIM_TO_MASTER:
		sim_to_master(s);
		break;
	case SIM_TO_OWNER:
		sim_to_owner(s);
		break;
	case SIM_SCAN:
		scan(s);
		break;
	case SIM_HITS:
		sim_index_hits(s);
		sim_at(s, s->now_ns + 100 * FKV_MS, SIM_HITS, 0, 0);
		break;
	case SIM_UNPIN:
		sim_index_unpin(s, ev->a);
		break;
	case SIM_READER:
		if (sim_chance(s, s->cfg.p_pin))
			sim_index_read(s);
		if (!s->ending)
			sim_at(s, s->now_ns + 1 + sim_delay(s,
				s->cfg.pace_ns), SIM_READER, 0, 0);
		break;
	case SIM_FLIP:
		if (sim_chance(s, s->cfg.p_flip))
			sim_flip(s);
		if (!s->ending)
			sim_at(s, s->now_ns + 1 + 2 * s->cfg.pace_ns,
			       SIM_FLIP, 0, 0);
		break;
	}
}

/* One thing happens; false when that would be later than @until_ns. */
static bool step(struct sim *s, uint64_t until_ns)
{
	struct sim_event ev;

	/* the hits timer always runs */
	fkv_assert(s->nr_events);
	if (sim_tick_due(s, fkv_min_u64(s->heap[0].when, until_ns))) {
		sim_tick(s);
	} else {
		if (s->heap[0].when > until_ns)
			return false;
		fkv_assert(sim_next(s, &ev));
		s->now_ns = ev.when;
		handle(s, &ev);
		/* ten a second, whatever the pace */
		s->steps -= ev.type == SIM_HITS;
	}
	s->steps++;
	sim_check_all(s);
	return true;
}

static void run_until(struct sim *s, uint64_t until_ns)
{
	while (step(s, until_ns))
		;
	s->now_ns = until_ns;
}

/* (10), (11): clients leave, faults stop, all comes to rest; then a put. */
static void end(struct sim *s)
{
	s->ending = true;
	for (uint32_t i = 0; i < s->cfg.clients; i++)
		if (s->client[i].up)
			sim_client_leave(s, &s->client[i]);
	run_until(s, s->now_ns + END_NS);
	sim_check_end(s);
	sim_last_put(s);
	run_until(s, s->now_ns + 5 * FKV_SEC);
	sim_check(s, s->client[0].nr_puts == 1,
		  "(11) no room for a put though nobody holds anything");
	sim_client_leave(s, &s->client[0]);
	run_until(s, s->now_ns + END_NS);
	sim_check_end(s);
}

static void add(struct sim_counts *to, const struct sim_counts *n)
{
	const uint64_t *from = (const uint64_t *)n;
	uint64_t *p = (uint64_t *)to;

	for (size_t i = 0; i < sizeof(*n) / sizeof(*from); i++)
		p[i] += from[i];
}

static void run(const struct sim_config *cfg, struct sim_counts *total)
{
	struct sim *s = sim_create(cfg);
	struct fkv_owner_stats o;

	while (s->steps < cfg->steps)
		step(s, FKV_NEVER);
	end(s);
	fkv_owner_get_stats(s->owner, &o);
	s->n.sum_errors = o.sum_errors;
	s->n.expired = o.put_timeouts;
	add(total, &s->n);
	sim_free(s);
}

static void print_counts(const struct sim_counts *n)
{
	printf("gets %" PRIu64 " (hits %" PRIu64 ", from SSD %" PRIu64
	       ", misses %" PRIu64 ") puts %" PRIu64 " deletes %" PRIu64
	       "\nreads %" PRIu64 " writes %" PRIu64 " I/O errors %" PRIu64
	       " flips %" PRIu64 " checksum errors %" PRIu64 "\npins %" PRIu64
	       " evictions ok %" PRIu64 " busy %" PRIu64 " held %" PRIu64
	       " lost %" PRIu64 "\ndeaths %" PRIu64 " timeouts %" PRIu64
	       " no space %" PRIu64 " expired puts %" PRIu64 "\n",
	       n->gets, n->hits, n->ssd_hits, n->misses, n->puts, n->deletes,
	       n->reads, n->writes, n->io_errors, n->flips, n->sum_errors,
	       n->pins, n->evict_ok, n->evict_busy, n->evict_held, n->lost,
	       n->deaths, n->timeouts, n->nospace, n->expired);
}

static uint64_t number(const char *text)
{
	char *end_of;
	uint64_t n = strtoull(text, &end_of, 0);

	if (*text && !*end_of)
		return n;
	fprintf(stderr, "%s: not a number: %s\n", program, text);
	exit(2);
}

int main(int argc, char **argv)
{
	static const struct option options[] = {
		{ "seeds", required_argument, NULL, 'n' },
		{ "seed", required_argument, NULL, 's' },
		{ "steps", required_argument, NULL, 'k' },
		{ "strict", no_argument, NULL, 't' },
		{ "verbose", no_argument, NULL, 'v' },
		{ 0 },
	};
	struct sim_config cfg = { .seed = 1, .steps = 4000 };
	struct sim_counts total = { 0 };
	uint64_t seeds = 100, first;
	struct timespec a, b;
	double took;
	int c;

	program = argv[0];
	while ((c = getopt_long(argc, argv, "", options, NULL)) != -1) {
		if (c == 'n')
			seeds = number(optarg);
		else if (c == 's')
			cfg.seed = number(optarg);
		else if (c == 'k')
			cfg.steps = number(optarg);
		else if (c == 'v')
			cfg.verbose = true;
		else if (c == 't')
			cfg.strict = true;
		else
			return 2;
	}
	signal(SIGABRT, on_abort);
	first = cfg.seed;
	clock_gettime(CLOCK_MONOTONIC, &a);
	for (; cfg.seed < first + seeds; cfg.seed++)
		run(&cfg, &total);
	clock_gettime(CLOCK_MONOTONIC, &b);
	took = (double)(b.tv_sec - a.tv_sec) +
		(double)(b.tv_nsec - a.tv_nsec) / 1e9;
	printf("%" PRIu64 " seeds of %" PRIu64 " steps passed, %.1f seeds/s\n",
	       seeds, cfg.steps, (double)seeds / (took > 0 ? took : 1));
	print_counts(&total);
	return EXIT_SUCCESS;
}
