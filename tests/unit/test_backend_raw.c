// SPDX-License-Identifier: BSD-3-Clause
/* test_backend_raw.c - pages that do not compress */
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

/* Whatever is left is taken as it is, exactly a page each. */
START_TEST(round_trip)
{
	make(64, PAGE_RANDOM);
	ck_assert_int_eq(
		engine_place(store, &ts_backend_raw, &batch, 1000, 64, pages),
		0);
	ck_assert_uint_eq(batch.todo, 0);
	ck_assert_uint_eq(media->blocks.n_taken, 4);
	for (unsigned i = 0; i < 64; i++) {
		ck_assert_uint_eq(ts_word_kind(batch.word[i]), TS_RAW);
		ck_assert_uint_eq(
			ts_raw_owner(&media->pool, ts_word_obj(batch.word[i])),
			1000 + i);
		ck_assert_int_eq(
			engine_restore(store, batch.word[i], 1000 + i, back),
			0);
		ck_assert_mem_eq(back, pages + i * PAGE_BYTES, PAGE_BYTES);
		ck_assert_int_ne(
			engine_restore(store, batch.word[i], 1001 + i, back),
			0);
	}
	drop();
}
END_TEST

/* Only what has no place yet, however it is spread. */
START_TEST(some)
{
	make(64, PAGE_RANDOM);
	ts_batch_init(&batch, 0, 64, pages);
	batch.todo = 0x8000000000010002u;
	ck_assert_int_eq(ts_backend_raw.place(media, &batch), 0);
	for (unsigned i = 0; i < 64; i++)
		ck_assert_uint_eq(ts_word_kind(batch.word[i]),
				  i == 1 || i == 16 || i == 63 ? TS_RAW
							       : TS_NONE);
	ck_assert_int_eq(engine_restore(store, batch.word[63], 63, back), 0);
	ck_assert_mem_eq(back, pages + 63 * PAGE_BYTES, PAGE_BYTES);
	drop();
}
END_TEST

START_TEST(damage)
{
	uint8_t *object;

	make(1, PAGE_RANDOM);
	ck_assert_int_eq(
		engine_place(store, &ts_backend_raw, &batch, 5, 1, pages), 0);
	object = ts_pool_addr(&media->pool, ts_word_obj(batch.word[0]));
	for (unsigned i = 0; i < PAGE_BYTES; i++) {
		object[i] ^= 1;
		if (!engine_restore(store, batch.word[0], 5, back))
			ck_abort_msg("byte %u does not count", i);
		object[i] ^= 1;
	}
	drop();
}
END_TEST

START_TEST(moves)
{
	uint16_t bytes = 4096;
	ts_word moved;
	ts_obj to;

	make(1, PAGE_RANDOM);
	ck_assert_int_eq(
		engine_place(store, &ts_backend_raw, &batch, 5, 1, pages), 0);
	ck_assert_int_eq(ts_pool_alloc(&media->pool, 1, &bytes, &to), 0);
	ts_backend_raw.move(media, batch.word[0], to);
	moved = ts_word_moved(batch.word[0], to);
	ck_assert_uint_eq(ts_raw_owner(&media->pool, to), 5);
	ck_assert_int_eq(engine_restore(store, moved, 5, back), 0);
	ck_assert_mem_eq(back, pages, PAGE_BYTES);
	ts_media_drop(media, 1, &moved);
	drop();
}
END_TEST

START_TEST(no_room)
{
	uint32_t held[64], n = 0;

	media->blocks.budget = 0;
	while (media->blocks.n_touched > 3)
		ck_assert_int_eq(ts_block_take(&media->blocks, &held[n++]), 0);
	/* Three of four blocks: not a page is kept. */
	make(64, PAGE_RANDOM);
	ck_assert_int_eq(
		engine_place(store, &ts_backend_raw, &batch, 0, 64, pages),
		-ENOSPC);
	ck_assert_uint_eq(batch.todo, ~0ull);
	ck_assert_uint_eq(media->blocks.n_touched, 3);
	while (n)
		ts_block_give(&media->blocks, held[--n]);
}
END_TEST

int main(void)
{
	TCase *tcase = tcase_create("backend_raw");

	tcase_add_checked_fixture(tcase, setup, teardown);
	tcase_add_test(tcase, round_trip);
	tcase_add_test(tcase, some);
	tcase_add_test(tcase, damage);
	tcase_add_test(tcase, moves);
	tcase_add_test(tcase, no_room);
	return run_case(tcase);
}
