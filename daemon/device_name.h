/* SPDX-License-Identifier: BSD-3-Clause */
/* device_name.h - the name of a kernel nbd device, as people write it
 *
 * "nbd3" and "/dev/nbd3" are the same device; "auto" is none in particular.
 * Everything else is refused before anything is touched: other drivers'
 * devices, partitions, leading zeros, and numbers past TS_NBD_INDEX_MAX.
 */
#ifndef TS_DAEMON_DEVICE_NAME_H
#define TS_DAEMON_DEVICE_NAME_H

#include <stddef.h>

/* The kernel itself would take up to 32767 (20 minor bits, 5 of them for
 * partitions) and create what is missing; nobody has that many, and a typing
 * error must not make a new device.
 */
#define TS_NBD_INDEX_MAX     255

#define TS_DEVICE_PATH_BYTES 16

/* Returns 0 with @ret_index N of /dev/nbdN or -1 for "auto", or -EINVAL with
 * a sentence in @err.
 */
int ts_device_name_parse(const char *text, int *ret_index, char *err,
			 size_t err_bytes);

/* "/dev/nbdN" for @index 0..TS_NBD_INDEX_MAX. Returns @buf. */
char *ts_device_name_path(int index, char buf[TS_DEVICE_PATH_BYTES]);

#endif
