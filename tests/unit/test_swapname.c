// SPDX-License-Identifier: BSD-3-Clause
/* test_swapname.c - lines of /proc/swaps, and the devices of this machine
 *
 * Any device with a size will do as the one that is meant. Whether somebody has
 * it for himself is played here.
 */
#include "run.h"
#include "swapname.h"

#include <dirent.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static char device[64];
static struct ts_swaps_line line; /* what a lost mount makes of it */
static bool claimed;

static unsigned long long size_kib_of(const char *name)
{
	unsigned long long sectors = 0;
	char path[96];
	FILE *file;

	snprintf(path, sizeof(path), "/sys/block/%.40s/size", name);
	file = fopen(path, "re");
	if (file && fscanf(file, "%llu", &sectors) != 1)
		sectors = 0;
	if (file)
		fclose(file);
	return sectors / 2;
}

bool __wrap_ts_swap_is_claimed(const char *path);
bool __wrap_ts_swap_is_claimed(const char *path)
{
	return claimed && strcmp(path, device) == 0;
}

/* One that has a node and a size. */
static void find_device(void)
{
	DIR *dir = opendir("/sys/block");
	struct dirent *entry;

	while (dir && !device[0] && (entry = readdir(dir))) {
		unsigned long long kib = size_kib_of(entry->d_name);
		unsigned page_kib = (unsigned)sysconf(_SC_PAGESIZE) / 1024;
		char path[64];

		snprintf(path, sizeof(path), "/dev/%.40s", entry->d_name);
		if (kib <= page_kib || access(path, F_OK) < 0)
			continue;
		strcpy(device, path);
		snprintf(line.path, sizeof(line.path), "/%.40s",
			 entry->d_name);
		strcpy(line.type, "partition");
		line.size_kib = kib / page_kib * page_kib - page_kib;
	}
	if (dir)
		closedir(dir);
}

static bool is_found(const char *path, const char *type,
		     unsigned long long size_kib)
{
	struct ts_swaps_line other = line;

	snprintf(other.path, sizeof(other.path), "%s", path);
	snprintf(other.type, sizeof(other.type), "%s", type);
	other.size_kib = size_kib;
	return ts_swaps_is_device(&other, device);
}

START_TEST(parses)
{
	struct ts_swaps_line got;

	ck_assert(ts_swaps_parse("/dev/nbd0    partition\t1048572\t\t12\t\t-2\n",
				 &got));
	ck_assert_str_eq(got.path, "/dev/nbd0");
	ck_assert_str_eq(got.type, "partition");
	ck_assert_uint_eq(got.size_kib, 1048572);
	ck_assert_uint_eq(got.used_kib, 12);
	ck_assert_int_eq(got.priority, -2);
	ck_assert(!ts_swaps_parse("Filename\t\tType\t\tSize\t\tUsed\t\t"
				  "Priority\n", &got));
	ck_assert(!ts_swaps_parse("", &got));
}
END_TEST

START_TEST(knows_names_that_lead_there)
{
	char roundabout[96];

	ck_assert(ts_swaps_is_device(&(struct ts_swaps_line){
		.path = "/dev/none", .type = "partition"}, "/dev/none"));
	if (!device[0])
		return;
	snprintf(roundabout, sizeof(roundabout), "/dev/../dev/%s",
		 device + strlen("/dev/"));
	ck_assert(is_found(roundabout, "partition", 4));
}
END_TEST

START_TEST(knows_the_short_name)
{
	if (!device[0])
		return;
	claimed = true;
	ck_assert(ts_swaps_is_device(&line, device));
	claimed = false;
	ck_assert(!ts_swaps_is_device(&line, device));
}
END_TEST

START_TEST(mistakes_no_other)
{
	char longer[PATH_MAX + 8];

	if (!device[0])
		return;
	claimed = true;
	ck_assert(!is_found(line.path, "file", line.size_kib));
	ck_assert(!is_found(line.path, "partition", line.size_kib + 4));
	ck_assert(!is_found(line.path, "partition", 0));
	ck_assert(!is_found(line.path + 1, "partition", line.size_kib));
	ck_assert(!is_found("/dev/null", "partition", line.size_kib));
	ck_assert(!is_found("/", "partition", line.size_kib));
	snprintf(longer, sizeof(longer), "/lost%s", line.path);
	ck_assert(!is_found(longer, "partition", line.size_kib));
	snprintf(longer, sizeof(longer), "%s1", line.path);
	ck_assert(!is_found(longer, "partition", line.size_kib));
}
END_TEST

int main(void)
{
	TCase *tcase = tcase_create("swapname");

	find_device();
	tcase_add_test(tcase, parses);
	tcase_add_test(tcase, knows_names_that_lead_there);
	tcase_add_test(tcase, knows_the_short_name);
	tcase_add_test(tcase, mistakes_no_other);
	return run_case(tcase);
}
