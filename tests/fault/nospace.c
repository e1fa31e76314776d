// SPDX-License-Identifier: BSD-3-Clause
/* nospace.c - no block to be had, at every point where one is taken
 *
 * ts_block_take() is wrapped: it fails at the k-th call, or from there on, for
 * every k that a short run of operations has. Whatever is refused, all that
 * was stored must be readable, nothing may leak, and once the failing ends
 * everything must work again (case 23).
 */
#include "tests/common/model.h"
#include "store.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#define SIZE (6 * MIB)
#define RAM  (10 * MIB)
#define OPS  20u

enum failing {
	ONCE,   /* the k-th call is refused */
	ONWARD, /* so are all after it */
	LATER,  /* every k-th call is told to wait and try again */
};

static enum failing failing;
static uint64_t n_calls, fail_at;
static bool armed;

int __real_ts_block_take(struct ts_blocks *blocks, uint32_t *ret_block);
int __wrap_ts_block_take(struct ts_blocks *blocks, uint32_t *ret_block);

int __wrap_ts_block_take(struct ts_blocks *blocks, uint32_t *ret_block)
{
	uint64_t call = ++n_calls;

	if (armed && failing == ONCE && call == fail_at)
		return -ENOSPC;
	if (armed && failing == ONWARD && call >= fail_at)
		return -ENOSPC;
	if (armed && failing == LATER && call % fail_at == 0)
		return -ENOBUFS;
	return __real_ts_block_take(blocks, ret_block);
}

/* All memory is touched beforehand, so no keeper is needed. */
static struct ts_store *new_store(void)
{
	struct ts_store *store = rig_new(SIZE, RAM);
	struct ts_blocks *blocks = &store->core.media.blocks;
	uint32_t reserve = blocks->reserve;

	blocks->reserve = blocks->budget;
	if (ts_blocks_refill(blocks, blocks->budget) != blocks->budget)
		rig_die("no memory for the test");
	blocks->reserve = reserve;
	return store;
}

/* Returns how many requests were refused. */
static unsigned operate(struct model *model, struct rng *rng, uint8_t *buf)
{
	unsigned refused = 0;

	for (unsigned i = 0; i < OPS; i++) {
		uint64_t len = rng_range(rng, 1, 100 * 4096);
		uint64_t off = rng_below(rng, SIZE - len);

		if (rng_below(rng, 2)) {
			len = (len + 4095) / 4096 * 4096;
			off = off / 4096 * 4096;
		}
		switch (rng_below(rng, 8)) {
		case 0 ... 4:
			model_content(rng, buf, len, off);
			refused += model_write(model, buf, len, off) != 0;
			break;
		case 5:
			refused += model_zero(model, len, off) != 0;
			break;
		case 6:
			model_discard(model, len, off);
			break;
		default:
			model_read(model, len, off);
		}
	}
	return refused;
}

/* One run that fails at @k. Returns whether there was such a call. */
static bool run(uint64_t seed, uint64_t k, unsigned *ret_refused)
{
	static uint8_t buf[101 * 4096];
	struct ts_store *store = new_store();
	struct rng rng = {seed};
	struct model model;

	model_init(&model, store, SIZE);
	n_calls = 0;
	fail_at = k;
	armed = true;
	*ret_refused = operate(&model, &rng, buf);
	rig_check(store);
	model_compare(&model);
	armed = false;
	if (operate(&model, &rng, buf))
		rig_die("a refusal after the failing ended");
	model_compare(&model);
	model_discard(&model, SIZE, 0);
	rig_check_empty(store);
	model_fini(&model);
	ts_store_free(store);
	return n_calls >= k;
}

static void sweep(uint64_t seed, enum failing how)
{
	uint64_t k, total = 0;
	unsigned refused, runs = 0;

	failing = how;
	/* Told to wait at each call, it would wait for ever. */
	for (k = how == LATER ? 2 : 1; run(seed, k, &refused);
	     k += how == ONCE ? 1 : 3) {
		/* A request that compaction saved is no refusal. */
		total += refused;
		runs++;
		if (how == LATER && refused)
			rig_die("told to wait, a write was refused (k %" PRIu64
				")",
				k);
		if (k > 150)
			break;
	}
	if (how != LATER && !total)
		rig_die("nothing was refused in %u runs", runs);
	printf("%u runs, %" PRIu64 " requests refused\n", runs, total);
}

int main(int argc, char **argv)
{
	uint64_t seed = argc > 1 ? strtoull(argv[1], NULL, 0) : 1;

	printf("seed %" PRIu64 "\n", seed);
	fflush(stdout);
	sweep(seed, ONCE);
	sweep(seed, ONWARD);
	sweep(seed, LATER);
	return EXIT_SUCCESS;
}
