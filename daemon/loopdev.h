/* SPDX-License-Identifier: BSD-3-Clause */
/* loopdev.h - a file as a block device, with direct I/O
 *
 * Buffered, the page cache would keep a second, uncompressed copy of all that
 * is swapped out; a loop device that cannot do direct I/O is refused.
 */
#ifndef TS_DAEMON_LOOPDEV_H
#define TS_DAEMON_LOOPDEV_H

#include <stddef.h>

#include "error.h"

/* Attach @file to a free loop device: direct I/O, read back; 4 KiB blocks;
 * it lets go by itself when the last user closes it, so *ret_fd must stay
 * open. @ret_device gets its path.
 */
int ts_loop_attach(const char *file, char *ret_device, size_t room,
		   int *ret_fd, struct ts_error *error);

/* Let go of the file and close @fd. -EBUSY while somebody else has the device
 * open; it then goes when they close it.
 */
int ts_loop_detach(const char *device, int fd, struct ts_error *error);

/* If @device still has a file below @dir behind it, let go of that. */
int ts_loop_reclaim(const char *device, const char *dir,
		    struct ts_error *error);

#endif
