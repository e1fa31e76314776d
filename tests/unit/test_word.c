// SPDX-License-Identifier: BSD-3-Clause
/* test_word.c - every field of a word comes back, and leaves others alone */
#include "word.h"
#include "run.h"
#include "tests/common/rng.h"

#define ROUNDS 3000u

START_TEST(none_and_zero)
{
	/* Fresh shared memory is all none. */
	ck_assert_uint_eq(ts_word_none().bits, 0);
	ck_assert_uint_eq(ts_word_kind(ts_word_none()), TS_NONE);
	ck_assert_uint_eq(ts_word_kind(ts_word_zero()), TS_ZERO);
	ck_assert(!ts_word_hot(ts_word_none()));
}
END_TEST

static void check_fill(uint64_t pattern, bool fits)
{
	ts_word w = ts_word_zero();

	ck_assert_msg(ts_word_fill(pattern, &w) == fits, "%llx",
		      (unsigned long long)pattern);
	if (!fits)
		return;
	ck_assert_uint_eq(ts_word_kind(w), TS_FILL);
	ck_assert_uint_eq(ts_word_pattern(w), pattern);
	ck_assert_uint_eq(ts_word_pattern(ts_word_set_hot(w)), pattern);
	ck_assert(!ts_word_hot(w));
}

/* Small numbers and repeated halves fit, others do not. */
START_TEST(fill)
{
	struct rng rng = {1};

	check_fill(1, true);
	check_fill(0x7fffdeadbeefu, true);
	check_fill(~0ull, true);
	check_fill(0x0101010101010101u, true);
	check_fill(0x8000000080000000u, true);
	check_fill(0xffffffff00000000u, false);
	check_fill(1ull << 63, false);
	check_fill((1ull << 63) | (1ull << 31), true);
	for (unsigned i = 0; i < 57; i++)
		check_fill(1ull << i, true);
	for (unsigned i = 0; i < ROUNDS; i++) {
		uint64_t half = rng_next(&rng) & UINT32_MAX;

		check_fill(half << 32 | half, true);
		check_fill(rng_next(&rng) >> 8, true);
		check_fill(half | 1ull << 63 | (half ^ 1) << 32, false);
	}
}
END_TEST

static void check_ram(uint64_t grains, unsigned len, unsigned codec)
{
	ts_word w = ts_word_ram((ts_obj){grains}, len, (enum ts_codec_id)codec);

	ck_assert_uint_eq(ts_word_kind(w), TS_RAM);
	ck_assert(!ts_word_hot(w));
	w = ts_word_set_hot(w);
	ck_assert(ts_word_hot(w));
	ck_assert_uint_eq(ts_word_kind(w), TS_RAM);
	ck_assert_uint_eq(ts_word_obj(w).grains, grains);
	ck_assert_uint_eq(ts_word_len(w), len);
	ck_assert_uint_eq(ts_word_codec(w), codec);
}

START_TEST(ram)
{
	struct rng rng = {2};

	check_ram(0, 1, 1);
	check_ram(TS_MAX_GRAINS - 1, 4096, TS_CODEC_IDS - 1);
	for (unsigned i = 0; i < ROUNDS; i++)
		check_ram(rng_below(&rng, TS_MAX_GRAINS),
			  (unsigned)rng_range(&rng, 1, 4096),
			  (unsigned)rng_range(&rng, 1, TS_CODEC_IDS - 1));
}
END_TEST

static void check_raw(uint64_t page, uint32_t check)
{
	ts_obj obj = {page << (12 - TS_GRAIN_SHIFT)};
	ts_word w = ts_word_set_hot(ts_word_raw(obj, check));

	ck_assert_uint_eq(ts_word_kind(w), TS_RAW);
	ck_assert_uint_eq(ts_word_obj(w).grains, obj.grains);
	ck_assert_uint_eq(ts_word_check(w), check);
	ck_assert_uint_eq(ts_word_len(w), 4096);
}

START_TEST(raw)
{
	struct rng rng = {3};

	check_raw(0, 0);
	check_raw(TS_MAX_RAW_PAGES - 1, UINT32_MAX);
	for (unsigned i = 0; i < ROUNDS; i++)
		check_raw(rng_below(&rng, TS_MAX_RAW_PAGES),
			  (uint32_t)rng_next(&rng));
}
END_TEST

/* Hot and mark come and go without touching anything else. */
static void check_flags(ts_word w)
{
	for (unsigned mark = 1; mark <= TS_WORD_MARK_MAX; mark++) {
		ts_word all = ts_word_set_mark(ts_word_set_hot(w), mark);

		ck_assert(!ts_word_hot(w));
		ck_assert_uint_eq(ts_word_mark(w), 0);
		ck_assert(ts_word_hot(all));
		ck_assert_uint_eq(ts_word_mark(all), mark);
		ck_assert(!ts_word_hot(ts_word_set_cold(all)));
		ck_assert_uint_eq(ts_word_mark(ts_word_set_cold(all)), mark);
		ck_assert(ts_word_hot(ts_word_set_mark(all, 0)));
		ck_assert_uint_eq(ts_word_mark(ts_word_set_mark(all, 0)), 0);
		ck_assert_uint_eq(ts_word_set_cold(ts_word_set_mark(all, 0))
					  .bits,
				  w.bits);
		ck_assert_uint_eq(ts_word_kind(all), ts_word_kind(w));
		ck_assert_uint_eq(ts_word_len(all), ts_word_len(w));
	}
}

START_TEST(flags)
{
	ts_obj last_page = {(TS_MAX_RAW_PAGES - 1) << (12 - TS_GRAIN_SHIFT)};
	ts_obj last = {TS_MAX_GRAINS - 1};

	check_flags(ts_word_ram((ts_obj){0}, 1, 1));
	check_flags(ts_word_ram(last, 4096, TS_CODEC_IDS - 1));
	check_flags(ts_word_raw((ts_obj){0}, 0));
	check_flags(ts_word_raw(last_page, UINT32_MAX));
	check_flags(ts_word_spill(0, 0, 1, 0));
	check_flags(ts_word_spill(TS_MAX_SEGMENTS - 1, (1u << 20) - 8, 4096, 15));
}
END_TEST

START_TEST(spill)
{
	struct rng rng = {4};

	for (unsigned i = 0; i < ROUNDS; i++) {
		uint32_t segment = (uint32_t)rng_below(&rng, TS_MAX_SEGMENTS);
		unsigned off = (unsigned)rng_below(&rng, 1u << 17) * 8;
		unsigned len = (unsigned)rng_range(&rng, 1, 4096);
		unsigned codec = (unsigned)rng_below(&rng, TS_CODEC_IDS);
		ts_word w = ts_word_spill(segment, off, len, codec);

		ck_assert_uint_eq(ts_word_kind(w), TS_SPILL);
		ck_assert_uint_eq(ts_word_segment(w), segment);
		ck_assert_uint_eq(ts_word_spill_off(w), off);
		ck_assert_uint_eq(ts_word_codec(w), codec);
		ck_assert_uint_eq(ts_word_len(w), len);
	}
}
END_TEST

START_TEST(stored_kinds)
{
	ck_assert(!ts_kind_stored(TS_NONE) && !ts_kind_stored(TS_ZERO));
	ck_assert(!ts_kind_stored(TS_FILL) && ts_kind_stored(TS_RAM));
	ck_assert(ts_kind_stored(TS_RAW) && ts_kind_stored(TS_SPILL));
}
END_TEST

/* Moving changes the place and nothing else. */
START_TEST(moved)
{
	ts_obj from = {256}, to = {512 * 256};
	ts_word w = ts_word_set_hot(ts_word_ram(from, 77, TS_CODEC_ZSTD));

	w = ts_word_moved(ts_word_set_mark(w, 2), to);
	ck_assert_uint_eq(ts_word_obj(w).grains, to.grains);
	ck_assert_uint_eq(ts_word_len(w), 77);
	ck_assert_uint_eq(ts_word_codec(w), TS_CODEC_ZSTD);
	ck_assert(ts_word_hot(w) && ts_word_mark(w) == 2);
	w = ts_word_moved(ts_word_raw(from, 0xdeadbeef), to);
	ck_assert_uint_eq(ts_word_obj(w).grains, to.grains);
	ck_assert_uint_eq(ts_word_check(w), 0xdeadbeef);
	ck_assert(!ts_word_hot(w));
}
END_TEST

int main(void)
{
	TCase *tcase = tcase_create("word");

	tcase_add_test(tcase, none_and_zero);
	tcase_add_test(tcase, fill);
	tcase_add_test(tcase, ram);
	tcase_add_test(tcase, raw);
	tcase_add_test(tcase, flags);
	tcase_add_test(tcase, spill);
	tcase_add_test(tcase, stored_kinds);
	tcase_add_test(tcase, moved);
	return run_case(tcase);
}
