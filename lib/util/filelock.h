/* SPDX-License-Identifier: BSD-3-Clause */
/* filelock.h - the lock that says whose a file is */
#ifndef TS_UTIL_FILELOCK_H
#define TS_UTIL_FILELOCK_H

/* Lock the file for as long as the descriptor is open, by flock(). A holder
 * that was killed has some seconds to let go, so this sleeps that long before
 * it refuses.
 * Returns 0, -EBUSY when another process has it, or -errno.
 */
int ts_file_lock(int fd);

#endif
