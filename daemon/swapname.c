// SPDX-License-Identifier: BSD-3-Clause
/* swapname.c - which device is it that a line of /proc/swaps names?
 *
 * A path that leads to a block device is judged by the device's number. One
 * that leads to none, "/NAME", is the device called NAME by the kernel (its
 * names are unique, and devtmpfs uses them) if also the size is right and if
 * somebody holds that device for himself, as swap does: a node of that name
 * in some other file system would have to be lucky twice.
 */
#include "swapname.h"

#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "swaparea.h"

/* A path with blanks is written with octal escapes, and ours have none. */
bool ts_swaps_parse(const char *text, struct ts_swaps_line *ret)
{
	return sscanf(text, "%4095s %15s %llu %llu %d", ret->path, ret->type,
		      &ret->size_kib, &ret->used_kib, &ret->priority) == 5;
}

/* "../../devices/virtual/block/nbd0" is what the number leads to. */
static bool is_kernel_name(const char *name, dev_t number)
{
	char path[64], target[PATH_MAX];
	const char *slash;
	ssize_t len;

	snprintf(path, sizeof(path), "/sys/dev/block/%u:%u", major(number),
		 minor(number));
	len = readlink(path, target, sizeof(target) - 1);
	if (len < 0)
		return false;
	target[len] = '\0';
	slash = strrchr(target, '/');
	return slash && strcmp(slash + 1, name) == 0;
}

/* All of the device but the page of the header, as mkswap makes it. */
static bool has_size(const struct ts_swaps_line *line, dev_t number)
{
	unsigned long long sectors = 0;
	long page_kib = sysconf(_SC_PAGESIZE) / 1024;
	char path[64];
	FILE *file;
	int got;

	snprintf(path, sizeof(path), "/sys/dev/block/%u:%u/size",
		 major(number), minor(number));
	file = fopen(path, "re");
	if (!file)
		return false;
	got = fscanf(file, "%llu", &sectors);
	fclose(file);
	return got == 1 && (line->size_kib / page_kib + 1) * page_kib ==
				   sectors / 2 / page_kib * page_kib;
}

bool ts_swaps_is_device(const struct ts_swaps_line *line, const char *device)
{
	struct stat listed, wanted;

	if (strcmp(line->path, device) == 0)
		return true;
	if (strcmp(line->type, "partition") != 0 ||
	    stat(device, &wanted) < 0 || !S_ISBLK(wanted.st_mode))
		return false;
	if (stat(line->path, &listed) == 0 && S_ISBLK(listed.st_mode))
		return listed.st_rdev == wanted.st_rdev;
	return line->path[0] == '/' &&
	       is_kernel_name(line->path + 1, wanted.st_rdev) &&
	       has_size(line, wanted.st_rdev) && ts_swap_is_claimed(device);
}
