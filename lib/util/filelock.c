/* SPDX-License-Identifier: BSD-3-Clause */
/* filelock.c - the lock that says whose a file is
 *
 * A process that was killed is gone before its locks are: transfers of its
 * io_uring hold its files until the kernel has taken them back, and so does a
 * child between its fork and its exec. On a busy machine that takes a while.
 */
#include "util/filelock.h"
#include "util/lock.h"

#include <errno.h>
#include <sys/file.h>

#define TRIES 250u
#define PAUSE_NS 20000000u

int ts_file_lock(int fd)
{
	for (unsigned i = 0; flock(fd, LOCK_EX | LOCK_NB); i++) {
		if (errno != EWOULDBLOCK && errno != EINTR)
			return -errno;
		if (i == TRIES)
			return -EBUSY;
		ts_sleep_ns(PAUSE_NS);
	}
	return 0;
}
