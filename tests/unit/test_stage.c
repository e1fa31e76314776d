// SPDX-License-Identifier: BSD-3-Clause
/* test_stage.c - stage.h, worker.h and backend_staged.c
 *
 * The workers run only when a test starts them: until then pages stay staged,
 * and every order of events can be had.
 */
#include "engine.h"
#include "stage.h"

#define FRAMES 64u

static struct ts_store *store;
static struct ts_stage *stage;

static void make(void)
{
	struct ts_params params;

	ts_params_init(&params);
	params.size_bytes = TEST_SLOTS * 4096ull;
	params.ram_bytes = TEST_RAM;
	params.write_behind_bytes = FRAMES * 4096ull;
	params.workers = 2;
	store = rig_make(&params);
	stage = store->core.media.stage;
	engine_touch(store, 64);
}

static void end(void)
{
	ts_store_free(store);
}

static int64_t stat_of(enum ts_stat stat)
{
	return ts_stats_sum(&store->core.media.stats, stat);
}

static void run_workers(void)
{
	ck_assert_int_eq(ts_workers_start(&store->workers), 0);
	/* Each page is looked at in the end; how long that takes is theirs. */
	for (;;) {
		ts_workers_rest(&store->workers);
		if (stage->n_free == stage->n_frames)
			break;
		ts_workers_go_on(&store->workers);
		ts_sleep_ns(1000000);
	}
	ts_workers_go_on(&store->workers);
	engine_check(store);
	ck_assert_int_eq(stat_of(TS_STAT_staged_slots), 0);
}

static enum ts_kind kind_of(uint64_t slot)
{
	return ts_word_kind(engine_word(store, slot));
}

START_TEST(accepted_then_compressed)
{
	for (unsigned i = 0; i < 20; i++)
		engine_write(store, 100 + i, PAGE_TEXT, i, NULL);
	engine_write(store, 7, PAGE_RANDOM, 1, NULL);
	ck_assert_int_eq(stat_of(TS_STAT_staged_slots), 21);
	ck_assert_int_eq(stat_of(TS_STAT_compressed_pages), 0);
	ck_assert_int_eq(stat_of(TS_STAT_stored_bytes), 0);
	engine_expect(store, 105, PAGE_TEXT, 5);
	engine_check(store);

	run_workers();
	for (unsigned i = 0; i < 20; i++) {
		ck_assert_int_eq(kind_of(100 + i), TS_RAM);
		engine_expect(store, 100 + i, PAGE_TEXT, i);
	}
	/* It was read while it was staged, and keeps its second chance. */
	ck_assert(ts_word_hot(engine_word(store, 105)));
	ck_assert_int_eq(kind_of(7), TS_RAW);
	engine_expect(store, 7, PAGE_RANDOM, 1);
}
END_TEST

/* What costs nothing is not staged, and neither is what repeats. */
START_TEST(words_at_once)
{
	engine_write(store, 1, PAGE_ZERO, 0, NULL);
	engine_write(store, 2, PAGE_NARROW, 3, NULL);
	engine_write(store, 3, PAGE_WIDE, 4, NULL);
	ck_assert_int_eq(kind_of(1), TS_ZERO);
	ck_assert_int_eq(kind_of(2), TS_FILL);
	ck_assert_int_eq(kind_of(3), TS_RAM);
	ck_assert_uint_eq(stage->n_free, FRAMES);
}
END_TEST

/* No free frame: the writing thread compresses. */
START_TEST(full_stage)
{
	for (unsigned i = 0; i < FRAMES + 10; i++)
		engine_write(store, i, PAGE_TEXT, i, NULL);
	ck_assert_uint_eq(stage->n_free, 0);
	ck_assert_int_eq(kind_of(FRAMES - 1), TS_STAGED);
	ck_assert_int_eq(kind_of(FRAMES), TS_RAM);
	engine_check(store);
	run_workers();
	for (unsigned i = 0; i < FRAMES + 10; i++)
		engine_expect(store, i, PAGE_TEXT, i);
	engine_write(store, 500, PAGE_TEXT, 1, NULL);
}
END_TEST

/* Overwritten, overwritten by zeroes, discarded, its cluster discarded: the
 * frame stays until a worker has it, and the new content stands.
 */
START_TEST(replaced_while_staged)
{
	for (unsigned i = 0; i < 8; i++)
		engine_write(store, i, PAGE_TEXT, i, NULL);
	for (unsigned i = 0; i < 4; i++)
		engine_write(store, 512 + i, PAGE_TEXT, i, NULL);
	engine_write(store, 1, PAGE_TEXT, 99, NULL);
	engine_write(store, 2, PAGE_ZERO, 0, NULL);
	ck_assert_int_eq(ts_store_discard(store, 4096, 3 * 4096), 0);
	ck_assert_int_eq(ts_store_discard(store, 512 * 4096, 512 * 4096), 0);
	ck_assert_uint_eq(stage->n_free, FRAMES - 13);
	ck_assert_int_eq(stat_of(TS_STAT_staged_slots), 6);
	engine_check(store);

	run_workers();
	ck_assert_int_eq(stat_of(TS_STAT_unstaged_pages), 7);
	engine_expect(store, 0, PAGE_TEXT, 0);
	engine_expect(store, 1, PAGE_TEXT, 99);
	engine_expect(store, 2, PAGE_ZERO, 0);
	engine_expect(store, 3, PAGE_ZERO, 0);
	engine_expect(store, 4, PAGE_TEXT, 4);
	ck_assert_int_eq(kind_of(3), TS_NONE);
	ck_assert_int_eq(kind_of(512), TS_NONE);
}
END_TEST

/* A part of a slot whose page is staged. */
START_TEST(changed_while_staged)
{
	uint8_t page[PAGE_BYTES], now[PAGE_BYTES];

	engine_write(store, 9, PAGE_TEXT, 9, page);
	memset(page + 100, 0xa5, 300);
	ck_assert_int_eq(ts_store_write(store, page + 100, 300, 9 * 4096 + 100),
			 0);
	run_workers();
	ck_assert_int_eq(ts_store_read(store, now, 4096, 9 * 4096), 0);
	ck_assert_mem_eq(now, page, 4096);
}
END_TEST

/* A publication that does not come about gives its frames back. */
START_TEST(abandoned)
{
	uint8_t pages[3 * PAGE_BYTES];
	struct ts_batch batch;
	uint64_t seq = UINT64_MAX;

	for (unsigned i = 0; i < 3; i++)
		page_make(pages + i * PAGE_BYTES, PAGE_TEXT, i);
	ts_batch_init(&batch, 40, 3, pages);
	ck_assert_int_eq(ts_batch_prepare(&store->core, &batch), 0);
	ck_assert_uint_eq(stage->n_free, FRAMES - 3);
	ck_assert_int_eq(ts_batch_publish(&store->core, &batch, &seq), -EAGAIN);
	ts_batch_abandon(&store->core, &batch);
	ck_assert_uint_eq(stage->n_free, FRAMES);
	engine_check(store);
}
END_TEST

/* Runs are of neighbours, within a cluster, and no longer than agreed. */
START_TEST(runs)
{
	struct ts_staged run[TS_STAGE_RUN];

	for (unsigned i = 0; i < TS_STAGE_RUN + 2; i++)
		engine_write(store, 500 + i, PAGE_TEXT, i, NULL);
	engine_write(store, 3, PAGE_TEXT, 3, NULL);
	ck_assert_uint_eq(ts_stage_take(stage, run), 12);
	ck_assert_uint_eq(run[0].slot, 500);
	ck_assert_uint_eq(ts_stage_take(stage, run), TS_STAGE_RUN + 2 - 12);
	ck_assert_uint_eq(run[0].slot, 512);
	ck_assert_uint_eq(ts_stage_take(stage, run), 1);
	ck_assert_uint_eq(run[0].slot, 3);
	ck_assert_uint_eq(ts_stage_take(stage, run), 0);
}
END_TEST

/* Near the end of the budget a page is not taken in uncompressed. */
START_TEST(no_room_for_frames)
{
	ts_blocks_set_budget(&store->core.media.blocks,
			     store->core.media.blocks.n_taken +
				     2 * FRAMES / TS_BLOCK_PAGES);
	engine_write(store, 1, PAGE_TEXT, 1, NULL);
	ck_assert_int_eq(kind_of(1), TS_RAM);
}
END_TEST

/* Room went while they were staged: they become raw where they are. */
START_TEST(no_room_for_objects)
{
	struct ts_blocks *blocks = &store->core.media.blocks;
	uint8_t page[PAGE_BYTES];
	int err = 0;

	for (unsigned i = 0; i < 16; i++)
		engine_write(store, i, PAGE_TEXT, i, NULL);
	/* No keeper here: what is not touched cannot be waited for. */
	ts_blocks_set_budget(blocks, blocks->n_taken + blocks->n_touched);
	page_make(page, PAGE_RANDOM, 1);
	for (uint64_t slot = 1000; !err; slot++)
		err = ts_store_write(store, page, PAGE_BYTES, slot * 4096);
	ck_assert_int_eq(err, -ENOSPC);
	run_workers();
	for (unsigned i = 0; i < 16; i++) {
		ck_assert_int_eq(kind_of(i), TS_RAW);
		engine_expect(store, i, PAGE_TEXT, i);
	}
}
END_TEST

int main(void)
{
	TCase *tcase = tcase_create("stage");

	tcase_add_checked_fixture(tcase, make, end);
	tcase_add_test(tcase, accepted_then_compressed);
	tcase_add_test(tcase, words_at_once);
	tcase_add_test(tcase, full_stage);
	tcase_add_test(tcase, replaced_while_staged);
	tcase_add_test(tcase, changed_while_staged);
	tcase_add_test(tcase, abandoned);
	tcase_add_test(tcase, runs);
	tcase_add_test(tcase, no_room_for_frames);
	tcase_add_test(tcase, no_room_for_objects);
	return run_case(tcase);
}
