/* SPDX-License-Identifier: BSD-3-Clause */
/* test_hist.c - percentiles are never below the truth, nor 1.6 % above it */
#include "hist.h"

#include <check.h>
#include <stdlib.h>

static struct ts_hist hist;

static void reset(void)
{
	hist = (struct ts_hist){0};
}

static void ck_near(uint64_t got, uint64_t want)
{
	ck_assert_uint_ge(got, want);
	ck_assert_uint_le(got, want + want / 64);
}

START_TEST(single_values)
{
	for (uint64_t v = 1; v < 1ull << 39; v = v * 3 / 2 + 1) {
		reset();
		ts_hist_add(&hist, v);
		ts_hist_add(&hist, UINT64_MAX); /* so that max does not help */
		ck_near(ts_hist_percentile(&hist, .5), v);
	}
}
END_TEST

START_TEST(uniform)
{
	reset();
	for (uint64_t v = 1; v <= 100000; v++)
		ts_hist_add(&hist, v);
	ck_near(ts_hist_percentile(&hist, .5), 50000);
	ck_near(ts_hist_percentile(&hist, .95), 95000);
	ck_near(ts_hist_percentile(&hist, .999), 99900);
	ck_assert_uint_eq(ts_hist_percentile(&hist, 1), 100000);
	ck_assert_uint_eq(hist.max_ns, 100000);
	ck_assert_uint_eq(hist.count, 100000);
}
END_TEST

START_TEST(merged_is_the_same_as_one)
{
	static struct ts_hist half[2];

	reset();
	for (uint64_t v = 0; v < 10000; v++) {
		ts_hist_add(&hist, v * v);
		ts_hist_add(&half[v % 2], v * v);
	}
	ts_hist_merge(&half[0], &half[1]);
	for (double share = .001; share <= 1; share += .001)
		ck_assert_uint_eq(ts_hist_percentile(&half[0], share),
				  ts_hist_percentile(&hist, share));
	ck_assert_uint_eq(half[0].sum_ns, hist.sum_ns);
}
END_TEST

START_TEST(empty)
{
	reset();
	ck_assert_uint_eq(ts_hist_percentile(&hist, .99), 0);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("hist");
	TCase *tcase = tcase_create("hist");
	SRunner *runner = srunner_create(suite);

	tcase_add_test(tcase, single_values);
	tcase_add_test(tcase, uniform);
	tcase_add_test(tcase, merged_is_the_same_as_one);
	tcase_add_test(tcase, empty);
	suite_add_tcase(suite, tcase);
	srunner_run_all(runner, CK_NORMAL);

	int failed = srunner_ntests_failed(runner);

	srunner_free(runner);
	return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
