// SPDX-License-Identifier: BSD-3-Clause
/* test_keeper.c - the thread that keeps memory ready, and gives it back */
#include "engine.h"
#include "util/lock.h"

static struct ts_store *store;
static struct ts_blocks *blocks;

static void setup(void)
{
	store = rig_new(TEST_SLOTS * 4096ull, 64 * MIB);
	blocks = &store->core.media.blocks;
}

static void teardown(void)
{
	ts_store_free(store);
}

/* Wait until the number of touched blocks is within limits. */
static void await(uint32_t low, uint32_t high)
{
	uint32_t n = 0;

	for (unsigned i = 0; i < 2000; i++) {
		n = ts_blocks_free_touched(blocks);
		if (n >= low && n <= high)
			return;
		ts_sleep_ns(10000000);
	}
	ck_abort_msg("%u blocks touched, not %u to %u", n, low, high);
}

START_TEST(reserve_is_ready_at_start)
{
	ck_assert_uint_eq(ts_blocks_free_touched(blocks), 0);
	ck_assert_int_eq(ts_keeper_start(&store->keeper), 0);
	ck_assert_uint_eq(ts_blocks_free_touched(blocks), blocks->reserve);
}
END_TEST

START_TEST(refills)
{
	uint32_t block;

	ck_assert_int_eq(ts_keeper_start(&store->keeper), 0);
	for (unsigned round = 0; round < 3; round++) {
		while (!ts_block_take(blocks, &block))
			;
		ck_assert_int_eq(ts_blocks_wait(blocks), 0);
		await(blocks->reserve * 3 / 4 + 1, blocks->reserve);
	}
	/* No more than the reserve, however long it has. */
	await(blocks->reserve * 3 / 4 + 1, blocks->reserve);
}
END_TEST

/* Twice the reserve is kept, the rest goes back within seconds. */
START_TEST(gives_back)
{
	uint32_t held[800], n = 0;

	ck_assert_int_eq(ts_keeper_start(&store->keeper), 0);
	while (n < 800) {
		int err = ts_block_take(blocks, &held[n]);

		if (!err)
			n++;
		else
			ck_assert_int_eq(ts_blocks_wait(blocks), 0);
	}
	await(blocks->reserve * 3 / 4 + 1, blocks->reserve);
	while (n)
		ts_block_give(blocks, held[--n]);
	await(2 * blocks->reserve, 2 * blocks->reserve);
	ts_sleep_ns(600000000);
	ck_assert_uint_eq(ts_blocks_free_touched(blocks), 2 * blocks->reserve);
	ck_assert_uint_eq(ts_blocks_resident_bytes(blocks),
			  2ull * blocks->reserve * TS_BLOCK_BYTES);
}
END_TEST

/* It tidies by itself: sparse blocks are emptied without anyone asking. */
START_TEST(compacts)
{
	uint64_t before;

	ck_assert_int_eq(ts_store_start(store), 0);
	for (unsigned i = 0; i < 2000; i++)
		engine_write(store, i, PAGE_TEXT, i, NULL);
	for (unsigned i = 0; i < 2000; i++)
		if (i % 5)
			ck_assert_int_eq(
				ts_store_discard(store, 4096, i * 4096ull), 0);
	before = engine_counters(store).compacted_objects;
	for (unsigned i = 0; i < 2000; i++) {
		if (engine_counters(store).compacted_objects > before + 20)
			break;
		ts_sleep_ns(10000000);
	}
	ck_assert_uint_gt(engine_counters(store).compacted_objects, before);
	engine_check(store);
	for (unsigned i = 0; i < 2000; i += 5)
		engine_expect(store, i, PAGE_TEXT, i);
}
END_TEST

START_TEST(stops_at_once)
{
	ts_keeper_stop(&store->keeper);
	ck_assert_int_eq(ts_keeper_start(&store->keeper), 0);
	ts_keeper_stop(&store->keeper);
	ck_assert(!store->keeper.running);
	ts_keeper_stop(&store->keeper);
}
END_TEST

/* A budget below the reserve, as after taking over a full store, is no
 * failure: there is nothing more to touch. (No memory: fault/nomemory.)
 */
START_TEST(budget_below_reserve)
{
	blocks->budget = blocks->reserve - 1;
	ck_assert_int_eq(ts_store_start(store), 0);
	ck_assert_uint_eq(ts_blocks_free_touched(blocks), blocks->budget);
}
END_TEST

int main(void)
{
	TCase *tcase = tcase_create("keeper");

	tcase_add_checked_fixture(tcase, setup, teardown);
	tcase_add_test(tcase, reserve_is_ready_at_start);
	tcase_add_test(tcase, refills);
	tcase_add_test(tcase, gives_back);
	tcase_add_test(tcase, compacts);
	tcase_add_test(tcase, stops_at_once);
	tcase_add_test(tcase, budget_below_reserve);
	return run_case(tcase);
}
