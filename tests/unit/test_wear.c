// SPDX-License-Identifier: BSD-3-Clause
/* test_wear.c - the token bucket of the write budget */
#include "run.h"
#include "wear.h"

#define SECOND 1000000000ull
#define DAY    (86400 * SECOND)
#define MIB    (1ull << 20)

START_TEST(no_budget_allows_all)
{
	struct ts_wear wear;

	ts_wear_init(&wear, 0, 5);
	ts_wear_spend(&wear, 1ull << 60);
	ck_assert(ts_wear_allows(&wear, 5));
}
END_TEST

START_TEST(begins_full_and_can_be_overdrawn)
{
	struct ts_wear wear;
	uint64_t now = 7;

	ts_wear_init(&wear, 24 * MIB, now);
	ck_assert(ts_wear_allows(&wear, now));
	ts_wear_spend(&wear, MIB);
	ck_assert(ts_wear_allows(&wear, now));
	ts_wear_spend(&wear, MIB);
	ck_assert(!ts_wear_allows(&wear, now));
	/* An hour's share an hour. */
	ck_assert(!ts_wear_allows(&wear, now + 3599 * SECOND));
	ck_assert(ts_wear_allows(&wear, now + 3601 * SECOND));
}
END_TEST

/* Asking often must not lose what is less than a byte. */
START_TEST(fractions_add_up)
{
	struct ts_wear wear;

	ts_wear_init(&wear, 24 * 1000, 0);
	ts_wear_spend(&wear, 1000 + 100);
	for (uint64_t ms = 1; ms < 100 * 3600; ms++)
		ck_assert(!ts_wear_allows(&wear, ms * SECOND / 1000));
	ck_assert(ts_wear_allows(&wear, 362 * SECOND));
}
END_TEST

START_TEST(holds_an_hours_share)
{
	struct ts_wear wear;

	ts_wear_init(&wear, 240 * MIB, 0);
	ck_assert(ts_wear_allows(&wear, 30 * DAY));
	ts_wear_spend(&wear, 10 * MIB + 1);
	ck_assert(!ts_wear_allows(&wear, 30 * DAY));
}
END_TEST

/* Over a day, no more than the day's bytes and the first bucket. */
START_TEST(a_day)
{
	struct ts_wear wear;
	uint64_t written = 0;

	ts_wear_init(&wear, 240 * MIB, 0);
	for (uint64_t s = 0; s < 86400; s++)
		while (ts_wear_allows(&wear, s * SECOND)) {
			ts_wear_spend(&wear, MIB);
			written += MIB;
		}
	ck_assert_uint_ge(written, 240 * MIB);
	ck_assert_uint_le(written, 251 * MIB);
}
END_TEST

int main(void)
{
	TCase *tcase = tcase_create("wear");

	tcase_add_test(tcase, no_budget_allows_all);
	tcase_add_test(tcase, begins_full_and_can_be_overdrawn);
	tcase_add_test(tcase, fractions_add_up);
	tcase_add_test(tcase, holds_an_hours_share);
	tcase_add_test(tcase, a_day);
	return run_case(tcase);
}
