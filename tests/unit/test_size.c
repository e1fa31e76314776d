// SPDX-License-Identifier: BSD-3-Clause
/* test_size.c - sizes as people write them (case 44) */
#include "util/size.h"
#include "run.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define KIB (1ull << 10)
#define MIB (1ull << 20)
#define GIB (1ull << 30)
#define TIB (1ull << 40)
#define PIB (1ull << 50)

struct good {
	const char *text;
	uint64_t bytes;
};

static const struct good goods[] = {
	{"0", 0},
	{"4096", 4096},
	{"007", 7},
	{"512B", 512},
	{"512 b", 512},
	{"64K", 64 * KIB},
	{"64k", 64 * KIB},
	{"64Ki", 64 * KIB},
	{"64KiB", 64 * KIB},
	{"3M", 3 * MIB},
	{"3mi", 3 * MIB},
	{"3 MiB", 3 * MIB},
	{"4G", 4 * GIB},
	{"4GiB", 4 * GIB},
	{"4 GiB", 4 * GIB},
	{"4\tGiB", 4 * GIB},
	{"4gib", 4 * GIB},
	{"4GIB", 4 * GIB},
	{"1.5G", GIB + GIB / 2},
	{"0.5K", 512},
	{"1.3G", 1395864371},    /* 1395864371.2 */
	{"0.0001K", 0},          /* 0.1024 */
	{"1.1T", 1209462790553}, /* 1209462790553.6: right to the byte */
	{"1.50000000000000000000000000000000000000001K", KIB + 512},
	{"1.000000000000000000999K", KIB},
	{"2T", 2 * TIB},
	{"8P", 8 * PIB},
	{"16383P", 16383 * PIB},
	{"16383.99999999999999999P", UINT64_MAX},
	{"18446744073709551615", UINT64_MAX},
};

struct bad {
	const char *text;
	int error;
	const char *part; /* of the sentence */
};

static const struct bad bads[] = {
	{"", -EINVAL, "does not begin with a number"},
	{"G", -EINVAL, "does not begin with a number"},
	{"GiB", -EINVAL, "does not begin with a number"},
	{" 4G", -EINVAL, "does not begin with a number"},
	{".5G", -EINVAL, "does not begin with a number"},
	{"-1", -EINVAL, "has a sign"},
	{"+1", -EINVAL, "has a sign"},
	{"4GB", -EINVAL, "ambiguous"},
	{"4Gb", -EINVAL, "ambiguous"},
	{"4gb", -EINVAL, "write G or GiB"},
	{"4 kB", -EINVAL, "write K or KiB"},
	{"4MB", -EINVAL, "ambiguous"},
	{"50%", -EINVAL, "percentage"},
	{"2^64", -EINVAL, "unknown suffix \"^64\""},
	{"1e9", -EINVAL, "exponents"},
	{"1E", -EINVAL, "exponents"},
	{"4EiB", -EINVAL, "exponents"},
	{"0x1000", -EINVAL, "unknown suffix \"x1000\""},
	{"4GiBs", -EINVAL, "unknown suffix"},
	{"4G ", -EINVAL, "unknown suffix"},
	{"4Gi B", -EINVAL, "unknown suffix"},
	{"4 G 2 M", -EINVAL, "unknown suffix"},
	{"4,5G", -EINVAL, "unknown suffix"},
	{"4_000", -EINVAL, "unknown suffix"},
	{"1..5G", -EINVAL, "no digit after the point"},
	{"1.G", -EINVAL, "no digit after the point"},
	{"1.5.5G", -EINVAL, "unknown suffix"},
	{"1.5", -EINVAL, "fraction of a byte"},
	{"1.5 B", -EINVAL, "fraction of a byte"},
	{"1.0", -EINVAL, "fraction of a byte"},
	{"18446744073709551616", -ERANGE, "2^64 - 1"},
	{"99999999999999999999999999", -ERANGE, "2^64 - 1"},
	{"16384P", -ERANGE, "2^64 - 1"},
	{"18446744073709551615K", -ERANGE, "2^64 - 1"},
	{"18014398509481984K", -ERANGE, "2^64 - 1"},
};

#define N(array) (sizeof(array) / sizeof(*(array)))

START_TEST(accepts)
{
	const struct good *g = &goods[_i];
	uint64_t bytes = 42;
	char err[256] = "";
	int r;

	r = ts_size_parse(g->text, &bytes, err, sizeof(err));
	ck_assert_msg(r == 0, "\"%s\": %s", g->text, err);
	ck_assert_msg(bytes == g->bytes, "\"%s\": %" PRIu64, g->text, bytes);
	ck_assert_str_eq(err, "");
}
END_TEST

START_TEST(refuses)
{
	const struct bad *b = &bads[_i];
	uint64_t bytes = 42;
	char err[256] = "", quoted[64];
	int r;

	r = ts_size_parse(b->text, &bytes, err, sizeof(err));
	ck_assert_msg(r == b->error, "\"%s\": %d", b->text, r);
	ck_assert_msg(bytes == 42, "\"%s\" touched the result", b->text);
	ck_assert_msg(strstr(err, b->part), "\"%s\": %s", b->text, err);
	snprintf(quoted, sizeof(quoted), "\"%s\"", b->text);
	ck_assert_msg(strstr(err, quoted), "\"%s\" not quoted: %s", b->text,
		      err);
	ck_assert_msg(!strchr(err, '\n'), "%s", err);
}
END_TEST

/* A sentence that does not fit is cut, not written past its room. */
START_TEST(short_room_for_the_sentence)
{
	char err[8] = "abcdefg";
	uint64_t bytes;

	ck_assert_int_eq(ts_size_parse("4GB", &bytes, err, 4), -EINVAL);
	ck_assert_str_eq(err, "\"4G");
	ck_assert_int_eq(err[4], 'e');
}
END_TEST

START_TEST(percent)
{
	uint64_t bytes = 42;
	char err[256];

	ck_assert_int_eq(ts_size_parse_percent("50%", 16 * GIB, &bytes, err,
					       sizeof(err)),
			 0);
	ck_assert_uint_eq(bytes, 8 * GIB);
	ck_assert_int_eq(ts_size_parse_percent("12.5 %", 16 * GIB, &bytes, err,
					       sizeof(err)),
			 0);
	ck_assert_uint_eq(bytes, 2 * GIB);
	ck_assert_int_eq(
		ts_size_parse_percent("0%", 16 * GIB, &bytes, err, sizeof(err)),
		0);
	ck_assert_uint_eq(bytes, 0);
	ck_assert_int_eq(ts_size_parse_percent("100%", UINT64_MAX, &bytes, err,
					       sizeof(err)),
			 0);
	ck_assert_uint_eq(bytes, UINT64_MAX);
	ck_assert_int_eq(
		ts_size_parse_percent("33%", 100, &bytes, err, sizeof(err)), 0);
	ck_assert_uint_eq(bytes, 33);
	ck_assert_int_eq(
		ts_size_parse_percent("3G", 16 * GIB, &bytes, err, sizeof(err)),
		0);
	ck_assert_uint_eq(bytes, 3 * GIB);

	bytes = 42;
	ck_assert_int_eq(
		ts_size_parse_percent("101%", GIB, &bytes, err, sizeof(err)),
		-ERANGE);
	ck_assert_ptr_nonnull(strstr(err, "more than 100%"));
	ck_assert_int_eq(
		ts_size_parse_percent("100.5%", GIB, &bytes, err, sizeof(err)),
		-ERANGE);
	ck_assert_int_eq(
		ts_size_parse_percent("-5%", GIB, &bytes, err, sizeof(err)),
		-EINVAL);
	ck_assert_int_eq(
		ts_size_parse_percent("5%%", GIB, &bytes, err, sizeof(err)),
		-EINVAL);
	ck_assert_int_eq(
		ts_size_parse_percent("%", GIB, &bytes, err, sizeof(err)),
		-EINVAL);
	ck_assert_uint_eq(bytes, 42);
}
END_TEST

START_TEST(format)
{
	static const struct good shown[] = {
		{"0 B", 0},
		{"1023 B", 1023},
		{"1 KiB", KIB},
		{"1.5 KiB", KIB + KIB / 2},
		{"4 GiB", 4 * GIB},
		{"1.25 GiB", GIB + GIB / 4},
		{"~1.33 GiB", GIB + GIB / 3},
		{"~1023.99 MiB", GIB - 1},
		{"8 PiB", 8 * PIB},
		{"~16383.99 PiB", UINT64_MAX},
	};
	char buf[TS_SIZE_TEXT_BYTES];

	for (unsigned i = 0; i < N(shown); i++) {
		ck_assert_ptr_eq(
			ts_size_format(shown[i].bytes, buf, sizeof(buf)), buf);
		ck_assert_str_eq(buf, shown[i].text);
	}
}
END_TEST

/* What carries no tilde is exact: reading it back gives the same bytes. */
START_TEST(format_without_tilde_is_exact)
{
	char buf[TS_SIZE_TEXT_BYTES], err[256];
	uint64_t bytes, back, state = 1;
	unsigned exact = 0;

	for (unsigned i = 0; i < 200000; i++) {
		state = state * 6364136223846793005ull + 1442695040888963407ull;
		bytes = state >> (i % 64);
		/* Round sizes are the ones that people write. */
		if (i % 3)
			bytes &= ~0ull << (i % 61);
		ts_size_format(bytes, buf, sizeof(buf));
		ck_assert_uint_lt(strlen(buf), sizeof(buf));
		if (buf[0] == '~')
			continue;
		ck_assert_int_eq(ts_size_parse(buf, &back, err, sizeof(err)),
				 0);
		ck_assert_msg(back == bytes, "%" PRIu64 " as \"%s\"", bytes,
			      buf);
		exact++;
	}
	ck_assert_uint_gt(exact, 1000);
}
END_TEST

int main(void)
{
	TCase *tcase = tcase_create("size");

	tcase_add_loop_test(tcase, accepts, 0, N(goods));
	tcase_add_loop_test(tcase, refuses, 0, N(bads));
	tcase_add_test(tcase, short_room_for_the_sentence);
	tcase_add_test(tcase, percent);
	tcase_add_test(tcase, format);
	tcase_add_test(tcase, format_without_tilde_is_exact);
	return run_case(tcase);
}
