// SPDX-License-Identifier: BSD-3-Clause
/* test_nearest.c - edit distance against known values and its own laws */
#include "util/nearest.h"
#include "run.h"

#include <string.h>

START_TEST(known)
{
	static const struct {
		const char *a, *b;
		unsigned distance;
	} pairs[] = {
		{"", "", 0},
		{"", "abc", 3},
		{"abc", "abc", 0},
		{"spil", "spill", 1},
		{"sipll", "spill", 1},
		{"spoil", "spill", 2},
		{"kitten", "sitting", 3},
		{"ca", "abc", 3}, /* restricted: 2 without the restriction */
		{"ram_limt", "ram-limit", 1},
		{"PRIORITY", "priority", 0},
		{"socket_mode", "socket-mode", 0},
	};

	for (unsigned i = 0; i < sizeof(pairs) / sizeof(*pairs); i++) {
		ck_assert_msg(ts_edit_distance(pairs[i].a, pairs[i].b) ==
				      pairs[i].distance,
			      "%s, %s: %u", pairs[i].a, pairs[i].b,
			      ts_edit_distance(pairs[i].a, pairs[i].b));
		ck_assert_uint_eq(ts_edit_distance(pairs[i].b, pairs[i].a),
				  pairs[i].distance);
	}
}
END_TEST

/* One edit at any place of any word is one away. */
START_TEST(single_edits)
{
	static const char *const words[] = {"a", "path", "dead-conn-timeout"};
	char edited[64];
	size_t len;

	for (unsigned w = 0; w < 3; w++) {
		len = strlen(words[w]);
		for (size_t at = 0; at < len; at++) {
			strcpy(edited, words[w]);
			edited[at] = '#';
			ck_assert_uint_eq(ts_edit_distance(edited, words[w]),
					  1);
			memmove(edited + at, edited + at + 1, len - at);
			ck_assert_uint_eq(ts_edit_distance(edited, words[w]),
					  1);
			memcpy(edited, words[w], at);
			edited[at] = '#';
			strcpy(edited + at + 1, words[w] + at);
			ck_assert_uint_eq(ts_edit_distance(edited, words[w]),
					  1);
		}
	}
}
END_TEST

START_TEST(long_words_are_cut)
{
	char a[400], b[400];

	memset(a, 'x', sizeof(a) - 1);
	memset(b, 'x', sizeof(b) - 1);
	a[399] = b[399] = '\0';
	ck_assert_uint_eq(ts_edit_distance(a, b), 0);
	ck_assert_uint_eq(ts_edit_distance(a, ""), TS_NEAREST_MAX_LEN);
	a[0] = 'y';
	ck_assert_uint_eq(ts_edit_distance(a, b), 1);
}
END_TEST

START_TEST(near)
{
	ck_assert(ts_edit_is_near("ram", 1));
	ck_assert(!ts_edit_is_near("ram", 2));
	ck_assert(ts_edit_is_near("priority", 3));
	ck_assert(!ts_edit_is_near("priority", 4));
}
END_TEST

int main(void)
{
	TCase *tcase = tcase_create("nearest");

	tcase_add_test(tcase, known);
	tcase_add_test(tcase, single_edits);
	tcase_add_test(tcase, long_words_are_cut);
	tcase_add_test(tcase, near);
	return run_case(tcase);
}
