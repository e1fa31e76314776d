// SPDX-License-Identifier: BSD-3-Clause
/* kill.c - a store whose process is killed at any moment loses no page
 *
 * kill [--kills N] [--seed N] [--spill]
 *
 * A child serves a kept store and changes it from several threads; a journal
 * in shared memory says what was tried and what was acknowledged. The parent
 * kills it after a random while, and the next child takes the memory over:
 * each slot must then hold what was acknowledged last, or something later that
 * was on its way. The store's own walk must find nothing wrong. One child in
 * four is killed while it is still taking over.
 */
#include "tests/common/model.h"
#include "store.h"
#include "util/atomic.h"
#include "util/lock.h"

#include <errno.h>
#include <getopt.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#define SLOTS	  6144u
#define THREADS	  4u
#define RUN_MAX	  48u
#define RAM_BYTES (12ull << 20)
/* Every so many generations a slot is discarded instead of written. */
#define DISCARD_EVERY 7u

struct journal {
	uint32_t tried[SLOTS], acked[SLOTS];
	uint32_t ready; /* the child has taken over and checked */
	uint32_t failed;
	uint64_t verified, operations;
};

static struct journal *journal;
static char keep_path[256], spill_path[256];
static bool with_spill;

static bool is_discard(uint32_t generation)
{
	return generation % DISCARD_EVERY == 0;
}

/* A page that says whose it is; some compress, some hardly, some not. */
static void make_page(uint8_t *page, uint32_t slot, uint32_t generation)
{
	uint64_t x = slot * 0x9e3779b97f4a7c15ull + generation;
	unsigned kind = (slot / 8 + generation) % 5;
	uint64_t *w = (uint64_t *)page;

	for (unsigned i = 0; i < 512; i++) {
		x ^= x << 13;
		x ^= x >> 7;
		x ^= x << 17;
		w[i] = kind == 0 ? x : i % (2u << kind) ? i & 3 : x;
	}
	w[0] = slot;
	w[511] = generation;
	if (kind == 4 && slot % 16 == 0)
		for (unsigned i = 0; i < 512; i++)
			w[i] = (uint64_t)generation << 32 | slot;
}

static bool holds(const uint8_t *page, uint32_t slot, uint32_t generation)
{
	static const uint8_t zeroes[4096];
	uint8_t want[4096] __attribute__((aligned(8)));

	if (is_discard(generation))
		return !memcmp(page, zeroes, sizeof(zeroes));
	make_page(want, slot, generation);
	return !memcmp(page, want, sizeof(want));
}

static void verify(struct ts_store *store)
{
	uint8_t page[4096] __attribute__((aligned(8)));
	char err[256];

	if (ts_store_check(store, err, sizeof(err))) {
		fprintf(stderr, "after taking over: %s\n", err);
		journal->failed = 1;
	}
	for (uint32_t slot = 0; slot < SLOTS; slot++) {
		uint32_t g = journal->acked[slot];
		int ret = ts_store_read(store, page, 4096, slot * 4096ull);
		bool found = false;

		for (; !ret && g <= journal->tried[slot] && !found; g++)
			found = holds(page, slot, g);
		if (!found) {
			fprintf(stderr,
				"slot %u: read %d, acknowledged %u, tried %u, page says slot %" PRIu64
				" generation %" PRIu64 "\n",
				slot, ret, journal->acked[slot],
				journal->tried[slot], *(uint64_t *)page,
				*(uint64_t *)(page + 4088));
			journal->failed = 1;
			return;
		}
		/* From here on this is what the slot holds. */
		journal->acked[slot] = journal->tried[slot] = g - 1;
	}
	journal->verified++;
}

/* Change a run of slots that only this thread changes. */
static void change(struct ts_store *store, struct rng *rng, uint32_t first,
		   uint32_t n)
{
	static _Thread_local uint8_t pages[RUN_MAX * 4096]
		__attribute__((aligned(8)));
	uint32_t most = 0;
	int ret;

	/* One generation for the run, so that it is one request. */
	for (uint32_t i = 0; i < n; i++)
		if (journal->tried[first + i] > most)
			most = journal->tried[first + i];
	most++;
	if (rng_below(rng, 8) == 0)
		most = (most / DISCARD_EVERY + 1) * DISCARD_EVERY;
	for (uint32_t i = 0; i < n; i++)
		ts_store_release(&journal->tried[first + i], most);
	if (is_discard(most)) {
		ret = ts_store_discard(store, n * 4096ull, first * 4096ull);
	} else {
		for (uint32_t i = 0; i < n; i++)
			make_page(pages + i * 4096, first + i, most);
		ret = ts_store_write(store, pages, n * 4096ull,
				     first * 4096ull);
	}
	for (uint32_t i = 0; i < n && !ret; i++)
		ts_store_release(&journal->acked[first + i], most);
	if (ret && ret != -ENOSPC)
		journal->failed = 1;
	ts_add_relaxed(&journal->operations, 1);
}

struct worker {
	struct ts_store *store;
	unsigned number;
	uint64_t seed;
};

static void *work(void *arg)
{
	struct worker *w = arg;
	struct rng rng = { w->seed + w->number };
	uint32_t part = SLOTS / THREADS, base = w->number * part;

	for (;;) {
		uint32_t n = (uint32_t)rng_range(&rng, 1, RUN_MAX);
		uint32_t at = (uint32_t)rng_below(&rng, part - n);

		change(w->store, &rng, base + at, n);
	}
	return NULL;
}

static void serve(uint64_t seed)
{
	struct worker worker[THREADS];
	struct ts_store *store;
	struct ts_params params;
	char err[512];
	pthread_t thread;

	ts_params_init(&params);
	params.size_bytes = SLOTS * 4096ull;
	params.ram_bytes = RAM_BYTES;
	params.keep_path = keep_path;
	params.spill_path = with_spill ? spill_path : NULL;
	params.spill_bytes = with_spill ? 40ull << 20 : 0;
	if (ts_params_finish(&params, err, sizeof(err)) ||
	    ts_store_new(&params, &store, err, sizeof(err)) ||
	    ts_store_start(store)) {
		fprintf(stderr, "cannot serve: %s\n", err);
		journal->failed = 1;
		_exit(1);
	}
	verify(store);
	ts_store_release(&journal->ready, 1);
	for (unsigned i = 0; i < THREADS; i++) {
		worker[i] = (struct worker){ store, i, seed };
		pthread_create(&thread, NULL, work, &worker[i]);
	}
	for (;;)
		pause();
}

static void one_life(struct rng *rng)
{
	bool early = rng_below(rng, 4) == 0;
	uint64_t seed = rng_next(rng);
	pid_t child;

	journal->ready = 0;
	child = fork();
	if (!child)
		serve(seed);
	while (!early && !ts_load_acquire(&journal->ready) &&
	       !journal->failed)
		ts_sleep_ns(100000);
	ts_sleep_ns(rng_below(rng, early ? 3000000 : 30000000));
	kill(child, SIGKILL);
	waitpid(child, NULL, 0);
}

/* The last life ends cleanly and leaves nothing behind. */
static int finish(uint64_t kills)
{
	printf("%" PRIu64 " kills, %" PRIu64 " times verified, %" PRIu64
	       " operations%s\n",
	       kills, journal->verified, journal->operations,
	       with_spill ? ", with spill" : "");
	return journal->failed || journal->verified < kills / 2 ? 1 : 0;
}

static void drop_memory(void)
{
	FILE *f = fopen(keep_path, "re");
	int id;

	if (f && fscanf(f, "%d", &id) == 1)
		ts_shm_remove(id);
	if (f)
		fclose(f);
	unlink(keep_path);
	unlink(spill_path);
}

int main(int argc, char **argv)
{
	static const struct option options[] = {
		{ "kills", required_argument, NULL, 'k' },
		{ "seed", required_argument, NULL, 's' },
		{ "spill", no_argument, NULL, 'p' },
		{ 0 },
	};
	uint64_t kills = 100, seed = (uint64_t)getpid(), done = 0;
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
	fflush(stdout);
	rng.state = seed;
	snprintf(keep_path, sizeof(keep_path), "/tmp/ts-kill.%d.keep",
		 (int)getpid());
	snprintf(spill_path, sizeof(spill_path), "/tmp/ts-kill.%d.spill",
		 (int)getpid());
	journal = mmap(NULL, sizeof(*journal), PROT_READ | PROT_WRITE,
		       MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (journal == MAP_FAILED)
		return 1;
	while (done < kills && !journal->failed) {
		one_life(&rng);
		done++;
	}
	c = finish(done);
	drop_memory();
	return c;
}
