/* SPDX-License-Identifier: BSD-3-Clause */
/* swapname.h - which device is it that a line of /proc/swaps names?
 *
 * The kernel writes the path by which swapon opened the device. Names differ
 * where a link was given, and when the mount namespace in which that was done
 * has ended: then /dev/nbd0 is listed as "/nbd0", without what its mount was
 * mounted on.
 */
#ifndef TS_DAEMON_SWAPNAME_H
#define TS_DAEMON_SWAPNAME_H

#include <limits.h>
#include <stdbool.h>

struct ts_swaps_line {
	char path[PATH_MAX];
	char type[16]; /* "partition" for every block device */
	unsigned long long size_kib, used_kib;
	int priority;
};

/* Fill @ret from a line of /proc/swaps; false: it is none, like the first. */
bool ts_swaps_parse(const char *text, struct ts_swaps_line *ret);

/* Is it the one at the path @device? In doubt it is not. */
bool ts_swaps_is_device(const struct ts_swaps_line *line, const char *device);

#endif
