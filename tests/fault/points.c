// SPDX-License-Identifier: BSD-3-Clause
/* points.c - a process dies at each point where it can be torn apart
 *
 * points [--later] [SEED]
 *
 * The library is built with a point after each step that a successor could
 * see (lib/fault.h). First a child goes its whole way, to count how often each
 * is passed: it serves, and stops; or it takes over from one that was killed, at
 * the end or at a point that leaves something to be put right. Then, for each way and
 * each point on it, a child dies at the first time, and with --later another at
 * a later one; the next takes over, finds all that was acknowledged, goes on and stops,
 * and no memory is left. A point at which nobody dies is a failure.
 */
#include "tests/fault/keeping.h"
#include "compact.h"
#include "util/atomic.h"
#include "util/lock.h"

#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define TRIES 2000u
#define HELD  64u
#define CHANCES 10u

static bool later;

static void change_all(struct ts_store *store, struct rng *rng)
{
	uint32_t n;

	for (uint32_t i = 0; i < SLOTS; i += n) {
		n = 16 + (uint32_t)rng_below(rng, RUN_MAX - 16);
		if (i < NEAR_SLOTS && n > NEAR_SLOTS - i)
			n = NEAR_SLOTS - i;
		if (n > SLOTS - i)
			n = SLOTS - i;
		keeping_change(store, rng, i, n);
	}
}

static uint64_t passed(const char *name)
{
	for (unsigned i = 0; i < keeping_points(); i++)
		if (!strcmp(keeping_point_name(i), name))
			return ts_load_relaxed(&journal->hits[i]);
	keeping_wrong("no point \"%s\"", name);
	return 1;
}

/* Pages that are held meanwhile make that words get a block of their own. */
static void spread_words(struct ts_store *store, struct rng *rng)
{
	struct ts_pool *pool = &store->core.media.pool;
	uint16_t bytes[HELD];
	ts_obj held[HELD];
	int err;

	for (unsigned i = 0; i < HELD; i++)
		bytes[i] = 4096;
	err = ts_pool_alloc(pool, HELD, bytes, held);
	keeping_write(store, NEAR_SLOTS, 8);
	if (!err)
		ts_pool_free(pool, HELD, held);
}

/* Sparse blocks are emptied, until a page of words has been moved, too. */
static void compact(struct ts_store *store, struct rng *rng)
{
	for (unsigned i = 0; i < TRIES && !(passed("map: words moved") &&
					    passed("compaction: object copied"));
	     i++) {
		keeping_discard(store, NEAR_SLOTS, FAR_SLOTS);
		keeping_discard(store, (uint32_t)rng_below(rng, 64) * 8, 500);
		spread_words(store, rng);
		ts_compact(&store->core, TS_SLACK_NONE, 64);
		ts_blocks_refill(&store->core.media.blocks, 4);
		change_all(store, rng);
	}
}

static uint64_t counter(struct ts_store *store, bool cleaned)
{
	struct ts_counters c;

	ts_store_counters(store, &c);
	return cleaned ? c.cleaned_pages : c.spill_slots;
}

/* The device takes no writes for a while: the descriptor is one for reading. */
static void fail_to_spill(struct ts_store *store, struct rng *rng)
{
	int *fd = &store->core.media.spill->file.fd, before = dup(*fd), bad;
	char path[32];

	snprintf(path, sizeof(path), "/proc/self/fd/%d", *fd);
	bad = open(path, O_RDONLY | O_CLOEXEC);
	/* What is registered with the ring would stay as it is. */
	ts_store_relaxed(&store->spiller.io.fixed_file, false);
	if (before < 0 || bad < 0 || dup2(bad, *fd) < 0)
		keeping_wrong("no descriptor for reading");
	for (unsigned i = 0; i < TRIES &&
	     !passed("pack: not written, segment given up"); i++) {
		keeping_change(store, rng,
			       (uint32_t)rng_below(rng, NEAR_SLOTS - RUN_MAX),
			       RUN_MAX);
		ts_spiller_kick(&store->spiller);
		ts_sleep_ns(200000);
	}
	dup2(before, *fd);
	close(before);
	close(bad);
}

/* Room is short from now on: pages spill, and segments are cleaned. */
static void spill(struct ts_store *store, struct rng *rng)
{
	uint8_t page[4096];

	ts_store_relaxed(&store->spiller.tier.low_percent, 5);
	ts_store_relaxed(&store->spiller.tier.high_percent, 10);
	for (unsigned i = 0; i < TRIES; i++) {
		uint32_t at = (uint32_t)rng_below(rng, NEAR_SLOTS - RUN_MAX);

		keeping_change(store, rng, at, RUN_MAX);
		ts_spiller_kick(&store->spiller);
		if (counter(store, true) && counter(store, false))
			break;
		ts_sleep_ns(200000);
	}
	for (uint32_t i = 0; i < NEAR_SLOTS; i++)
		ts_store_read(store, page, sizeof(page), i * 4096ull);
}

/* Everything that a store can do. */
static void exercise(struct ts_store *store, struct rng *rng)
{
	struct ts_blocks *blocks = &store->core.media.blocks;

	change_all(store, rng);
	keeping_new_dictionary(store);
	change_all(store, rng);
	keeping_new_dictionary(store);
	/* A whole cluster, and all of a leaf. */
	keeping_discard(store, 512, 512);
	keeping_discard(store, NEAR_SLOTS, FAR_SLOTS);
	ts_clusters_reclaim(&store->core.clusters);
	change_all(store, rng);
	compact(store, rng);
	spill(store, rng);
	fail_to_spill(store, rng);
	ts_blocks_shrink(blocks, 0, 8);
	ts_blocks_refill(blocks, 4);
	/* No page of the first dictionary is left, wherever it was. */
	for (unsigned i = 0; i < TRIES && !passed("dictionary: given up");
	     i++) {
		keeping_discard(store, 0, NEAR_SLOTS);
		change_all(store, rng);
		ts_codec_retire(&store->core.media.codec);
	}
}

static void serve(uint64_t seed)
{
	struct rng rng = { seed };
	struct ts_store *store = keeping_open();

	exercise(store, &rng);
	keeping_close(store);
}

/* The same, and dies at the end. */
static void serve_and_die(uint64_t seed)
{
	struct rng rng = { seed };

	exercise(keeping_open(), &rng);
	kill(getpid(), SIGKILL);
}

static void take_over(uint64_t seed)
{
	struct rng rng = { seed };
	struct ts_store *store = keeping_open();

	keeping_write(store, (uint32_t)rng_below(&rng, 500), RUN_MAX);
	keeping_close(store);
}

/* The successor stages nothing, and has no room for what was. */
static void unstage(uint64_t seed)
{
	journal->no_stage = 1;
	take_over(seed);
}

static unsigned point(const char *name)
{
	for (unsigned i = 0; i < keeping_points(); i++)
		if (!strcmp(keeping_point_name(i), name))
			return i;
	keeping_wrong("no point \"%s\"", name);
	return 0;
}

/* Run a child to its end. Returns whether it died at the armed point. */
static bool run(void (*fn)(uint64_t seed), uint64_t seed, uint32_t armed,
		uint64_t hit)
{
	int status;
	pid_t pid;

	memset(journal->hits, 0, sizeof(journal->hits));
	journal->armed = armed;
	journal->armed_hit = hit;
	journal->died = 0;
	journal->no_stage = 0;
	pid = keeping_fork(fn, seed);
	waitpid(pid, &status, 0);
	journal->armed = 0;
	if (!journal->died && !(WIFEXITED(status) && !WEXITSTATUS(status)) &&
	    fn != serve_and_die)
		keeping_wrong("a child ended with status %#x", status);
	return journal->died;
}

enum way { SERVING, TAKING_OVER, AFTER_MAKING, AFTER_ATTACHING, UNSTAGING, WAYS };

static const struct {
	const char *name;
	void (*fn)(uint64_t seed);
	/* What a child was about that died before; NULL: nothing more. */
	const char *after;
} ways[WAYS] = {
	[SERVING] = { "serving", serve, NULL },
	[TAKING_OVER] = { "taking over", take_over, NULL },
	[AFTER_MAKING] = { "beginning again", take_over, "kept: head written" },
	[AFTER_ATTACHING] = { "taking over a cluster without pages", take_over,
			      "map: words published" },
	[UNSTAGING] = { "taking over what was staged", unstage,
			"stage: batch queued" },
};

static void prepare(enum way way, uint64_t seed)
{
	if (way == TAKING_OVER)
		run(serve_and_die, seed, 0, 0);
	else if (ways[way].after &&
		 !run(serve, seed, point(ways[way].after) + 1, 1))
		keeping_wrong("nobody died after \"%s\"", ways[way].after);
}

/* Let a child die, and see what the next one finds. */
static bool try_point(enum way way, unsigned i, uint64_t hit, uint64_t seed)
{
	bool died;

	prepare(way, seed);
	died = run(ways[way].fn, seed + 1, i + 1, hit);
	run(take_over, seed + 2, 0, 0);
	if (keeping_leaks())
		keeping_wrong("a segment is left");
	if (journal->failed)
		fprintf(stderr, "... after %s, \"%s\", time %" PRIu64 "\n",
			ways[way].name, keeping_point_name(i), hit);
	return died;
}

static void count_way(enum way way, uint64_t seed,
		      uint64_t ret_hits[POINTS_MAX])
{
	prepare(way, seed);
	run(ways[way].fn, seed + 1, 0, 0);
	memcpy(ret_hits, journal->hits, sizeof(journal->hits));
}

/* What a way passes by differs a little each time, since it has several
 * threads and goes by what it finds.
 */
static unsigned try_way(enum way way, const uint64_t *hits, struct rng *rng,
			bool *died_at)
{
	unsigned died = 0;

	for (unsigned i = 0; i < keeping_points() && !journal->failed; i++) {
		bool now = hits[i] && try_point(way, i, 1, rng_next(rng));

		died_at[i] |= now;
		died += now;
		if (later && hits[i] > 3)
			died += try_point(way, i,
					  2 + rng_below(rng, hits[i] / 2 - 1),
					  rng_next(rng));
	}
	return died;
}

static void print_all(uint64_t hits[WAYS][POINTS_MAX])
{
	for (unsigned i = 0; i < keeping_points(); i++) {
		for (unsigned way = 0; way < WAYS; way++)
			printf("%7" PRIu64, hits[way][i]);
		printf("  %s\n", keeping_point_name(i));
	}
}

/* A point that is passed only now and then, since threads meet by chance, gets
 * more tries.
 */
static unsigned try_again(unsigned i, struct rng *rng)
{
	for (unsigned n = 0; n < CHANCES * WAYS && !journal->failed; n++)
		if (try_point((enum way)(n % WAYS), i, 1, rng_next(rng)))
			return 1;
	keeping_wrong("nobody died after \"%s\"", keeping_point_name(i));
	return 0;
}

int main(int argc, char **argv)
{
	static uint64_t hits[WAYS][POINTS_MAX];
	struct rng rng = { 1 };
	bool died_at[POINTS_MAX] = { false };
	unsigned died = 0;

	for (int i = 1; i < argc; i++) {
		if (!strcmp(argv[i], "--later"))
			later = true;
		else
			rng.state = strtoull(argv[i], NULL, 0);
	}

	printf("seed %" PRIu64 "\n", rng.state);
	keeping_begin(true);
	for (unsigned way = 0; way < WAYS && !journal->failed; way++)
		count_way(way, rng_next(&rng), hits[way]);
	print_all(hits);
	for (unsigned way = 0; way < WAYS && !journal->failed; way++)
		died += try_way(way, hits[way], &rng, died_at);
	for (unsigned i = 0; i < keeping_points() && !journal->failed; i++)
		if (!died_at[i])
			died += try_again(i, &rng);
	printf("%u points, %u deaths, %" PRIu64 " times verified\n",
	       keeping_points(), died, journal->verified);
	keeping_end();
	return journal->failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
