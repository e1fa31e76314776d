// SPDX-License-Identifier: BSD-3-Clause
/* test_cluster.c - the map of slots: found, counted, moved, dropped */
#include "engine.h"

static struct ts_store *store;
static struct ts_clusters *clusters;
static struct ts_pool *pool;

static void setup(void)
{
	store = engine_new();
	clusters = &store->core.clusters;
	pool = &store->core.media.pool;
}

static void teardown(void)
{
	ts_store_free(store);
}

static ts_obj new_page(void)
{
	uint16_t bytes = 4096;
	ts_obj page;

	ck_assert_int_eq(ts_pool_alloc(pool, 1, &bytes, &page), 0);
	memset(ts_pool_addr(pool, page), 0xff, 4096);
	return page;
}

static void open_new(uint64_t nr, struct ts_cluster *c)
{
	ck_assert_int_eq(ts_cluster_prepare(clusters, nr), 0);
	ts_cluster_open(clusters, nr, c);
	ck_assert_ptr_null(c->words);
	ts_cluster_attach(clusters, c, new_page());
}

/* What is read is hot; the rest is the word. */
static uint64_t read_cold(struct ts_cluster *c, unsigned slot)
{
	return ts_word_set_cold(ts_cluster_read(c, slot)).bits;
}

static void drop(struct ts_cluster *c)
{
	ts_obj page = ts_cluster_detach(clusters, c);

	ts_pool_free(pool, 1, &page);
}

START_TEST(root_size)
{
	ck_assert_uint_eq(ts_clusters_root_bytes(1), 4);
	ck_assert_uint_eq(ts_clusters_root_bytes(TS_LEAF_CLUSTERS *
						 (uint64_t)TS_CLUSTER_SLOTS),
			  4);
	ck_assert_uint_eq(
		ts_clusters_root_bytes(
			TS_LEAF_CLUSTERS * (uint64_t)TS_CLUSTER_SLOTS + 1),
		8);
	/* 8 PiB: "a small idle footprint" */
	ck_assert_uint_eq(ts_clusters_root_bytes(TS_MAX_SIZE_BYTES / 4096),
			  1u << 20);
}
END_TEST

START_TEST(absent)
{
	struct ts_cluster c;

	ts_cluster_open(clusters, 5, &c);
	ck_assert_ptr_null(c.entry);
	ck_assert_ptr_null(c.words);
	ck_assert_uint_eq(ts_cluster_live(&c), 0);
	ck_assert_uint_eq(ts_cluster_read(&c, 511).bits, 0);
	ts_cluster_close(&c);
	ck_assert_uint_eq(ts_cluster_next(clusters, 0, 64), 64);
}
END_TEST

START_TEST(publish_and_count)
{
	struct ts_cluster c;
	ts_word fill, w;
	uint64_t seq;

	ck_assert(ts_word_fill(77, &fill));
	open_new(3, &c);
	/* New words are none, whatever the page held. */
	for (unsigned i = 0; i < TS_CLUSTER_SLOTS; i++)
		ck_assert_uint_eq(c.words[i].bits, 0);
	ck_assert_uint_eq(ts_cluster_live(&c), 0);
	seq = c.stripe->seq;
	w = ts_cluster_publish(&c, 9, ts_word_zero());
	ck_assert_uint_eq(w.bits, 0);
	ck_assert_uint_eq(ts_cluster_live(&c), 1);
	ck_assert_uint_ne(c.stripe->seq, seq);
	w = ts_cluster_publish(&c, 9, fill);
	ck_assert_uint_eq(w.bits, ts_word_zero().bits);
	ck_assert_uint_eq(ts_cluster_live(&c), 1);
	for (unsigned i = 0; i < TS_CLUSTER_SLOTS; i++)
		ts_cluster_publish(&c, i, fill);
	ck_assert_uint_eq(ts_cluster_live(&c), TS_CLUSTER_SLOTS);
	w = ts_cluster_publish(&c, 511, ts_word_none());
	ck_assert_uint_eq(w.bits, fill.bits);
	ck_assert_uint_eq(ts_cluster_live(&c), TS_CLUSTER_SLOTS - 1);
	ck_assert_uint_eq(read_cold(&c, 0), fill.bits);
	drop(&c);
	ck_assert_ptr_null(c.words);
	ts_cluster_close(&c);
	ck_assert_uint_eq(ts_cluster_next(clusters, 0, 64), 64);
}
END_TEST

/* Reading marks what can leave memory as hot, and only that. */
START_TEST(hot)
{
	struct ts_cluster c;
	ts_word w = ts_word_ram((ts_obj){0}, 10, TS_CODEC_ZSTD);

	open_new(0, &c);
	ts_cluster_publish(&c, 0, ts_word_zero());
	ts_cluster_publish(&c, 1, w);
	ts_cluster_read(&c, 0);
	ts_cluster_read(&c, 1);
	ts_cluster_read(&c, 2);
	ck_assert(!ts_word_hot(c.words[0]));
	ck_assert(ts_word_hot(c.words[1]));
	ck_assert_uint_eq(c.words[2].bits, 0);
	drop(&c);
	ts_cluster_close(&c);
}
END_TEST

/* Found again, the same words, by everyone who opens it. */
START_TEST(reopen)
{
	struct ts_cluster c;

	open_new(63, &c);
	ts_cluster_publish(&c, 1, ts_word_zero());
	ts_cluster_close(&c);
	ck_assert_uint_eq(ts_cluster_next(clusters, 0, 64), 63);
	ck_assert_uint_eq(ts_cluster_next(clusters, 63, 64), 63);
	ck_assert_uint_eq(ts_cluster_next(clusters, 0, 63), 63);
	ts_cluster_open(clusters, 63, &c);
	ck_assert_uint_eq(ts_cluster_live(&c), 1);
	ck_assert_uint_eq(read_cold(&c, 1), ts_word_zero().bits);
	drop(&c);
	ts_cluster_close(&c);
}
END_TEST

START_TEST(move)
{
	struct ts_cluster c;
	ts_obj old;
	uint64_t seq;

	open_new(7, &c);
	ts_cluster_publish(&c, 5, ts_word_zero());
	seq = c.stripe->seq;
	old = ts_cluster_move(clusters, &c, new_page());
	/* Nothing that a slot holds has changed. */
	ck_assert_uint_eq(c.stripe->seq, seq);
	ck_assert_uint_eq(ts_cluster_live(&c), 1);
	memset(ts_pool_addr(pool, old), 0xff, 4096);
	ts_pool_free(pool, 1, &old);
	ts_cluster_close(&c);
	ts_cluster_open(clusters, 7, &c);
	ck_assert_uint_eq(c.words[5].bits, ts_word_zero().bits);
	ck_assert_uint_eq(c.words[4].bits, 0);
	ck_assert_uint_eq(ts_cluster_live(&c), 1);
	ck_assert_uint_eq(*c.note >> 63, 1);
	ck_assert_uint_eq((*c.note & ~TS_NOTE_WORDS) >> TS_NOTE_CLUSTER_SHIFT,
			  7);
	drop(&c);
	ts_cluster_close(&c);
}
END_TEST

/* Dropping counts as a change: a write tied to what was there must fail. */
START_TEST(detach_changes_the_sequence)
{
	struct ts_cluster c;
	uint64_t seq;

	open_new(7, &c);
	seq = c.stripe->seq;
	drop(&c);
	ck_assert_uint_ne(c.stripe->seq, seq);
	ts_cluster_close(&c);
}
END_TEST

/* No room for a leaf: nothing is left half made. */
START_TEST(no_room)
{
	struct ts_blocks *blocks = pool->blocks;
	uint32_t held[128], n = 0;

	blocks->budget = 64;
	while (ts_blocks_free_touched(blocks))
		ck_assert_int_eq(ts_block_take(blocks, &held[n++]), 0);
	ck_assert_int_eq(ts_cluster_prepare(clusters, 0), -ENOSPC);
	ck_assert_uint_eq(clusters->root[0], 0);
	ts_block_give(blocks, held[--n]);
	ck_assert_int_eq(ts_cluster_prepare(clusters, 0), 0);
	ck_assert_int_eq(ts_cluster_prepare(clusters, 1), 0);
	ck_assert_uint_eq(ts_blocks_free_touched(blocks), 0);
}
END_TEST

/* The far ends of 8 PiB do not meet (case 17). */
START_TEST(eight_petabytes)
{
	struct ts_store *large = rig_new(TS_MAX_SIZE_BYTES, TEST_RAM);
	struct ts_clusters *map = &large->core.clusters;
	uint64_t n = map->n_clusters;
	const uint64_t nrs[] = {0,
				1,
				TS_STRIPES,
				TS_LEAF_CLUSTERS - 1,
				TS_LEAF_CLUSTERS,
				1ull << 31,
				n - 1};
	struct ts_cluster c;

	ck_assert_uint_eq(n, 1ull << 32);
	engine_touch(large, 64);
	ts_store_free(store);
	store = large;
	clusters = map;
	pool = &large->core.media.pool;
	for (unsigned i = 0; i < 7; i++) {
		open_new(nrs[i], &c);
		ts_cluster_publish(&c, i, ts_word_zero());
		ts_cluster_close(&c);
	}
	for (unsigned i = 0; i < 7; i++) {
		ts_cluster_open(map, nrs[i], &c);
		ck_assert_uint_eq(ts_cluster_live(&c), 1);
		ck_assert_uint_eq(read_cold(&c, i), TS_ZERO);
		ck_assert_uint_eq((*c.note & ~TS_NOTE_WORDS) >>
					  TS_NOTE_CLUSTER_SHIFT,
				  nrs[i]);
		ts_cluster_close(&c);
	}
	for (unsigned i = 0; i < 6; i++)
		ck_assert_uint_eq(ts_cluster_next(map, nrs[i] + 1, n),
				  nrs[i + 1]);
	ck_assert_uint_eq(ts_cluster_next(map, n, n), n);
}
END_TEST

int main(void)
{
	TCase *tcase = tcase_create("cluster");

	tcase_add_checked_fixture(tcase, setup, teardown);
	tcase_add_test(tcase, root_size);
	tcase_add_test(tcase, absent);
	tcase_add_test(tcase, publish_and_count);
	tcase_add_test(tcase, hot);
	tcase_add_test(tcase, reopen);
	tcase_add_test(tcase, move);
	tcase_add_test(tcase, detach_changes_the_sequence);
	tcase_add_test(tcase, no_room);
	tcase_add_test(tcase, eight_petabytes);
	return run_case(tcase);
}
