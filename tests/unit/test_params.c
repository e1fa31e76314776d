// SPDX-License-Identifier: BSD-3-Clause
/* test_params.c - parameters as front ends pass them on (cases 44, 45)
 *
 * sysconf() is wrapped at link time: the size of the machine is the test's.
 */
#include "thinswap.h"
#include "codec.h"
#include "word.h"
#include "run.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define MIB (1ull << 20)
#define GIB (1ull << 30)

static uint64_t machine = 4 * GIB;

long __real_sysconf(int name);
long __wrap_sysconf(int name);

long __wrap_sysconf(int name)
{
	return name == _SC_PHYS_PAGES ? (long)(machine / 4096)
				      : __real_sysconf(name);
}

static struct ts_params params;
static char err[512];

static void setup(void)
{
	machine = 4 * GIB;
	ts_params_init(&params);
	memset(err, 0, sizeof(err));
}

static int set(const char *key, const char *value)
{
	return ts_params_set(&params, key, value, err, sizeof(err));
}

static void finish(int expected)
{
	ck_assert_int_eq(ts_params_finish(&params, err, sizeof(err)), expected);
}

START_TEST(good)
{
	ck_assert_int_eq(set("size", "16G"), 0);
	ck_assert_uint_eq(params.size_bytes, 16 * GIB);
	ck_assert_int_eq(set("ram", "1.5G"), 0);
	ck_assert_uint_eq(params.ram_bytes, GIB + GIB / 2);
	ck_assert_int_eq(set("level", "-7"), 0);
	ck_assert_int_eq(params.level, -7);
	ck_assert_int_eq(set("level", "19"), 0);
	ck_assert_int_eq(params.level, 19);
	ck_assert_int_eq(set("size", "4096"), 0);
	ck_assert_int_eq(set("size", "8P"), 0);
	ck_assert_uint_eq(params.size_bytes, TS_MAX_SIZE_BYTES);
	ck_assert_str_eq(err, "");
}
END_TEST

/* What is refused changes nothing, and the sentence quotes it. */
START_TEST(bad)
{
	static const char *const pairs[][2] = {
		{"size", ""},
		{"size", "0"},
		{"size", "4095"},
		{"size", "-1"},
		{"size", "4GB"},
		{"size", "16 Gq"},
		{"size", "1e9"},
		{"size", "8193T"},
		{"size", "16384P"},
		{"ram", "7M"},
		{"ram", "50%"},
		{"ram", "8P"},
		{"ram", "18446744073709551616"},
		{"level", ""},
		{"level", "20"},
		{"level", "-8"},
		{"level", "1x"},
		{"level", "fast"},
		{"level", "99999999999999999999"},
		{"level", "1.0"},
	};

	for (unsigned i = 0; i < sizeof(pairs) / sizeof(*pairs); i++) {
		struct ts_params before = params;

		memset(err, 0, sizeof(err));
		ck_assert_msg(set(pairs[i][0], pairs[i][1]) == -EINVAL, "%s=%s",
			      pairs[i][0], pairs[i][1]);
		ck_assert_ptr_nonnull(strstr(err, pairs[i][0]));
		ck_assert_ptr_nonnull(strstr(err, pairs[i][1]));
		ck_assert_uint_eq(params.size_bytes, before.size_bytes);
		ck_assert_uint_eq(params.ram_bytes, before.ram_bytes);
		ck_assert_int_eq(params.level, before.level);
	}
}
END_TEST

/* Names are taken whole: no prefixes, no other case (case 43). */
START_TEST(unknown)
{
	static const char *const keys[] = {"",    "siz",       "sizes", "Size",
					   "RAM", "ram_bytes", " size", "lvl"};

	for (unsigned i = 0; i < sizeof(keys) / sizeof(*keys); i++) {
		ck_assert_msg(set(keys[i], "1G") == -ENOENT, "%s", keys[i]);
		ck_assert_ptr_nonnull(strstr(err, "no such parameter"));
	}
}
END_TEST

/* However long the text and short the room, the sentence ends in it. */
START_TEST(long_text)
{
	char text[4096];
	char small[8];

	memset(text, '9', sizeof(text) - 1);
	text[sizeof(text) - 1] = '\0';
	memset(small, 'x', sizeof(small));
	ck_assert_int_eq(ts_params_set(&params, "size", text, small, 7),
			 -EINVAL);
	ck_assert_uint_eq(strlen(small), 6);
	ck_assert_int_eq(small[7], 'x');
	ck_assert_int_eq(ts_params_set(&params, text, text, small, 7), -ENOENT);
	ck_assert_int_eq(small[7], 'x');
	ck_assert_int_eq(set("level", text), -EINVAL);
	ck_assert_uint_eq(strlen(err), sizeof(err) - 1);
}
END_TEST

START_TEST(size_is_required)
{
	finish(-EINVAL);
	ck_assert_ptr_nonnull(strstr(err, "size"));
}
END_TEST

START_TEST(defaults)
{
	params.size_bytes = GIB + 4095;
	finish(0);
	ck_assert_uint_eq(params.size_bytes, GIB);
	ck_assert_uint_eq(params.ram_bytes, 2 * GIB);
	ck_assert_int_eq(params.level, TS_CODEC_LEVEL_DEFAULT);
	ck_assert_uint_gt(params.reserve_bytes, 0);
	ck_assert_uint_le(params.reserve_bytes, params.ram_bytes / 4);
}
END_TEST

START_TEST(small_ram_small_reserve)
{
	params.size_bytes = GIB;
	params.ram_bytes = 8 * MIB;
	finish(0);
	ck_assert_uint_le(params.reserve_bytes, 2 * MIB);
}
END_TEST

/* The reserve is whole blocks, and never none: with none, nothing could ever
 * be stored.
 */
START_TEST(tiny_reserve)
{
	params.size_bytes = GIB;
	params.reserve_bytes = 1;
	finish(0);
	ck_assert_uint_ge(params.reserve_bytes, 65536);
}
END_TEST

START_TEST(more_than_the_machine)
{
	params.size_bytes = GIB;
	params.ram_bytes = 4 * GIB + 1;
	finish(-EINVAL);
	ck_assert_ptr_nonnull(strstr(err, "ram="));
	params.ram_bytes = 4 * GIB;
	finish(0);
}
END_TEST

/* Half of a machine may be more than words can address. */
START_TEST(huge_machine)
{
	machine = 16384 * GIB;
	params.size_bytes = GIB;
	finish(0);
	ck_assert_uint_le(params.ram_bytes / 4096, TS_MAX_RAW_PAGES);
}
END_TEST

/* And what may be set can be addressed. */
START_TEST(largest_ram)
{
	char text[32];
	uint64_t t;

	for (t = 1; t < 4096; t++) {
		snprintf(text, sizeof(text), "%lluG", (unsigned long long)t);
		if (set("ram", text))
			break;
	}
	ck_assert_uint_gt(t, 256);
	ck_assert_uint_le(params.ram_bytes / 4096, TS_MAX_RAW_PAGES);
}
END_TEST

int main(void)
{
	TCase *tcase = tcase_create("params");

	tcase_add_checked_fixture(tcase, setup, NULL);
	tcase_add_test(tcase, good);
	tcase_add_test(tcase, bad);
	tcase_add_test(tcase, unknown);
	tcase_add_test(tcase, long_text);
	tcase_add_test(tcase, size_is_required);
	tcase_add_test(tcase, defaults);
	tcase_add_test(tcase, small_ram_small_reserve);
	tcase_add_test(tcase, tiny_reserve);
	tcase_add_test(tcase, more_than_the_machine);
	tcase_add_test(tcase, huge_machine);
	tcase_add_test(tcase, largest_ram);
	return run_case(tcase);
}
