// SPDX-License-Identifier: BSD-3-Clause
/* kill.c - a store whose process is killed at any moment loses no page
 *
 * kill [--kills N] [--seed N] [--spill]
 *
 * A child serves a kept store: two threads change it, a third one compacts,
 * gives memory back and changes dictionaries, and with --spill so little memory
 * is for pages that they spill, come back and are cleaned all the time. The
 * parent kills it after a random while, one in three while it is still taking
 * over, and the next child finds all that was acknowledged; see keeping.h.
 *
 * What the killed were doing last is counted by the points that they passed.
 */
#include "tests/fault/keeping.h"
#include "compact.h"
#include "util/atomic.h"
#include "util/lock.h"

#include <getopt.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

#define THREADS	  2u
#define RUN_NS	  10000000u
#define EARLY_NS  8000000u
#define AREAS_MAX 32u

static bool with_spill;

struct worker {
	struct ts_store *store;
	uint64_t seed;
	unsigned number;
};

/* Change runs of slots that only this thread changes, and read others'. */
static void *work(void *arg)
{
	struct worker *w = arg;
	struct rng rng = { w->seed + w->number };
	uint32_t part = NEAR_SLOTS / THREADS, base = w->number * part;
	uint8_t page[4096];

	for (;;) {
		uint32_t n = (uint32_t)rng_range(&rng, 1, RUN_MAX);

		switch (rng_below(&rng, 32)) {
		case 0: /* a whole cluster */
			keeping_discard(w->store, base, part);
			break;
		case 1:
			if (!w->number)
				keeping_discard(w->store, NEAR_SLOTS,
						FAR_SLOTS);
			break;
		case 2:
			if (!w->number)
				keeping_change(w->store, &rng, NEAR_SLOTS, n);
			break;
		default:
			keeping_change(w->store, &rng,
				       base + (uint32_t)rng_below(&rng,
								  part - n),
				       n);
			ts_store_read(w->store, page, sizeof(page),
				      rng_below(&rng, NEAR_SLOTS) * 4096);
		}
	}
	return NULL;
}

static void *tidy(void *arg)
{
	struct ts_store *store = arg;
	struct ts_blocks *blocks = &store->core.media.blocks;

	for (;;) {
		ts_compact(&store->core, TS_SLACK_NONE, 4);
		ts_clusters_reclaim(&store->core.clusters);
		ts_blocks_shrink(blocks, 2, 4);
		ts_blocks_refill(blocks, 4);
		keeping_new_dictionary(store);
		ts_sleep_ns(300000);
	}
	return NULL;
}

static void serve(uint64_t seed)
{
	struct ts_store *store = keeping_open();
	struct worker worker[THREADS];
	pthread_t thread;

	if (with_spill) {
		ts_store_relaxed(&store->spiller.tier.low_percent, 5);
		ts_store_relaxed(&store->spiller.tier.high_percent, 10);
	}
	for (unsigned i = 0; i < THREADS; i++) {
		worker[i] = (struct worker){ store, seed, i };
		pthread_create(&thread, NULL, work, &worker[i]);
	}
	tidy(store);
}

static void one_life(struct rng *rng, uint64_t *late)
{
	bool early = rng_below(rng, 3) == 0;
	pid_t child;

	journal->ready = 0;
	journal->last = 0;
	child = keeping_fork(serve, rng_next(rng));
	*late += !early;
	/* From the first thing that it does on, or from the last that it does
	 * before requests.
	 */
	while (!ts_load_acquire(early ? &journal->last : &journal->ready) &&
	       !journal->failed)
		ts_sleep_ns(50000);
	ts_sleep_ns(rng_below(rng, early ? EARLY_NS : RUN_NS));
	kill(child, SIGKILL);
	waitpid(child, NULL, 0);
}

/* By what stands before the colon of a point's name. */
struct areas {
	unsigned n;
	struct {
		char name[24];
		uint64_t kills;
	} area[AREAS_MAX];
};

static void count_area(struct areas *areas)
{
	uint32_t last = journal->last;
	char name[24] = "nothing yet";
	unsigned i = 0;

	if (last)
		snprintf(name, sizeof(name), "%.*s",
			 (int)strcspn(keeping_point_name(last - 1), ":"),
			 keeping_point_name(last - 1));
	while (i < areas->n && strcmp(areas->area[i].name, name))
		i++;
	if (i == areas->n && i < AREAS_MAX)
		strcpy(areas->area[areas->n++].name, name);
	if (i < areas->n)
		areas->area[i].kills++;
}

/* The last life ends as it should, and leaves nothing. */
static void last_life(uint64_t seed)
{
	(void)seed;
	keeping_close(keeping_open());
}

static void report(const struct areas *areas, uint64_t kills)
{
	printf("%" PRIu64 " kills, %" PRIu64 " times verified, %" PRIu64
	       " requests%s; the last point passed:\n",
	       kills, journal->verified, journal->operations,
	       with_spill ? ", with spill" : "");
	for (unsigned i = 0; i < areas->n; i++)
		printf("%8" PRIu64 "  %s\n", areas->area[i].kills,
		       areas->area[i].name);
}

int main(int argc, char **argv)
{
	static const struct option options[] = {
		{ "kills", required_argument, NULL, 'k' },
		{ "seed", required_argument, NULL, 's' },
		{ "spill", no_argument, NULL, 'p' },
		{ 0 },
	};
	uint64_t kills = 100, seed = ts_now_ns(), done = 0, late = 0;
	struct areas areas = { 0 };
	struct rng rng;
	int c;

	while ((c = getopt_long(argc, argv, "", options, NULL)) != -1) {
		if (c == 'k')
			kills = strtoull(optarg, NULL, 0);
		else if (c == 's')
			seed = strtoull(optarg, NULL, 0);
		else if (c == 'p')
			with_spill = true;
		else
			return 2;
	}
	printf("seed %" PRIu64 "\n", seed);
	rng.state = seed;
	keeping_begin(with_spill);
	for (; done < kills && !journal->failed; done++) {
		one_life(&rng, &late);
		count_area(&areas);
	}
	waitpid(keeping_fork(last_life, 0), NULL, 0);
	report(&areas, done);
	if (journal->verified < late + 1)
		keeping_wrong("%" PRIu64 " lives should have been verified",
			      late + 1);
	if (keeping_leaks())
		keeping_wrong("a segment is left");
	keeping_end();
	return journal->failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
