// SPDX-License-Identifier: BSD-3-Clause
/* test_stats.c - counters: none lost between threads, shards apart */
#include "stats.h"
#include "run.h"

#include <pthread.h>
#include <stdint.h>

#define THREADS 20u /* more than there are shards */
#define ROUNDS  20000

static struct ts_stats stats;

static void setup(void)
{
	ck_assert_int_eq(ts_stats_init(&stats), 0);
}

static void teardown(void)
{
	ts_stats_fini(&stats);
}

static void *add(void *arg)
{
	for (int i = 0; i < ROUNDS; i++) {
		ts_stats_add(&stats, TS_STAT_read_pages, 3);
		ts_stats_add(&stats, TS_STAT_ram_slots, i % 2 ? -1 : 2);
	}
	return (void *)(uintptr_t)ts_stats_shard();
}

START_TEST(threads)
{
	pthread_t id[THREADS];
	unsigned users[TS_STAT_SHARDS] = {0};

	for (unsigned i = 0; i < THREADS; i++)
		ck_assert(!pthread_create(&id[i], NULL, add, NULL));
	for (unsigned i = 0; i < THREADS; i++) {
		void *shard;

		pthread_join(id[i], &shard);
		ck_assert_uint_lt((uintptr_t)shard, TS_STAT_SHARDS);
		users[(uintptr_t)shard]++;
	}
	ck_assert_int_eq(ts_stats_sum(&stats, TS_STAT_read_pages),
			 3ll * THREADS * ROUNDS);
	ck_assert_int_eq(ts_stats_sum(&stats, TS_STAT_ram_slots),
			 1ll * THREADS * ROUNDS / 2);
	ck_assert_int_eq(ts_stats_sum(&stats, TS_STAT_raw_slots), 0);
	/* In turn: nobody shares while a shard is unused. */
	for (unsigned i = 0; i < TS_STAT_SHARDS; i++)
		ck_assert_uint_ge(users[i], 1);
}
END_TEST

START_TEST(one_shard_a_thread)
{
	unsigned mine = ts_stats_shard();

	ck_assert_uint_eq(ts_stats_shard(), mine);
	ts_stats_add(&stats, TS_STAT_nospace, -5);
	ck_assert_int_eq(stats.shard[mine].value[TS_STAT_nospace], -5);
	ck_assert_int_eq(ts_stats_sum(&stats, TS_STAT_nospace), -5);
}
END_TEST

/* No shard's values share a cache line with another's. */
START_TEST(apart)
{
	for (unsigned i = 0; i < TS_STAT_SHARDS; i++)
		ck_assert_uint_eq((uintptr_t)&stats.shard[i] % 64, 0);
}
END_TEST

int main(void)
{
	TCase *tcase = tcase_create("stats");

	tcase_add_checked_fixture(tcase, setup, teardown);
	tcase_add_test(tcase, threads);
	tcase_add_test(tcase, one_shard_a_thread);
	tcase_add_test(tcase, apart);
	return run_case(tcase);
}
