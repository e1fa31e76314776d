// SPDX-License-Identifier: BSD-3-Clause
/* test_ticks.c - the cheap clock says what the monotonic clock says */
#include "util/ticks.h"
#include "run.h"

#include <stdio.h>

/* Of one stretch of time: what ticks say lies between what the monotonic clock
 * says of a shorter one within and of a longer one around it.
 */
static void agree(uint64_t sleep_ns)
{
	uint64_t outer = ts_now_ns(), start = ts_ticks(), inner = ts_now_ns();
	uint64_t ticks, took_ns;

	ts_sleep_ns(sleep_ns);
	inner = ts_now_ns() - inner;
	ticks = ts_ticks() - start;
	outer = ts_now_ns() - outer;
	took_ns = ts_ticks_ns(ticks);
	ck_assert_msg(took_ns + took_ns / 1000 + 1000 >= inner &&
			      took_ns <= outer + outer / 1000 + 1000,
		      "%lu ns is not from %lu to %lu", took_ns, inner, outer);
}

START_TEST(test_before_init)
{
	ck_assert(!ts_ticks_clock.tsc);
	agree(1000000);
}
END_TEST

START_TEST(test_after_init)
{
	ts_ticks_init();
	printf("time stamp counter: %s\n", ts_ticks_clock.tsc ? "yes" : "no");
	for (unsigned i = 0; i < 20; i++)
		agree(i * 1000000);
}
END_TEST

START_TEST(test_without_counter)
{
	ts_ticks_init();
	ts_ticks_clock = (struct ts_ticks){.scale = 1ull << 32};
	agree(1000000);
}
END_TEST

START_TEST(test_never_negative)
{
	ts_ticks_init();
	ck_assert_uint_eq(ts_ticks_ns((uint64_t)-5), 0);
	/* A month does not overflow. */
	ck_assert_uint_gt(ts_ticks_ns(UINT64_MAX >> 6), 1ull << 50);
}
END_TEST

int main(void)
{
	TCase *tcase = tcase_create("ticks");

	tcase_add_test(tcase, test_before_init);
	tcase_add_test(tcase, test_after_init);
	tcase_add_test(tcase, test_never_negative);
	tcase_add_test(tcase, test_without_counter);
	return run_case(tcase);
}
