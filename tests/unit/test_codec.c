// SPDX-License-Identifier: BSD-3-Clause
/* test_codec.c - pages to objects and back, at every level */
#include "tests/common/coders.h"
#include "tests/common/pages.h"
#include "tests/common/rng.h"
#include "run.h"
#include "util/atomic.h"
#include "util/lock.h"

#include <errno.h>
#include <pthread.h>
#include <string.h>

static struct ts_codec codec;
static struct ts_coder *encoder, *decoder;
static uint8_t page[PAGE_BYTES + 1], back[PAGE_BYTES + 1];
static uint8_t data[2 * PAGE_BYTES];

static void start(int level)
{
	ck_assert_int_eq(ts_codec_init(&codec, level, 1, 1), 0);
	encoder = take_encoder(&codec);
	decoder = take_decoder(&codec);
}

static void stop(void)
{
	give_encoder(&codec, encoder);
	give_decoder(&codec, decoder);
	ts_codec_fini(&codec);
}

static void setup(void)
{
	start(TS_CODEC_LEVEL_DEFAULT);
}

/* Compress and restore @page; returns the length. */
static unsigned round_trip(unsigned max)
{
	unsigned n;

	memset(data, 0xee, sizeof(data));
	n = ts_codec_compress(encoder, page, data, max);
	ck_assert_uint_le(n, max);
	ck_assert_uint_eq(data[max], 0xee);
	if (!n)
		return 0;
	memset(back, 0, sizeof(back));
	ck_assert_int_eq(
		ts_codec_restore(decoder, TS_CODEC_ZSTD, data, n, back), 0);
	ck_assert_mem_eq(back, page, PAGE_BYTES);
	return n;
}

/* An error of zstd would look like a page that does not compress. */
START_TEST(all_levels)
{
	for (int level = TS_CODEC_LEVEL_MIN; level <= TS_CODEC_LEVEL_MAX;
	     level++) {
		start(level);
		for (unsigned seed = 0; seed < 20; seed++) {
			page_make(page, PAGE_TEXT, seed);
			ck_assert_msg(round_trip(PAGE_BYTES) > 0, "level %d",
				      level);
		}
		stop();
	}
}
END_TEST

/* zstd wants this much more room than it uses in the end. */
#define ZSTD_MARGIN 16u

/* Limits about what the page needs: never a byte beyond (case 21). */
START_TEST(limits)
{
	for (unsigned seed = 0; seed < 40; seed++) {
		unsigned n;

		page_make(page, seed % 2 ? PAGE_NEAR : PAGE_TEXT, seed);
		n = round_trip(PAGE_BYTES + 100);
		ck_assert_uint_gt(n, 0);
		ck_assert_uint_eq(round_trip(n + ZSTD_MARGIN), n);
		for (unsigned less = 1; less < 40; less++)
			ck_assert_uint_eq(round_trip(n - less), 0);
		/* And it works again after it did not fit. */
		ck_assert_uint_eq(round_trip(PAGE_BYTES + 100), n);
	}
}
END_TEST

START_TEST(random_page)
{
	page_make(page, PAGE_RANDOM, 1);
	ck_assert_uint_eq(round_trip(3840), 0);
}
END_TEST

START_TEST(patterns)
{
	uint64_t pattern = 0x123456789abcdef0u, found;

	ts_page_fill(page + 1, pattern);
	ck_assert(ts_page_repeats(page + 1, &found));
	ck_assert_uint_eq(found, pattern);
	/* One byte anywhere else makes it no pattern. */
	for (unsigned i = 0; i < PAGE_BYTES; i++) {
		page[1 + i] ^= 0x10;
		if (ts_page_repeats(page + 1, &found))
			ck_abort_msg("byte %u was not looked at", i);
		page[1 + i] ^= 0x10;
	}
	ck_assert_int_eq(
		ts_codec_restore(decoder, TS_CODEC_REPEAT, &pattern, 8, back),
		0);
	ck_assert_mem_eq(back, page + 1, PAGE_BYTES);
	ck_assert_uint_eq(back[PAGE_BYTES], 0);
}
END_TEST

START_TEST(refused)
{
	unsigned n;

	page_make(page, PAGE_TEXT, 3);
	n = round_trip(PAGE_BYTES);
	for (unsigned cut = 1; cut < n; cut++)
		ck_assert_int_eq(ts_codec_restore(decoder, TS_CODEC_ZSTD, data,
						  cut, back),
				 -EBADMSG);
	for (unsigned len = 1; len < 20; len++)
		ck_assert_int_eq(ts_codec_restore(decoder, TS_CODEC_REPEAT,
						  data, len, back),
				 len == 8 ? 0 : -EBADMSG);
	ck_assert_int_eq(
		ts_codec_restore(decoder, (enum ts_codec_id)0, data, n, back),
		-EBADMSG);
	/* A frame of two pages is not a page. */
	memcpy(data + n, data, n);
	ck_assert_int_eq(
		ts_codec_restore(decoder, TS_CODEC_ZSTD, data, 2 * n, back),
		-EBADMSG);
	/* None of this harms the decoder. */
	round_trip(PAGE_BYTES);
}
END_TEST

/* The check depends on every byte, on the length and on the slot. */
START_TEST(check)
{
	uint32_t good;

	page_make(page, PAGE_RANDOM, 3);
	good = ts_codec_check(page, 4096, 77);
	ck_assert_uint_eq(ts_codec_check(page, 4096, 77), good);
	ck_assert_uint_ne(ts_codec_check(page, 4095, 77), good);
	ck_assert_uint_ne(ts_codec_check(page, 4096, 78), good);
	ck_assert_uint_ne(ts_codec_check(page, 4096, 77 | 1ull << 40), good);
	for (unsigned i = 0; i < PAGE_BYTES; i++) {
		page[i] ^= 1;
		if (ts_codec_check(page, 4096, 77) == good)
			ck_abort_msg("byte %u does not count", i);
		page[i] ^= 1;
	}
}
END_TEST

/* More threads than coders: each waits for its turn, none shares. */
static int in_use, most;

static void *borrow(void *arg)
{
	struct rng rng = {(uintptr_t)arg};

	for (unsigned i = 0; i < 300; i++) {
		struct ts_coder *c = take_decoder(&codec);
		int n = ts_add_relaxed(&in_use, 1) + 1;
		uint64_t mine = rng_next(&rng);

		ck_assert_int_le(n, 2);
		if (n > ts_load_relaxed(&most))
			ts_store_relaxed(&most, n);
		memcpy(c->scratch, &mine, 8);
		if (i % 16 == 0)
			ts_sleep_ns(100000);
		ck_assert(!memcmp(c->scratch, &mine, 8));
		ts_add_relaxed(&in_use, -1);
		give_decoder(&codec, c);
	}
	return NULL;
}

START_TEST(threads)
{
	pthread_t id[6];

	ck_assert_int_eq(ts_codec_init(&codec, 1, 1, 2), 0);
	for (unsigned i = 0; i < 6; i++)
		ck_assert(!pthread_create(&id[i], NULL, borrow,
					  (void *)(uintptr_t)i));
	for (unsigned i = 0; i < 6; i++)
		pthread_join(id[i], NULL);
	ck_assert_int_eq(most, 2);
	ts_codec_fini(&codec);
}
END_TEST

/* What is used after a fork can be touched before it is used. */
START_TEST(touch)
{
	give_encoder(&codec, encoder);
	give_decoder(&codec, decoder);
	ts_codec_touch(&codec);
	encoder = take_encoder(&codec);
	decoder = take_decoder(&codec);
	page_make(page, PAGE_TEXT, 3);
	ck_assert_uint_gt(round_trip(PAGE_BYTES), 0);
}
END_TEST

int main(void)
{
	TCase *with = tcase_create("codec"), *own = tcase_create("own codec");
	Suite *suite = suite_create("codec");
	SRunner *runner;
	int failed;

	tcase_add_checked_fixture(with, setup, stop);
	tcase_set_timeout(with, 60);
	tcase_set_timeout(own, 60);
	tcase_add_test(own, all_levels);
	tcase_add_test(own, threads);
	tcase_add_test(with, limits);
	tcase_add_test(with, random_page);
	tcase_add_test(with, patterns);
	tcase_add_test(with, refused);
	tcase_add_test(with, check);
	tcase_add_test(with, touch);
	suite_add_tcase(suite, with);
	suite_add_tcase(suite, own);
	runner = srunner_create(suite);
	srunner_run_all(runner, CK_NORMAL);
	failed = srunner_ntests_failed(runner);
	srunner_free(runner);
	return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
