// SPDX-License-Identifier: BSD-3-Clause
/* test_backend_ram.c - compressed pages in the pool */
#include "engine.h"

static struct ts_store *store;
static struct ts_media *media;
static struct ts_batch batch;
static uint8_t pages[TS_BATCH_PAGES * PAGE_BYTES], back[PAGE_BYTES];

static void setup(void)
{
	store = engine_new();
	media = &store->core.media;
}

static void teardown(void)
{
	engine_check(store);
	ts_store_free(store);
}

static void make(unsigned n, enum page_kind kind)
{
	for (unsigned i = 0; i < n; i++)
		page_make(pages + i * PAGE_BYTES, kind, i);
}

static void drop(void)
{
	ts_media_drop(media, batch.n, batch.word);
	ck_assert_uint_eq(media->blocks.n_taken, 0);
}

/* A full batch: every page back, told by its owner, and freed. */
static void round_trip(enum page_kind kind, enum ts_codec_id codec)
{
	make(64, kind);
	ck_assert_int_eq(
		engine_place(store, &ts_backend_ram, &batch, 1000, 64, pages),
		0);
	ck_assert_uint_eq(batch.todo, 0);
	for (unsigned i = 0; i < 64; i++) {
		ck_assert_uint_eq(ts_word_kind(batch.word[i]), TS_RAM);
		ck_assert_uint_eq(ts_word_codec(batch.word[i]), codec);
		ck_assert_uint_eq(
			ts_ram_owner(&media->pool, ts_word_obj(batch.word[i])),
			1000 + i);
		ck_assert_int_eq(
			engine_restore(store, batch.word[i], 1000 + i, back),
			0);
		ck_assert_mem_eq(back, pages + i * PAGE_BYTES, PAGE_BYTES);
		/* Not as the page of any other slot. */
		ck_assert_int_ne(
			engine_restore(store, batch.word[i], 1001 + i, back),
			0);
	}
	drop();
}

START_TEST(compressed)
{
	engine_touch(store, 30);
	round_trip(PAGE_TEXT, TS_CODEC_ZSTD);
}
END_TEST

START_TEST(patterns)
{
	round_trip(PAGE_WIDE, TS_CODEC_REPEAT);
}
END_TEST

/* Nothing longer than the largest object is taken (case 21). */
START_TEST(near)
{
	unsigned taken = 0;

	engine_touch(store, 30);
	make(64, PAGE_NEAR);
	ck_assert_int_eq(
		engine_place(store, &ts_backend_ram, &batch, 0, 64, pages), 0);
	for (unsigned i = 0; i < 64; i++) {
		if (batch.todo >> i & 1)
			continue;
		taken++;
		ck_assert_uint_le(ts_word_len(batch.word[i]) + 10,
				  TS_OBJ_MAX_BYTES);
		ck_assert_int_eq(engine_restore(store, batch.word[i], i, back),
				 0);
		ck_assert_mem_eq(back, pages + i * PAGE_BYTES, PAGE_BYTES);
	}
	ck_assert(taken > 0 && taken < 64);
	drop();
}
END_TEST

START_TEST(random_pages)
{
	make(3, PAGE_RANDOM);
	ck_assert_int_eq(
		engine_place(store, &ts_backend_ram, &batch, 0, 3, pages), 0);
	ck_assert_uint_eq(batch.todo, 7);
	ck_assert_uint_eq(media->blocks.n_taken, 0);
}
END_TEST

/* Each byte of check and data counts; the owner is no part of the page. */
START_TEST(damage)
{
	uint8_t *object;
	unsigned len;

	make(1, PAGE_TEXT);
	ck_assert_int_eq(
		engine_place(store, &ts_backend_ram, &batch, 5, 1, pages), 0);
	object = ts_pool_addr(&media->pool, ts_word_obj(batch.word[0]));
	len = ts_word_len(batch.word[0]);
	for (unsigned i = 0; i < len + 10; i++) {
		int err;

		object[i] ^= 0x20;
		err = engine_restore(store, batch.word[0], 5, back);
		if (i < 4 || i >= 10)
			ck_assert_int_ne(err, 0);
		object[i] ^= 0x20;
	}
	ck_assert_int_eq(engine_restore(store, batch.word[0], 5, back), 0);
	drop();
}
END_TEST

/* At another place, it is the same object. */
START_TEST(moves)
{
	ts_word moved;
	uint16_t bytes;
	ts_obj to;

	make(1, PAGE_TEXT);
	ck_assert_int_eq(
		engine_place(store, &ts_backend_ram, &batch, 5, 1, pages), 0);
	bytes = (uint16_t)(ts_word_len(batch.word[0]) + 10);
	ck_assert_int_eq(ts_pool_alloc(&media->pool, 1, &bytes, &to), 0);
	ts_backend_ram.move(media, batch.word[0], to);
	moved = ts_word_moved(batch.word[0], to);
	memset(ts_pool_addr(&media->pool, ts_word_obj(batch.word[0])), 0,
	       bytes);
	ck_assert_uint_eq(ts_ram_owner(&media->pool, to), 5);
	ck_assert_int_eq(engine_restore(store, moved, 5, back), 0);
	ck_assert_mem_eq(back, pages, PAGE_BYTES);
	ts_media_drop(media, 1, &moved);
	drop();
}
END_TEST

/* A slot number of 41 bits is kept whole. */
START_TEST(far_owner)
{
	uint64_t last = TS_MAX_SIZE_BYTES / 4096 - 1;

	make(1, PAGE_TEXT);
	ck_assert_int_eq(
		engine_place(store, &ts_backend_ram, &batch, last, 1, pages),
		0);
	ck_assert_uint_eq(
		ts_ram_owner(&media->pool, ts_word_obj(batch.word[0])), last);
	drop();
}
END_TEST

START_TEST(no_room)
{
	uint32_t held[64], n = 0;

	media->blocks.budget = 0;
	while (media->blocks.n_touched)
		ck_assert_int_eq(ts_block_take(&media->blocks, &held[n++]), 0);
	make(64, PAGE_TEXT);
	ck_assert_int_eq(
		engine_place(store, &ts_backend_ram, &batch, 0, 64, pages),
		-ENOSPC);
	ck_assert_uint_eq(batch.todo, ~0ull);
	for (unsigned i = 0; i < 64; i++)
		ck_assert_uint_eq(batch.word[i].bits, 0);
	while (n)
		ts_block_give(&media->blocks, held[--n]);
}
END_TEST

int main(void)
{
	TCase *tcase = tcase_create("backend_ram");

	tcase_add_checked_fixture(tcase, setup, teardown);
	tcase_add_test(tcase, compressed);
	tcase_add_test(tcase, patterns);
	tcase_add_test(tcase, near);
	tcase_add_test(tcase, random_pages);
	tcase_add_test(tcase, damage);
	tcase_add_test(tcase, moves);
	tcase_add_test(tcase, far_owner);
	tcase_add_test(tcase, no_room);
	return run_case(tcase);
}
