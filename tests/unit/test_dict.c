// SPDX-License-Identifier: BSD-3-Clause
/* test_dict.c - an encoder does what it says when dictionaries change */
#include "tests/common/coders.h"
#include "tests/common/pages.h"
#include "run.h"

#include <string.h>
#include <zdict.h>

#define SAMPLES 256u

static struct ts_codec codec;

static void setup(void)
{
	ck_assert_int_eq(ts_codec_init(&codec, 1, 1, 1), 0);
}

static void teardown(void)
{
	ts_codec_fini(&codec);
}

static void add_dictionary(unsigned seed)
{
	static uint8_t sample[SAMPLES * PAGE_BYTES], dict[TS_DICT_BYTES];
	static size_t bytes[SAMPLES];
	size_t n;

	for (unsigned i = 0; i < SAMPLES; i++) {
		page_make(sample + i * PAGE_BYTES, PAGE_TEXT, seed + i);
		bytes[i] = PAGE_BYTES;
	}
	n = ZDICT_trainFromBuffer(dict, sizeof(dict), sample, bytes, SAMPLES);
	ck_assert(!ZDICT_isError(n));
	ck_assert_int_eq(ts_dicts_add(&codec.dicts, dict, n), 0);
}

/* Compress and restore one page with whatever is current. */
static enum ts_codec_id there_and_back(unsigned seed)
{
	uint8_t page[PAGE_BYTES], object[PAGE_BYTES], back[PAGE_BYTES];
	struct ts_coder *coder = ts_codec_encoder(&codec);
	enum ts_codec_id id = coder->codec;
	unsigned len;

	page_make(page, PAGE_TEXT, seed);
	len = ts_codec_compress(coder, page, object, 3800);
	give_encoder(&codec, coder);
	ck_assert_uint_gt(len, 0);
	coder = take_decoder(&codec);
	ck_assert_int_eq(ts_codec_restore(coder, id, object, len, back), 0);
	give_decoder(&codec, coder);
	ck_assert_mem_eq(back, page, PAGE_BYTES);
	return id;
}

/* A page that does not fit leaves zstd in the middle of a frame. */
static void fail_to_compress(void)
{
	struct ts_coder *coder = ts_codec_encoder(&codec);
	uint8_t page[PAGE_BYTES], object[PAGE_BYTES];

	page_make(page, PAGE_TEXT, 1);
	ck_assert_uint_eq(ts_codec_compress(coder, page, object, 100), 0);
	give_encoder(&codec, coder);
}

START_TEST(changes_between_pages)
{
	ck_assert_int_eq(there_and_back(1), TS_CODEC_ZSTD);
	add_dictionary(1000);
	ck_assert_int_eq(there_and_back(2), TS_DICT_FIRST);
	add_dictionary(900000);
	ck_assert_int_eq(there_and_back(3), TS_DICT_FIRST + 1);
}
END_TEST

START_TEST(changes_after_a_failure)
{
	fail_to_compress();
	add_dictionary(1000);
	ck_assert_int_eq(there_and_back(2), TS_DICT_FIRST);
	fail_to_compress();
	add_dictionary(900000);
	ck_assert_int_eq(there_and_back(3), TS_DICT_FIRST + 1);
}
END_TEST

int main(void)
{
	TCase *tcase = tcase_create("dict");

	tcase_add_checked_fixture(tcase, setup, teardown);
	tcase_add_test(tcase, changes_between_pages);
	tcase_add_test(tcase, changes_after_a_failure);
	return run_case(tcase);
}
