// SPDX-License-Identifier: BSD-3-Clause
/* test_train.c - when dictionaries are trained, and of which pages */
#include "tests/common/pages.h"
#include "run.h"
#include "train.h"
#include "util/atomic.h"
#include "util/lock.h"

#include <libgen.h>
#include <limits.h>
#include <stdio.h>
#include <unistd.h>

#define WINDOW_PAGES 16384

static struct ts_train train;
static struct ts_codec codec;
static struct ts_stats stats;
static char program[PATH_MAX];

static void setup(void)
{
	char exe[PATH_MAX - 32];
	ssize_t n = readlink("/proc/self/exe", exe, sizeof(exe) - 1);

	ck_assert_int_gt(n, 0);
	exe[n] = '\0';
	snprintf(program, sizeof(program), "%s/../../lib/thinswap-train",
		 dirname(exe));
	ck_assert_int_eq(access(program, X_OK), 0);
	ck_assert_int_eq(ts_stats_init(&stats), 0);
	ck_assert_int_eq(ts_codec_init(&codec, 1, 1, 1), 0);
	ts_train_init(&train, program, &codec, &stats);
}

static void teardown(void)
{
	ts_train_fini(&train);
	ts_codec_fini(&codec);
	ts_stats_fini(&stats);
}

static int64_t dictionaries(void)
{
	return ts_stats_sum(&stats, TS_STAT_dictionaries);
}

/* Offer pages, as many as it takes until one more dictionary was tried.
 * Returns their number, or @max.
 */
static unsigned offer(enum page_kind kind, unsigned max)
{
	unsigned before = train.n_trained, n = 0;
	uint8_t page[PAGE_BYTES];

	ts_train_step(&train);
	while (n < max && train.n_trained == before) {
		/* Only pages that are taken need to be made. */
		if (n % 8 == 0)
			page_make(page, kind, before << 20 | n);
		ts_train_offer(&train, page);
		n++;
		if (ts_load_relaxed(&train.copied) == TS_SAMPLE_PAGES)
			ts_train_step(&train);
		while (train.state == TS_TRAIN_TRAINING) {
			ts_train_step(&train);
			ts_sleep_ns(1000000);
		}
	}
	return n;
}

/* 512 pages: one in 8, then one in 64, then none as long as nothing changes. */
START_TEST(soon_and_again)
{
	ck_assert_uint_eq(offer(PAGE_TEXT, 100000), 511 * 8 + 1);
	ck_assert_int_eq(dictionaries(), 1);
	/* The count of offers goes on where it was. */
	ck_assert_uint_gt(offer(PAGE_TEXT, 100000), 510 * 64);
	ck_assert_int_eq(dictionaries(), 2);
	ck_assert_uint_eq(offer(PAGE_TEXT, 100000), 100000);
	ck_assert_int_eq(dictionaries(), 2);
}
END_TEST

static void compressed(int64_t bytes_a_page)
{
	ts_stats_add(&stats, TS_STAT_compressed_pages, WINDOW_PAGES);
	ts_stats_add(&stats, TS_STAT_compressed_bytes,
		     WINDOW_PAGES * bytes_a_page);
}

/* An eighth worse than right after the last one. */
START_TEST(drift)
{
	offer(PAGE_TEXT, 100000);
	offer(PAGE_TEXT, 100000);
	compressed(1000);
	ck_assert(!ts_train_step(&train));
	compressed(1120);
	ck_assert(!ts_train_step(&train));
	compressed(1130);
	ck_assert(ts_train_step(&train));
	ck_assert_uint_eq(train.state, TS_TRAIN_SAMPLING);
	ck_assert_uint_le(offer(PAGE_TEXT, 100000), 512 * 8);
	ck_assert_int_eq(dictionaries(), 3);
}
END_TEST

/* Where no dictionary wins, that is not tried again and again. */
START_TEST(declined)
{
	train.program = "/bin/false";
	ck_assert_uint_le(offer(PAGE_TEXT, 100000), 512 * 8);
	ck_assert_uint_le(offer(PAGE_TEXT, 100000), 513 * 64);
	ck_assert_int_eq(dictionaries(), 0);
	ck_assert_uint_eq(offer(PAGE_TEXT, 100000), 100000);
}
END_TEST

/* One that was kept from before a restart came from enough pages. */
START_TEST(kept)
{
	codec.dicts.added = 1;
	ck_assert(!ts_train_step(&train));
	ck_assert_uint_eq(train.state, TS_TRAIN_IDLE);
}
END_TEST

int main(void)
{
	TCase *tcase = tcase_create("train");

	tcase_add_checked_fixture(tcase, setup, teardown);
	tcase_add_test(tcase, soon_and_again);
	tcase_add_test(tcase, drift);
	tcase_add_test(tcase, declined);
	tcase_add_test(tcase, kept);
	return run_case(tcase);
}
