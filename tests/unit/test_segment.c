// SPDX-License-Identifier: BSD-3-Clause
/* test_segment.c - the segments' states, counts, pins and generations */
#include "spill/segment.h"
#include "run.h"

#include <errno.h>

#define N 8u

static struct ts_segments s;

static void setup(void)
{
	ck_assert_int_eq(ts_segments_init(&s, N), 0);
}

static void teardown(void)
{
	const char *wrong = ts_segments_check(&s);

	ck_assert_msg(!wrong, "%s", wrong);
	ts_segments_fini(&s);
	ts_segments_fini(&s);
}

static uint32_t claim(void)
{
	uint64_t generation;
	uint32_t segment;

	ck_assert_int_eq(ts_segment_claim(&s, &segment, &generation), 0);
	return segment;
}

/* A full segment with so many live bytes. */
static uint32_t filled(unsigned live)
{
	uint32_t segment = claim();

	ts_segment_born(&s, segment, live);
	ts_segment_seal(&s, segment, live, 1);
	return segment;
}

START_TEST(in_the_order_of_the_file)
{
	uint64_t generation, last = 0;
	uint32_t segment;

	for (unsigned i = 0; i < N; i++) {
		ck_assert_int_eq(ts_segment_claim(&s, &segment, &generation),
				 0);
		ck_assert_uint_eq(segment, i);
		ck_assert_uint_gt(generation, last);
		last = generation;
	}
	ck_assert_int_eq(ts_segment_claim(&s, &segment, &generation), -ENOSPC);
	ck_assert_uint_eq(ts_segments_free(&s), 0);
	/* Freed, it comes back with a new generation. */
	ts_segment_seal(&s, 3, 0, 0);
	ck_assert_int_eq(ts_segment_claim(&s, &segment, &generation), 0);
	ck_assert_uint_eq(segment, 3);
	ck_assert_uint_gt(generation, last);
}
END_TEST

START_TEST(free_with_the_last_record)
{
	uint32_t segment = filled(300);
	uint64_t eased = ts_segments_eased(&s);

	ts_segment_died(&s, segment, 100);
	ck_assert_uint_eq(ts_segments_free(&s), N - 1);
	ts_segment_died(&s, segment, 200);
	ck_assert_uint_eq(ts_segments_free(&s), N);
	ck_assert_uint_ne(ts_segments_eased(&s), eased);
}
END_TEST

/* Records may all die before the segment is sealed. */
START_TEST(dead_while_filling)
{
	uint32_t segment = claim();

	ts_segment_born(&s, segment, 50);
	ts_segment_died(&s, segment, 50);
	ck_assert_uint_eq(ts_segments_free(&s), N - 1);
	ts_segment_seal(&s, segment, 50, 1);
	ck_assert_uint_eq(ts_segments_free(&s), N);
}
END_TEST

START_TEST(pinned_is_not_filled_again)
{
	uint32_t segment = filled(10);
	uint64_t generation = ts_segment_pin(&s, segment);

	ck_assert_uint_eq(ts_segment_pin(&s, segment), generation);
	ts_segment_died(&s, segment, 10);
	ck_assert_uint_eq(ts_segments_free(&s), N - 1);
	ts_segment_unpin(&s, segment);
	ck_assert_uint_eq(ts_segments_free(&s), N - 1);
	ts_segment_unpin(&s, segment);
	ck_assert_uint_eq(ts_segments_free(&s), N);
}
END_TEST

START_TEST(emptiest)
{
	struct ts_segment copy;
	uint32_t segment, a = filled(300), b = filled(100), c = filled(200);

	ck_assert(!ts_segment_emptiest(&s, 100, &segment, &copy));
	ck_assert(ts_segment_emptiest(&s, 1000, &segment, &copy));
	ck_assert_uint_eq(segment, b);
	ck_assert_uint_eq(copy.live_bytes, 100);
	/* That one is pinned now. */
	ck_assert(ts_segment_emptiest(&s, 1000, &segment, &copy));
	ck_assert_uint_eq(segment, c);
	ts_segment_skip(&s, a);
	ck_assert(!ts_segment_emptiest(&s, 1000, &segment, &copy));
	/* When the device works again, so does cleaning. */
	ts_segments_retry(&s);
	ck_assert(ts_segment_emptiest(&s, 1000, &segment, &copy));
	ck_assert_uint_eq(segment, a);
}
END_TEST

START_TEST(failed_ones_rest)
{
	uint32_t segment = claim();

	ts_segment_fail(&s, segment);
	ck_assert_uint_eq(ts_segments_free(&s), N - 1);
	for (unsigned i = 0; i < N - 1; i++)
		ck_assert_uint_ne(claim(), segment);
	ts_segments_retry(&s);
	ck_assert_uint_eq(claim(), segment);
}
END_TEST

/* Each freed segment is told once, in runs, and not while it is in use. */
START_TEST(discards)
{
	uint32_t first, n, segment[5];

	ck_assert_uint_eq(ts_segment_claim_dirty(&s, 9, &first), 0);
	for (unsigned i = 0; i < 5; i++)
		segment[i] = filled(10);
	for (unsigned i = 0; i < 5; i++)
		if (i != 3)
			ts_segment_died(&s, segment[i], 10);
	n = ts_segment_claim_dirty(&s, 2, &first);
	ck_assert_uint_eq(n, 2);
	ck_assert_uint_eq(first, 0);
	ck_assert_uint_eq(ts_segments_free(&s), N - 3);
	ts_segment_release(&s, first, n);
	ck_assert_uint_eq(ts_segments_free(&s), N - 1);
	ck_assert_uint_eq(ts_segment_claim_dirty(&s, 9, &first), 1);
	ck_assert_uint_eq(first, 2);
	ts_segment_release(&s, first, 1);
	ck_assert_uint_eq(ts_segment_claim_dirty(&s, 9, &first), 1);
	ck_assert_uint_eq(first, 4);
	ts_segment_release(&s, first, 1);
	ck_assert_uint_eq(ts_segment_claim_dirty(&s, 9, &first), 0);
	/* One that is filled again has nothing to be told. */
	ts_segment_died(&s, segment[3], 10);
	for (unsigned i = 0; i < N; i++)
		claim();
	ck_assert_uint_eq(ts_segment_claim_dirty(&s, 9, &first), 0);
}
END_TEST

START_TEST(check_sees)
{
	uint32_t segment = filled(10);

	ck_assert(!ts_segments_check(&s));
	s.live_bytes++;
	ck_assert(ts_segments_check(&s));
	s.live_bytes--;
	s.n_free++;
	ck_assert(ts_segments_check(&s));
	s.n_free--;
	s.segment[segment].dirty = true;
	ck_assert(ts_segments_check(&s));
	s.segment[segment].dirty = false;
}
END_TEST

int main(void)
{
	TCase *tcase = tcase_create("segment");

	tcase_add_checked_fixture(tcase, setup, teardown);
	tcase_add_test(tcase, in_the_order_of_the_file);
	tcase_add_test(tcase, free_with_the_last_record);
	tcase_add_test(tcase, dead_while_filling);
	tcase_add_test(tcase, pinned_is_not_filled_again);
	tcase_add_test(tcase, emptiest);
	tcase_add_test(tcase, failed_ones_rest);
	tcase_add_test(tcase, discards);
	tcase_add_test(tcase, check_sees);
	return run_case(tcase);
}
