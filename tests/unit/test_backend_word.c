// SPDX-License-Identifier: BSD-3-Clause
/* test_backend_word.c - pages that are all in their word */
#include "engine.h"

static struct ts_store *store;
static struct ts_batch batch;
static uint8_t pages[TS_BATCH_PAGES * PAGE_BYTES], back[PAGE_BYTES];

static void setup(void)
{
	store = engine_new();
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

/* Each takes its own and leaves the rest, and nothing is stored. */
static void takes(const struct ts_backend *b, uint64_t mask)
{
	for (unsigned i = 0; i < PAGE_KINDS; i++)
		page_make(pages + i * PAGE_BYTES, (enum page_kind)i, i);
	ck_assert_int_eq(engine_place(store, b, &batch, 3, PAGE_KINDS, pages),
			 0);
	ck_assert_uint_eq(batch.todo, ((1u << PAGE_KINDS) - 1) & ~mask);
	for (unsigned i = 0; i < PAGE_KINDS; i++) {
		if (!(mask >> i & 1))
			continue;
		ck_assert_uint_eq(ts_word_kind(batch.word[i]), b->kind);
		memset(back, 0xee, sizeof(back));
		ck_assert_int_eq(
			engine_restore(store, batch.word[i], 3 + i, back), 0);
		ck_assert_mem_eq(back, pages + i * PAGE_BYTES, PAGE_BYTES);
	}
	ck_assert_uint_eq(store->core.media.blocks.n_taken, 0);
}

START_TEST(zero)
{
	takes(&ts_backend_zero, 1u << PAGE_ZERO);
}
END_TEST

START_TEST(fill)
{
	/* A page of zeroes is a pattern too, when nobody took it before. */
	takes(&ts_backend_fill,
	      1u << PAGE_ZERO | 1u << PAGE_NARROW | 1u << PAGE_TWICE);
}
END_TEST

START_TEST(none)
{
	memset(back, 0xee, sizeof(back));
	ck_assert_int_eq(engine_restore(store, ts_word_none(), 1, back), 0);
	make(1, PAGE_ZERO);
	ck_assert_mem_eq(back, pages, PAGE_BYTES);
}
END_TEST

/* Only what has no place is looked at. */
START_TEST(placed_before)
{
	make(2, PAGE_NARROW);
	ts_batch_init(&batch, 0, 2, pages);
	batch.todo = 2;
	ck_assert_int_eq(ts_backend_fill.place(&store->core.media, &batch), 0);
	ck_assert_uint_eq(batch.todo, 0);
	ck_assert_uint_eq(batch.word[0].bits, 0);
	ck_assert_uint_ne(batch.word[1].bits, 0);
}
END_TEST

int main(void)
{
	TCase *tcase = tcase_create("backend_word");

	tcase_add_checked_fixture(tcase, setup, teardown);
	tcase_add_test(tcase, zero);
	tcase_add_test(tcase, fill);
	tcase_add_test(tcase, none);
	tcase_add_test(tcase, placed_before);
	return run_case(tcase);
}
