// SPDX-License-Identifier: BSD-3-Clause
/* test_latency.c - buckets of durations and their percentiles */
#include "latency.h"
#include "run.h"

#include <string.h>

/* Every bucket ends where the next begins, and holds what is in between. */
START_TEST(test_buckets_meet)
{
	for (unsigned i = 0; i + 1 < TS_LATENCY_BUCKETS; i++) {
		uint64_t end = ts_latency_end_ns(i);

		ck_assert_uint_eq(ts_latency_bucket(end - 1), i);
		ck_assert_uint_eq(ts_latency_bucket(end), i + 1);
	}
	ck_assert_uint_eq(ts_latency_bucket(0), 0);
	ck_assert_uint_eq(ts_latency_bucket(UINT64_MAX),
			  TS_LATENCY_BUCKETS - 1);
}
END_TEST

/* A bucket's end is at most an eighth more than what is in it. */
START_TEST(test_buckets_are_narrow)
{
	for (unsigned i = 1; i + 1 < TS_LATENCY_BUCKETS; i++) {
		uint64_t begin = ts_latency_end_ns(i - 1);

		ck_assert_uint_le(ts_latency_end_ns(i) - begin, begin / 8);
	}
}
END_TEST

static void add(struct ts_latency *hist, uint64_t ns, unsigned n)
{
	hist->bucket[ts_latency_bucket(ns)] += n;
	hist->sum_ns += n * ns;
}

/* The bucket's end, for a duration. */
static uint64_t end_of(uint64_t ns)
{
	return ts_latency_end_ns(ts_latency_bucket(ns));
}

START_TEST(test_quantiles)
{
	struct ts_latency hist = {0};

	ck_assert_uint_eq(ts_latency_quantile_ns(&hist, 500), 0);
	add(&hist, 10000, 1);
	ck_assert_uint_eq(ts_latency_quantile_ns(&hist, 1), end_of(10000));
	ck_assert_uint_eq(ts_latency_quantile_ns(&hist, 999), end_of(10000));
	add(&hist, 10000, 989);
	add(&hist, 5000000, 10);
	ck_assert_uint_eq(ts_latency_count(&hist), 1000);
	ck_assert_uint_eq(ts_latency_quantile_ns(&hist, 990), end_of(10000));
	ck_assert_uint_eq(ts_latency_quantile_ns(&hist, 991), end_of(5000000));
	ck_assert_uint_eq(ts_latency_quantile_ns(&hist, 1000), end_of(5000000));
}
END_TEST

START_TEST(test_minus)
{
	struct ts_latency before = {0}, now, diff;

	add(&before, 1000, 5);
	now = before;
	add(&now, 70000, 2);
	ts_latency_minus(&now, &before, &diff);
	ck_assert_uint_eq(ts_latency_count(&diff), 2);
	ck_assert_uint_eq(diff.sum_ns, 140000);
	ck_assert_uint_eq(ts_latency_quantile_ns(&diff, 500), end_of(70000));
}
END_TEST

int main(void)
{
	TCase *tcase = tcase_create("hist");

	tcase_add_test(tcase, test_buckets_meet);
	tcase_add_test(tcase, test_buckets_are_narrow);
	tcase_add_test(tcase, test_quantiles);
	tcase_add_test(tcase, test_minus);
	return run_case(tcase);
}
