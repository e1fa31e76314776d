// SPDX-License-Identifier: BSD-3-Clause
/* test_report.c - extents and counters */
#include "engine.h"

#define MAX_RUNS 64u

static struct ts_store *store;

static struct run {
	uint64_t off, len;
	enum ts_extent type;
} runs[MAX_RUNS];
static unsigned n_runs, stop_after;

static void setup(void)
{
	store = engine_new();
	stop_after = MAX_RUNS;
}

static void teardown(void)
{
	engine_check(store);
	ts_store_free(store);
}

static int add_run(void *opaque, uint64_t off, uint64_t len,
		   enum ts_extent type)
{
	ck_assert_ptr_eq(opaque, &runs);
	ck_assert_uint_lt(n_runs, MAX_RUNS);
	runs[n_runs++] = (struct run){off, len, type};
	return n_runs == stop_after ? 17 : 0;
}

static int extents(uint64_t len, uint64_t off)
{
	n_runs = 0;
	return ts_store_extents(store, len, off, add_run, &runs);
}

static void expect(unsigned i, uint64_t off, uint64_t len, enum ts_extent type)
{
	ck_assert_uint_lt(i, n_runs);
	ck_assert_uint_eq(runs[i].off, off);
	ck_assert_uint_eq(runs[i].len, len);
	ck_assert_int_eq(runs[i].type, type);
}

START_TEST(empty)
{
	ck_assert_int_eq(extents(TEST_SLOTS * 4096ull, 0), 0);
	ck_assert_uint_eq(n_runs, 1);
	expect(0, 0, TEST_SLOTS * 4096ull, TS_EXTENT_HOLE);
	ck_assert_int_eq(extents(1, 4097), 0);
	ck_assert_uint_eq(n_runs, 1);
	expect(0, 4097, 1, TS_EXTENT_HOLE);
	ck_assert_int_eq(extents(0, 4097), 0);
	ck_assert_uint_eq(n_runs, 0);
	ck_assert_int_eq(extents(0, TEST_SLOTS * 4096ull), 0);
	ck_assert_uint_eq(n_runs, 0);
}
END_TEST

START_TEST(range)
{
	ck_assert_int_eq(extents(1, TEST_SLOTS * 4096ull), -EINVAL);
	ck_assert_int_eq(extents(UINT64_MAX, 1), -EINVAL);
	ck_assert_uint_eq(n_runs, 0);
}
END_TEST

/* Every kind, runs that cross clusters, and holes in between. */
START_TEST(kinds)
{
	const uint64_t c = TS_CLUSTER_SLOTS;

	engine_write(store, c - 1, PAGE_TEXT, 1, NULL);
	engine_write(store, c, PAGE_RANDOM, 1, NULL);
	engine_write(store, c + 1, PAGE_NARROW, 1, NULL);
	engine_write(store, c + 2, PAGE_WIDE, 1, NULL);
	engine_write(store, c + 3, PAGE_ZERO, 1, NULL);
	engine_write(store, c + 5, PAGE_TEXT, 1, NULL);
	engine_write(store, 9 * c, PAGE_ZERO, 1, NULL);
	engine_write(store, TEST_SLOTS - 1, PAGE_TEXT, 1, NULL);

	ck_assert_int_eq(extents(TEST_SLOTS * 4096ull, 0), 0);
	ck_assert_uint_eq(n_runs, 9);
	expect(0, 0, (c - 1) * 4096, TS_EXTENT_HOLE);
	expect(1, (c - 1) * 4096, 4 * 4096, TS_EXTENT_DATA);
	expect(2, (c + 3) * 4096, 4096, TS_EXTENT_ZERO);
	expect(3, (c + 4) * 4096, 4096, TS_EXTENT_HOLE);
	expect(4, (c + 5) * 4096, 4096, TS_EXTENT_DATA);
	expect(5, (c + 6) * 4096, (8 * c - 6) * 4096, TS_EXTENT_HOLE);
	expect(6, 9 * c * 4096, 4096, TS_EXTENT_ZERO);
	expect(7, (9 * c + 1) * 4096, (TEST_SLOTS - 9 * c - 2) * 4096,
	       TS_EXTENT_HOLE);
	expect(8, (TEST_SLOTS - 1) * 4096ull, 4096, TS_EXTENT_DATA);

	/* Cut in the middle of slots. */
	ck_assert_int_eq(extents(3 * 4096 + 30, (c + 2) * 4096 + 100), 0);
	ck_assert_uint_eq(n_runs, 4);
	expect(0, (c + 2) * 4096 + 100, 4096 - 100, TS_EXTENT_DATA);
	expect(1, (c + 3) * 4096, 4096, TS_EXTENT_ZERO);
	expect(2, (c + 4) * 4096, 4096, TS_EXTENT_HOLE);
	expect(3, (c + 5) * 4096, 130, TS_EXTENT_DATA);
	ck_assert_int_eq(extents(10, (c + 3) * 4096 + 5), 0);
	ck_assert_uint_eq(n_runs, 1);
	expect(0, (c + 3) * 4096 + 5, 10, TS_EXTENT_ZERO);
}
END_TEST

/* The caller can end the walk, at any run. */
START_TEST(stops)
{
	for (unsigned i = 0; i < 5; i++)
		engine_write(store, 3 * i + 1, PAGE_TEXT, i, NULL);
	for (stop_after = 1; stop_after <= 11; stop_after++) {
		ck_assert_int_eq(extents(TEST_SLOTS * 4096ull, 0), 17);
		ck_assert_uint_eq(n_runs, stop_after);
	}
	stop_after = 12;
	ck_assert_int_eq(extents(TEST_SLOTS * 4096ull, 0), 0);
	ck_assert_uint_eq(n_runs, 11);
}
END_TEST

/* 8 PiB of nothing is one extent, at once (case 22). */
START_TEST(petabytes)
{
	struct ts_store *large = rig_new(TS_MAX_SIZE_BYTES, TEST_RAM);

	engine_touch(large, 32);
	ts_store_free(store);
	store = large;
	engine_write(store, TS_MAX_SIZE_BYTES / 4096 - 1, PAGE_TEXT, 1, NULL);
	ck_assert_int_eq(extents(TS_MAX_SIZE_BYTES, 0), 0);
	ck_assert_uint_eq(n_runs, 2);
	expect(0, 0, TS_MAX_SIZE_BYTES - 4096, TS_EXTENT_HOLE);
	expect(1, TS_MAX_SIZE_BYTES - 4096, 4096, TS_EXTENT_DATA);
}
END_TEST

/* slots used = zero + fill + ram + raw (case 47) */
START_TEST(counters)
{
	struct ts_counters c;
	unsigned slot = 0;

	engine_touch(store, 60);
	for (unsigned i = 0; i < 100; i++) {
		engine_write(store, slot++, PAGE_ZERO, i, NULL);
		engine_write(store, slot++, PAGE_NARROW, i, NULL);
		engine_write(store, slot++, PAGE_TWICE, i, NULL);
		engine_write(store, slot++, PAGE_WIDE, i, NULL);
		engine_write(store, slot++, PAGE_TEXT, i, NULL);
		engine_write(store, slot++, PAGE_RANDOM, i, NULL);
	}
	c = engine_counters(store);
	ck_assert_uint_eq(c.zero_slots, 100);
	ck_assert_uint_eq(c.fill_slots, 200);
	ck_assert_uint_eq(c.ram_slots, 200);
	ck_assert_uint_eq(c.raw_slots, 100);
	ck_assert_uint_eq(c.clusters, 2);
	ck_assert_uint_eq(c.written_pages, 600);
	ck_assert_uint_eq(c.nospace, 0);
	ck_assert_uint_eq(c.damaged, 0);
	ck_assert_uint_eq(c.budget_bytes, TEST_RAM);
	ck_assert(c.locked == store->core.kept.shm.locked);
	/* 100 raw pages, 100 wide patterns of 8 bytes, and the texts */
	ck_assert_uint_gt(c.stored_bytes, 100 * 4096 + 800);
	ck_assert_uint_lt(c.stored_bytes, 100 * 4096 + 800 + 100 * 2500);
	ck_assert_uint_ge(c.resident_bytes, c.stored_bytes);

	ck_assert_int_eq(ts_store_discard(store, 300 * 4096, 0), 0);
	c = engine_counters(store);
	ck_assert_uint_eq(c.zero_slots, 50);
	ck_assert_uint_eq(c.fill_slots, 100);
	ck_assert_uint_eq(c.ram_slots, 100);
	ck_assert_uint_eq(c.raw_slots, 50);
	ck_assert_uint_eq(c.discarded_pages, 300);
	/* What is not there is not dropped again. */
	ck_assert_int_eq(ts_store_discard(store, 300 * 4096, 0), 0);
	ck_assert_int_eq(ts_store_discard(store, TEST_SLOTS * 4096ull, 0), 0);
	c = engine_counters(store);
	ck_assert_uint_eq(c.discarded_pages, 600);
	ck_assert_uint_eq(c.stored_bytes, 0);
	ck_assert_uint_eq(c.clusters, 0);
	ck_assert_uint_eq(c.written_pages, 600);
}
END_TEST

int main(void)
{
	TCase *tcase = tcase_create("report");

	tcase_add_checked_fixture(tcase, setup, teardown);
	tcase_add_test(tcase, empty);
	tcase_add_test(tcase, range);
	tcase_add_test(tcase, kinds);
	tcase_add_test(tcase, stops);
	tcase_add_test(tcase, petabytes);
	tcase_add_test(tcase, counters);
	return run_case(tcase);
}
