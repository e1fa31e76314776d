/* SPDX-License-Identifier: BSD-3-Clause */
/* loop.h - a file as a block device, with direct I/O
 *
 * Buffered, the page cache would keep a second, uncompressed copy of all that
 * is swapped out; a loop device that cannot do direct I/O is refused.
 *
 * Whose     A loop device is ours if its backing file lies below a directory
 *           of ours: the kernel knows that, also after every process that
 *           did has died, so nothing has to be noted at the right moment.
 */
#ifndef TS_DAEMON_LOOP_H
#define TS_DAEMON_LOOP_H

#include <stddef.h>

#include "error.h"

/* Attach @file to a free loop device: direct I/O, read back; 4 KiB blocks; it
 * discards; not rotational. It lets go by itself when the last user closes
 * it, so *ret_fd must stay open. @ret_device gets its path. Leaves nothing
 * behind when it fails.
 */
int ts_loop_attach(const char *file, char *ret_device, size_t room, int *ret_fd,
		   struct ts_error *error);

/* Let go of the file, close @fd and wait until the device is free. -EBUSY
 * while somebody else has it open; it then goes when they close it.
 */
int ts_loop_detach(const char *device, int fd, struct ts_error *error);

/* Detach every loop device whose backing file lies below @dir: what a dead
 * instance left. None of them may be on as swap. @ret_n counts them.
 */
int ts_loop_reclaim(const char *dir, unsigned *ret_n, struct ts_error *error);

/* A loop device with a backing file below @dir: 0 and its path, or -ENOENT. */
int ts_loop_find(const char *dir, char *ret_device, size_t room);

#endif
