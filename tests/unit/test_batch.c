// SPDX-License-Identifier: BSD-3-Clause
/* test_batch.c - prepare outside, publish, drop after */
#include "engine.h"

static struct ts_store *store;
static struct ts_core *core;
static struct ts_batch batch;
static uint8_t pages[TS_BATCH_PAGES * PAGE_BYTES];

static void setup(void)
{
	store = engine_new();
	core = &store->core;
}

static void teardown(void)
{
	engine_check(store);
	ts_store_free(store);
}

/* Pages of all kinds from @slot on, @seed theirs. */
static void init(uint64_t slot, unsigned n, uint64_t seed)
{
	for (unsigned i = 0; i < n; i++)
		page_make(pages + i * PAGE_BYTES,
			  (enum page_kind)(i % PAGE_KINDS), seed + i);
	ts_batch_init(&batch, slot, n, pages);
}

static void expect(uint64_t slot, unsigned n, uint64_t seed)
{
	for (unsigned i = 0; i < n; i++)
		engine_expect(store, slot + i, (enum page_kind)(i % PAGE_KINDS),
			      seed + i);
}

static uint64_t sequence(uint64_t nr)
{
	struct ts_cluster c;
	uint64_t seq;

	ts_cluster_open(&core->clusters, nr, &c);
	seq = c.stripe->seq;
	ts_cluster_close(&c);
	return seq;
}

START_TEST(classify)
{
	init(7, 14, 1);
	ck_assert_uint_eq(batch.n, 14);
	ck_assert_uint_eq(batch.slot, 7);
	ck_assert_uint_eq(batch.todo, (1u << 14) - 1);
	/* zero, narrow, twice and wide, two times */
	ck_assert_uint_eq(batch.repeats, 0xf | 0xf << 7);
	ck_assert_uint_eq(batch.pattern[0], 0);
	init(0, 64, 1);
	ck_assert_uint_eq(batch.todo, ~0ull);
	init(0, 1, 1);
	ck_assert_uint_eq(batch.todo, 1);
}
END_TEST

/* Nothing of the batch before is left in the next (seeds, part 3). */
START_TEST(reuse)
{
	init(0, 64, 1);
	ck_assert_int_eq(ts_batch_prepare(core, &batch), 0);
	ck_assert_int_eq(ts_batch_publish(core, &batch, NULL), 0);
	init(100, 3, 900);
	ck_assert_int_eq(ts_batch_prepare(core, &batch), 0);
	ck_assert_int_eq(ts_batch_publish(core, &batch, NULL), 0);
	expect(0, 64, 1);
	expect(100, 3, 900);
	engine_expect(store, 103, PAGE_ZERO, 0);
}
END_TEST

/* Each page goes to the kind that is made for it. */
START_TEST(right_kinds)
{
	static const enum ts_kind kinds[PAGE_KINDS] = {
		[PAGE_ZERO] = TS_ZERO,  [PAGE_NARROW] = TS_FILL,
		[PAGE_TWICE] = TS_FILL, [PAGE_WIDE] = TS_RAM,
		[PAGE_TEXT] = TS_RAM,   [PAGE_NEAR] = TS_NONE,
		[PAGE_RANDOM] = TS_RAW,
	};

	init(0, 21, 5);
	ck_assert_int_eq(ts_batch_prepare(core, &batch), 0);
	ck_assert_uint_eq(batch.todo, 0);
	ck_assert_ptr_null(batch.encoder);
	for (unsigned i = 0; i < 21; i++)
		if (i % PAGE_KINDS != PAGE_NEAR)
			ck_assert_uint_eq(ts_word_kind(batch.word[i]),
					  kinds[i % PAGE_KINDS]);
	ts_batch_abandon(core, &batch);
}
END_TEST

/* Abandoned: nothing is stored, nothing has changed. */
START_TEST(abandon)
{
	init(0, 64, 1);
	ck_assert_int_eq(ts_batch_prepare(core, &batch), 0);
	ck_assert_int_eq(ts_batch_publish(core, &batch, NULL), 0);
	init(0, 64, 500);
	ck_assert_int_eq(ts_batch_prepare(core, &batch), 0);
	ts_batch_abandon(core, &batch);
	engine_check(store);
	expect(0, 64, 1);
}
END_TEST

/* A change of the cluster in between, of any kind, refuses the publication. */
START_TEST(tied)
{
	uint64_t seq;

	engine_write(store, 1, PAGE_TEXT, 1, NULL);
	seq = sequence(0);
	init(0, 1, 10);
	ck_assert_int_eq(ts_batch_prepare(core, &batch), 0);
	ck_assert_int_eq(ts_batch_publish(core, &batch, &seq), 0);

	seq = sequence(0);
	engine_write(store, 1, PAGE_TEXT, 2, NULL);
	init(0, 1, 20);
	ck_assert_int_eq(ts_batch_prepare(core, &batch), 0);
	ck_assert_int_eq(ts_batch_publish(core, &batch, &seq), -EAGAIN);
	/* It is still prepared: now it goes in. */
	seq = sequence(0);
	ck_assert_int_eq(ts_batch_publish(core, &batch, &seq), 0);

	seq = sequence(0);
	ts_batch_discard(core, 0, 0, TS_CLUSTER_SLOTS);
	init(0, 1, 30);
	ck_assert_int_eq(ts_batch_prepare(core, &batch), 0);
	ck_assert_int_eq(ts_batch_publish(core, &batch, &seq), -EAGAIN);
	ts_batch_abandon(core, &batch);
	/* The words made for it are gone again. */
	ck_assert_uint_eq(engine_counters(store).clusters, 0);
	ck_assert_uint_eq(core->media.blocks.n_taken, 1); /* the leaf */
}
END_TEST

/* No room for the words: the pages are still prepared, or given up. */
START_TEST(no_room_for_words)
{
	struct ts_blocks *blocks = &core->media.blocks;
	uint32_t held[128], n = 0;

	init(0, 64, 1);
	ck_assert_int_eq(ts_batch_prepare(core, &batch), 0);
	blocks->budget = 1;
	while (!ts_block_take(blocks, &held[n]))
		n++;
	ck_assert_int_eq(ts_batch_publish(core, &batch, NULL), -ENOSPC);
	while (n)
		ts_block_give(blocks, held[--n]);
	blocks->budget = blocks->n;
	ck_assert_int_eq(ts_batch_publish(core, &batch, NULL), 0);
	expect(0, 64, 1);
}
END_TEST

/* Any part of a cluster, counted once, and the cluster with its last slot. */
START_TEST(discard)
{
	for (unsigned at = 0; at < TS_CLUSTER_SLOTS; at += 64) {
		engine_touch(store, 4);
		init(at, 64, at);
		ck_assert_int_eq(ts_batch_prepare(core, &batch), 0);
		ck_assert_int_eq(ts_batch_publish(core, &batch, NULL), 0);
	}
	ts_batch_discard(core, 0, 10, 50);
	ck_assert_uint_eq(engine_counters(store).discarded_pages, 50);
	ts_batch_discard(core, 0, 0, 100);
	ck_assert_uint_eq(engine_counters(store).discarded_pages, 100);
	ts_batch_discard(core, 0, 100, 0);
	ts_batch_discard(core, 3, 0, TS_CLUSTER_SLOTS);
	engine_check(store);
	engine_expect(store, 99, PAGE_ZERO, 0);
	engine_expect(store, 100, (enum page_kind)(36 % PAGE_KINDS), 64 + 36);
	ts_batch_discard(core, 0, 100, TS_CLUSTER_SLOTS - 100);
	ck_assert_uint_eq(engine_counters(store).discarded_pages,
			  TS_CLUSTER_SLOTS);
	ck_assert_uint_eq(engine_counters(store).clusters, 0);
}
END_TEST

int main(void)
{
	TCase *tcase = tcase_create("batch");

	tcase_add_checked_fixture(tcase, setup, teardown);
	tcase_add_test(tcase, classify);
	tcase_add_test(tcase, reuse);
	tcase_add_test(tcase, right_kinds);
	tcase_add_test(tcase, abandon);
	tcase_add_test(tcase, tied);
	tcase_add_test(tcase, no_room_for_words);
	tcase_add_test(tcase, discard);
	return run_case(tcase);
}
