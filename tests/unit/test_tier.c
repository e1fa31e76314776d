// SPDX-License-Identifier: BSD-3-Clause
/* test_tier.c - which pages leave memory, in which order, and when */
#include "engine.h"
#include "tier.h"
#include "util/atomic.h"

static struct ts_store *store;
static struct ts_tier tier;
static struct ts_pack *pack;

static void setup(void)
{
	store = engine_new();
	ts_tier_init(&tier, 95, 90);
	pack = calloc(1, sizeof(*pack));
	pack->buf = malloc(TS_SEGMENT_BYTES);
	ck_assert_ptr_nonnull(pack->buf);
}

static void teardown(void)
{
	ts_store_free(store);
	free(pack->buf);
	free(pack);
}

/* Into an empty pack. */
static unsigned victims(unsigned mark)
{
	ts_pack_begin(pack, 0, 1);
	pack->mark = mark;
	return ts_tier_fill(&tier, &store->core, pack);
}

static void read_slot(uint64_t slot)
{
	uint8_t page[PAGE_BYTES];

	ck_assert_int_eq(ts_store_read(store, page, PAGE_BYTES, slot * 4096),
			 0);
}

START_TEST(nothing_to_take)
{
	ck_assert_uint_eq(victims(1), 0);
	/* What costs nothing does not leave. */
	engine_write(store, 1, PAGE_ZERO, 1, NULL);
	engine_write(store, 2, PAGE_NARROW, 1, NULL);
	ck_assert_uint_eq(victims(1), 0);
	ck_assert(!ts_tier_has_victims(&store->core));
}
END_TEST

START_TEST(copies_and_marks)
{
	engine_write(store, 5, PAGE_TEXT, 1, NULL);
	ck_assert(ts_tier_has_victims(&store->core));
	ck_assert_uint_eq(victims(2), 1);
	ck_assert_uint_eq(pack->slot[0], 5);
	ck_assert_uint_eq(pack->record[0].len, ts_word_len(engine_word(store, 5)));
	ck_assert_mem_eq(pack->buf + pack->record[0].off + TS_RECORD_DATA,
			 ts_ram_data(&store->core.media.pool,
				     engine_word(store, 5)),
			 pack->record[0].len);
	ck_assert_uint_eq(ts_word_mark(engine_word(store, 5)), 2);
	/* It is on its way, and not taken again. */
	ck_assert_uint_eq(victims(1), 0);
	/* A new page in its place is another matter. */
	engine_write(store, 5, PAGE_TEXT, 2, NULL);
	ck_assert_uint_eq(ts_word_mark(engine_word(store, 5)), 0);
	ck_assert_uint_eq(victims(1), 1);
	engine_check(store);
}
END_TEST

START_TEST(neighbours_leave_together)
{
	for (unsigned i = 0; i < 200; i++)
		engine_write(store, i * 7 % 200 + (i % 2) * 5000, PAGE_TEXT, i,
			     NULL);
	ck_assert_uint_eq(victims(1), TS_BATCH_PAGES);
	for (unsigned i = 0; i < TS_BATCH_PAGES; i++)
		ck_assert_uint_eq(pack->slot[i] / TS_CLUSTER_SLOTS,
				  pack->slot[0] / TS_CLUSTER_SLOTS);
}
END_TEST

START_TEST(second_chance)
{
	for (unsigned i = 0; i < 4; i++)
		engine_write(store, i, PAGE_TEXT, i, NULL);
	read_slot(1);
	read_slot(3);
	ck_assert_uint_eq(victims(1), 2);
	ck_assert_uint_eq(pack->slot[0], 0);
	ck_assert_uint_eq(pack->slot[1], 2);
	/* Read again meanwhile, one keeps its chance for one more turn; with
	 * nothing else left, both go in the end.
	 */
	ck_assert_uint_eq(victims(1), 2);
	ck_assert_uint_eq(pack->slot[0], 1);
}
END_TEST

START_TEST(raw_pages_first)
{
	for (unsigned i = 0; i < 10; i++)
		engine_write(store, i, i == 6 ? PAGE_RANDOM : PAGE_TEXT, i,
			     NULL);
	ck_assert_uint_eq(victims(1), 1);
	ck_assert_uint_eq(pack->slot[0], 6);
	ck_assert_uint_eq(pack->record[0].codec, TS_CODEC_RAW);
	ck_assert_uint_eq(victims(1), 9);
}
END_TEST

/* But not one that is in use, as long as others are not. */
START_TEST(hot_raw_pages_stay)
{
	for (unsigned i = 0; i < 10; i++)
		engine_write(store, i, i == 6 ? PAGE_RANDOM : PAGE_TEXT, i,
			     NULL);
	read_slot(6);
	ck_assert_uint_eq(victims(1), 9);
	for (unsigned i = 0; i < 9; i++)
		ck_assert_uint_ne(pack->slot[i], 6);
}
END_TEST

START_TEST(closed_takes_hot_ones_too)
{
	engine_write(store, 0, PAGE_TEXT, 0, NULL);
	read_slot(0);
	ts_store_relaxed(&tier.closed, true);
	ck_assert(ts_tier_low(&tier, &store->core));
	ck_assert(ts_tier_wants_spill(&tier, &store->core));
	ck_assert(!ts_tier_may_promote(&tier, &store->core));
	ck_assert_uint_eq(victims(1), 1);
}
END_TEST

START_TEST(room_is_kept)
{
	for (unsigned i = 0; i < 8; i++)
		engine_write(store, i, PAGE_RANDOM, i, NULL);
	ts_pack_begin(pack, 0, 1);
	pack->mark = 1;
	pack->used = TS_SEGMENT_BYTES / 8 * 8 - 3 * (4096 + 32) - 32;
	ck_assert_uint_eq(ts_tier_fill(&tier, &store->core, pack), 3);
	ck_assert_uint_eq(ts_tier_fill(&tier, &store->core, pack), 0);
	ck_assert_uint_eq(victims(1), 5);
}
END_TEST

/* Begin above the high mark, go on to the low one, and what comes back may
 * use what is between.
 */
START_TEST(marks)
{
	struct ts_blocks *blocks = &store->core.media.blocks;
	unsigned slot = 0;

	ck_assert(!ts_tier_low(&tier, &store->core));
	ck_assert(!ts_tier_wants_spill(&tier, &store->core));
	ck_assert(ts_tier_may_promote(&tier, &store->core));
	while (!ts_tier_wants_spill(&tier, &store->core)) {
		if (ts_blocks_free_touched(blocks) < 2)
			engine_touch(store, 2);
		engine_write(store, slot, PAGE_RANDOM, slot, NULL);
		slot++;
	}
	ck_assert(!ts_tier_low(&tier, &store->core));
	ck_assert(ts_tier_may_promote(&tier, &store->core));
	while (!ts_tier_low(&tier, &store->core)) {
		if (ts_blocks_free_touched(blocks) < 2)
			engine_touch(store, 2);
		engine_write(store, slot, PAGE_RANDOM, slot, NULL);
		slot++;
	}
	ck_assert(ts_tier_wants_spill(&tier, &store->core));
	ck_assert(!ts_tier_may_promote(&tier, &store->core));
}
END_TEST

int main(void)
{
	TCase *tcase = tcase_create("tier");

	tcase_add_checked_fixture(tcase, setup, teardown);
	tcase_add_test(tcase, nothing_to_take);
	tcase_add_test(tcase, copies_and_marks);
	tcase_add_test(tcase, neighbours_leave_together);
	tcase_add_test(tcase, second_chance);
	tcase_add_test(tcase, raw_pages_first);
	tcase_add_test(tcase, hot_raw_pages_stay);
	tcase_add_test(tcase, closed_takes_hot_ones_too);
	tcase_add_test(tcase, room_is_kept);
	tcase_add_test(tcase, marks);
	return run_case(tcase);
}
