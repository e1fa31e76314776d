// SPDX-License-Identifier: BSD-3-Clause
/* test_check.c - the walker sees what it is there to see */
#include "engine.h"

static struct ts_store *store;
static struct ts_core *core;

static void setup(void)
{
	store = engine_new();
	core = &store->core;
	engine_write(store, 0, PAGE_TEXT, 1, NULL);
	engine_write(store, 1, PAGE_TEXT, 2, NULL);
	engine_write(store, 2, PAGE_RANDOM, 3, NULL);
	engine_write(store, 3, PAGE_NARROW, 4, NULL);
	engine_write(store, 4, PAGE_ZERO, 4, NULL);
}

static void teardown(void)
{
	engine_check(store);
	ts_store_free(store);
}

static void expect_wrong(const char *part)
{
	char why[256] = "";

	ck_assert_int_eq(ts_store_check(store, why, sizeof(why)), -EBADMSG);
	ck_assert_msg(strstr(why, part), "\"%s\" instead of \"%s\"", why, part);
}

/* Set a word behind everybody's back; returns the old one. */
static ts_word set_word(uint64_t slot, ts_word word)
{
	struct ts_cluster c;
	ts_word old;

	ts_cluster_open(&core->clusters, slot / TS_CLUSTER_SLOTS, &c);
	old = c.words[slot % TS_CLUSTER_SLOTS];
	c.words[slot % TS_CLUSTER_SLOTS] = word;
	ts_cluster_close(&c);
	return old;
}

START_TEST(good)
{
	char why[8] = "same";

	ck_assert_int_eq(ts_store_check(store, why, sizeof(why)), 0);
	ck_assert_str_eq(why, "same");
}
END_TEST

START_TEST(damaged_page)
{
	engine_object(store, 0)[15] ^= 1;
	expect_wrong("check");
	engine_object(store, 0)[15] ^= 1;
	engine_object(store, 2)[15] ^= 1;
	expect_wrong("check");
	engine_object(store, 2)[15] ^= 1;
}
END_TEST

START_TEST(live_count)
{
	ts_word old = set_word(3, ts_word_none());

	expect_wrong("live");
	set_word(3, old);
}
END_TEST

START_TEST(gauge)
{
	ts_word old = set_word(3, ts_word_zero());

	expect_wrong("gauge");
	set_word(3, old);
	ts_stats_add(&core->media.stats, TS_STAT_stored_bytes, 1);
	expect_wrong("gauge");
	ts_stats_add(&core->media.stats, TS_STAT_stored_bytes, -1);
}
END_TEST

/* Two slots that name one object. */
START_TEST(foreign_object)
{
	ts_word old = set_word(0, engine_word(store, 1));

	expect_wrong("owner");
	set_word(0, old);
}
END_TEST

START_TEST(leaked_object)
{
	uint16_t bytes = 1000;
	ts_obj obj;

	ck_assert_int_eq(ts_pool_alloc(&core->media.pool, 1, &bytes, &obj), 0);
	expect_wrong("no word names");
	ts_pool_free(&core->media.pool, 1, &obj);
}
END_TEST

START_TEST(leaked_block)
{
	uint32_t block;

	ck_assert_int_eq(ts_block_take(&core->media.blocks, &block), 0);
	expect_wrong("blocks taken");
	ts_block_give(&core->media.blocks, block);
}
END_TEST

/* Words that name nothing, or what is not in the segment at all. */
START_TEST(wild_words)
{
	ts_obj page = {(uint64_t)127 << (TS_BLOCK_SHIFT - TS_GRAIN_SHIFT)};
	const ts_word wild[] = {
		ts_word_raw(page, 0),
		ts_word_ram(page, 100, TS_CODEC_ZSTD),
		ts_word_ram((ts_obj){TS_MAX_GRAINS - 1}, 100, TS_CODEC_ZSTD),
		ts_word_raw((ts_obj){(TS_MAX_RAW_PAGES - 1) << 8}, 1),
	};

	for (unsigned i = 0; i < sizeof(wild) / sizeof(*wild); i++) {
		ts_word old = set_word(0, wild[i]);

		expect_wrong("not in use");
		set_word(0, old);
	}
}
END_TEST

START_TEST(unknown_kind)
{
	ts_word old = set_word(0, (ts_word){7});

	expect_wrong("kind");
	set_word(0, old);
}
END_TEST

int main(void)
{
	TCase *tcase = tcase_create("check");

	tcase_add_checked_fixture(tcase, setup, teardown);
	tcase_add_test(tcase, good);
	tcase_add_test(tcase, damaged_page);
	tcase_add_test(tcase, live_count);
	tcase_add_test(tcase, gauge);
	tcase_add_test(tcase, foreign_object);
	tcase_add_test(tcase, leaked_object);
	tcase_add_test(tcase, leaked_block);
	tcase_add_test(tcase, wild_words);
	tcase_add_test(tcase, unknown_kind);
	return run_case(tcase);
}
