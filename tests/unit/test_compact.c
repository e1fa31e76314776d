// SPDX-License-Identifier: BSD-3-Clause
/* test_compact.c - sparse blocks are emptied, beside requests and frees
 *
 * ts_pool_isolate() is wrapped at link time, to do what requests may do while
 * a block is being emptied.
 */
#include "engine.h"

#define N 1024u

static struct ts_store *store;
static struct ts_core *core;
static void (*after_isolate)(uint32_t block);

unsigned __real_ts_pool_isolate(struct ts_pool *pool, unsigned size_class,
				enum ts_slack slack, uint32_t *ret_block,
				ts_obj *ret_obj);
unsigned __wrap_ts_pool_isolate(struct ts_pool *pool, unsigned size_class,
				enum ts_slack slack, uint32_t *ret_block,
				ts_obj *ret_obj);

unsigned __wrap_ts_pool_isolate(struct ts_pool *pool, unsigned size_class,
				enum ts_slack slack, uint32_t *ret_block,
				ts_obj *ret_obj)
{
	unsigned n = __real_ts_pool_isolate(pool, size_class, slack, ret_block,
					    ret_obj);

	if (n && after_isolate)
		after_isolate(*ret_block);
	return n;
}

static void setup(void)
{
	after_isolate = NULL;
	store = engine_new();
	core = &store->core;
}

static void teardown(void)
{
	engine_check(store);
	ts_store_free(store);
}

/* Write n pages, then drop all but every 4th. */
static void make_sparse(enum page_kind kind)
{
	for (unsigned i = 0; i < N; i++)
		engine_write(store, i, kind, i, NULL);
	for (unsigned i = 0; i < N; i++)
		if (i % 4)
			ck_assert_int_eq(
				ts_store_discard(store, 4096, i * 4096ull), 0);
}

static void expect_left(enum page_kind kind)
{
	engine_check(store);
	for (unsigned i = 0; i < N; i += 4)
		engine_expect(store, i, kind, i);
}

static uint64_t taken(void)
{
	return core->media.blocks.n_taken;
}

static void empties(enum page_kind kind)
{
	uint64_t before;
	unsigned done;

	engine_touch(store, 30);
	make_sparse(kind);
	before = taken();
	done = ts_compact(core, TS_SLACK_SOME, 1000);
	ck_assert_uint_gt(done, 0);
	ck_assert_uint_eq(taken(), before - done);
	ck_assert_uint_gt(engine_counters(store).compacted_objects, 0);
	expect_left(kind);
	/* Done is done. */
	ck_assert_uint_eq(ts_compact(core, TS_SLACK_SOME, 1000), 0);
}

START_TEST(compressed)
{
	empties(PAGE_TEXT);
}
END_TEST

START_TEST(raw)
{
	for (unsigned i = 0; i < 600; i++)
		engine_write(store, i, PAGE_RANDOM, i, NULL);
	for (unsigned i = 0; i < 600; i++)
		if (i % 4)
			ck_assert_int_eq(
				ts_store_discard(store, 4096, i * 4096ull), 0);
	ck_assert_uint_gt(ts_compact(core, TS_SLACK_SOME, 1000), 0);
	engine_check(store);
	for (unsigned i = 0; i < 600; i += 4)
		engine_expect(store, i, PAGE_RANDOM, i);
}
END_TEST

/* Pages of words move too: clusters that died leave holes between others. */
START_TEST(words)
{
	uint64_t before;

	for (unsigned nr = 0; nr < 64; nr++)
		engine_write(store, nr * TS_CLUSTER_SLOTS, PAGE_ZERO, 0, NULL);
	for (unsigned nr = 0; nr < 64; nr++)
		if (nr % 8)
			engine_write(store, nr * TS_CLUSTER_SLOTS + 1,
				     PAGE_NARROW, nr, NULL);
	for (unsigned nr = 0; nr < 64; nr++)
		if (nr % 4)
			ck_assert_int_eq(
				ts_store_discard(store, 2 * MIB, nr * 2 * MIB),
				0);
	before = taken();
	ck_assert_uint_gt(ts_compact(core, TS_SLACK_SOME, 1000), 0);
	ck_assert_uint_lt(taken(), before);
	engine_check(store);
	for (unsigned nr = 4; nr < 64; nr += 8)
		engine_expect(store, nr * TS_CLUSTER_SLOTS + 1, PAGE_NARROW,
			      nr);
}
END_TEST

START_TEST(limit)
{
	engine_touch(store, 30);
	make_sparse(PAGE_TEXT);
	ck_assert_uint_eq(ts_compact(core, TS_SLACK_SOME, 1), 1);
	ck_assert_uint_eq(ts_compact(core, TS_SLACK_SOME, 0), 0);
}
END_TEST

/* The hot bit moves along. */
START_TEST(stays_hot)
{
	unsigned hot = 0;

	engine_touch(store, 30);
	make_sparse(PAGE_TEXT);
	for (unsigned i = 0; i < N; i += 8)
		engine_expect(store, i, PAGE_TEXT, i);
	ck_assert_uint_gt(ts_compact(core, TS_SLACK_SOME, 1000), 0);
	for (unsigned i = 0; i < N; i += 4)
		hot += ts_word_hot(engine_word(store, i));
	ck_assert_uint_eq(hot, N / 8);
}
END_TEST

static uint64_t block_of(uint64_t slot)
{
	return ts_word_obj(engine_word(store, slot)).grains >>
	       (TS_BLOCK_SHIFT - TS_GRAIN_SHIFT);
}

static void drop_in(uint32_t block)
{
	for (unsigned i = 0; i < N; i++) {
		if (ts_word_kind(engine_word(store, i)) != TS_RAM ||
		    block_of(i) != block)
			continue;
		ck_assert_int_eq(ts_store_discard(store, 4096, i * 4096ull), 0);
		return;
	}
}

/* An object that its owner drops meanwhile leaves the block no less empty. */
START_TEST(dropped_meanwhile)
{
	uint64_t before;
	unsigned done;

	engine_touch(store, 30);
	make_sparse(PAGE_TEXT);
	before = taken();
	after_isolate = drop_in;
	done = ts_compact(core, TS_SLACK_SOME, 1000);
	ck_assert_uint_gt(done, 0);
	ck_assert_uint_eq(taken(), before - done);
}
END_TEST

/* Objects that no word names yet stay where they are. */
START_TEST(unpublished)
{
	uint8_t pages[64 * PAGE_BYTES];
	struct ts_batch batch;

	engine_touch(store, 30);
	make_sparse(PAGE_TEXT);
	for (unsigned i = 0; i < 64; i++)
		page_make(pages + i * PAGE_BYTES, PAGE_TEXT, 4 * i);
	ts_batch_init(&batch, 0, 64, pages);
	ck_assert_int_eq(ts_batch_prepare(core, &batch), 0);
	ts_compact(core, TS_SLACK_SOME, 1000);
	ck_assert_int_eq(ts_batch_publish(core, &batch, NULL), 0);
	engine_check(store);
	for (unsigned i = 0; i < 64; i++)
		engine_expect(store, i, PAGE_TEXT, 4 * i);
}
END_TEST

/* With no memory to move to, nothing breaks. */
START_TEST(no_memory)
{
	struct ts_blocks *blocks = &core->media.blocks;
	uint32_t held[128], n = 0;

	engine_touch(store, 30);
	make_sparse(PAGE_TEXT);
	blocks->budget = 1;
	while (!ts_block_take(blocks, &held[n]))
		n++;
	ts_compact(core, TS_SLACK_SOME, 1000);
	while (n)
		ts_block_give(blocks, held[--n]);
	expect_left(PAGE_TEXT);
}
END_TEST

int main(void)
{
	TCase *tcase = tcase_create("compact");

	tcase_add_checked_fixture(tcase, setup, teardown);
	tcase_add_test(tcase, compressed);
	tcase_add_test(tcase, raw);
	tcase_add_test(tcase, words);
	tcase_add_test(tcase, limit);
	tcase_add_test(tcase, stays_hot);
	tcase_add_test(tcase, dropped_meanwhile);
	tcase_add_test(tcase, unpublished);
	tcase_add_test(tcase, no_memory);
	return run_case(tcase);
}
