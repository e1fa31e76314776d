// SPDX-License-Identifier: BSD-3-Clause
/* test_device_name.c - names of nbd devices (case 11) */
#include "device_name.h"
#include "run.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

static const struct {
	const char *text;
	int index;
} goods[] = {
	{"auto", -1},  {"nbd0", 0},        {"/dev/nbd0", 0},
	{"nbd15", 15}, {"/dev/nbd15", 15}, {"nbd255", 255},
};

static const char *const bads[] = {
	"",           "/dev/sda",      "sda",
	"/dev/loop0", "nbd",           "/dev/nbd",
	"/dev/",      "nbd9999",       "/dev/nbd9999",
	"nbd256",     "nbd4294967296", /* would be nbd0 in 32 bits */
	"nbd-1",      "nbd 0",         "nbd0 ",
	" nbd0",      "nbd00",         "nbd01",
	"nbd0p1",     "/dev/nbd0p1",   "nbd0x",
	"/dev//nbd0", "dev/nbd0",      "/dev/dev/nbd0",
	"NBD0",       "Auto",          "/dev/disk/by-id/nbd0",
	"/tmp/nbd0",
};

#define N(array) (sizeof(array) / sizeof(*(array)))

START_TEST(accepts)
{
	char err[256] = "";
	int index = 42;

	ck_assert_msg(ts_device_name_parse(goods[_i].text, &index, err,
					   sizeof(err)) == 0,
		      "%s: %s", goods[_i].text, err);
	ck_assert_int_eq(index, goods[_i].index);
}
END_TEST

START_TEST(refuses)
{
	char err[256] = "", quoted[64];
	int index = 42;

	ck_assert_msg(ts_device_name_parse(bads[_i], &index, err,
					   sizeof(err)) == -EINVAL,
		      "\"%s\" was accepted as %d", bads[_i], index);
	ck_assert_int_eq(index, 42);
	snprintf(quoted, sizeof(quoted), "\"%s\"", bads[_i]);
	ck_assert_msg(strstr(err, quoted), "\"%s\": %s", bads[_i], err);
}
END_TEST

START_TEST(path)
{
	char buf[TS_DEVICE_PATH_BYTES];
	int index;

	for (int i = 0; i <= TS_NBD_INDEX_MAX; i++) {
		ck_assert_int_eq(
			ts_device_name_parse(ts_device_name_path(i, buf),
					     &index, NULL, 0),
			0);
		ck_assert_int_eq(index, i);
	}
	ck_assert_str_eq(ts_device_name_path(255, buf), "/dev/nbd255");
}
END_TEST

int main(void)
{
	TCase *tcase = tcase_create("device_name");

	tcase_add_loop_test(tcase, accepts, 0, N(goods));
	tcase_add_loop_test(tcase, refuses, 0, N(bads));
	tcase_add_test(tcase, path);
	return run_case(tcase);
}
