// SPDX-License-Identifier: BSD-3-Clause
/* faults.c - a spill device that fails, by wrapping what the engine calls
 *
 * For io_uring, the result in the completion queue is changed before the
 * engine looks at it. What was submitted for writing is known by the request's
 * own transfer. A transfer that is said to have failed has been done all the
 * same, which is one of the ways in which devices fail.
 */
#include "tests/spill/faults.h"
#include "spill/io.h"
#include "util/atomic.h"
#include "util/lock.h"

#include <errno.h>
#include <unistd.h>

static enum fault fault;
static unsigned every = 1, calls, injected;

void faults_set(enum fault new_fault, unsigned new_every)
{
	ts_store_relaxed(&every, new_every);
	ts_store_relaxed(&calls, 0);
	ts_store_relaxed(&fault, new_fault);
}

unsigned faults_injected(void)
{
	return ts_load_relaxed(&injected);
}

/* What becomes of a transfer's result. */
static long change(long n, bool write)
{
	enum fault now = ts_load_relaxed(&fault);

	if (now == FAULT_NONE || n <= 0)
		return n;
	if ((now == FAULT_EIO || now == FAULT_ENOSPC || now == FAULT_LATE) &&
	    !write)
		return n;
	if ((now == FAULT_READ || now == FAULT_STUCK) && write)
		return n;
	if (ts_add_relaxed(&calls, 1) % ts_load_relaxed(&every))
		return n;
	ts_add_relaxed(&injected, 1);
	switch (now) {
	case FAULT_SHORT:
		/* As devices do it: by whole blocks. */
		return n > 4096 ? n / 2 / 4096 * 4096 ?: 4096 : n;
	case FAULT_INTR:
		return -EINTR;
	case FAULT_AGAIN:
		return -EAGAIN;
	case FAULT_DELAY:
	case FAULT_LATE:
		ts_sleep_ns(10000000);
		return n;
	case FAULT_STUCK:
		while (ts_load_relaxed(&fault) == FAULT_STUCK)
			ts_sleep_ns(1000000);
		return n;
	case FAULT_ENOSPC:
		return -ENOSPC;
	default:
		return -EIO;
	}
}

ssize_t __real_pread64(int fd, void *buf, size_t n, off_t off);
ssize_t __wrap_pread64(int fd, void *buf, size_t n, off_t off);
ssize_t __real_pwrite64(int fd, const void *buf, size_t n, off_t off);
ssize_t __wrap_pwrite64(int fd, const void *buf, size_t n, off_t off);
int __real_io_uring_submit(struct io_uring *ring);
int __wrap_io_uring_submit(struct io_uring *ring);
int __real_io_uring_submit_and_wait(struct io_uring *ring, unsigned n);
int __wrap_io_uring_submit_and_wait(struct io_uring *ring, unsigned n);

static ssize_t result(ssize_t n, bool write)
{
	long changed = change(n, write);

	if (changed >= 0)
		return changed;
	errno = (int)-changed;
	return -1;
}

ssize_t __wrap_pread64(int fd, void *buf, size_t n, off_t off)
{
	return result(__real_pread64(fd, buf, n, off), false);
}

ssize_t __wrap_pwrite64(int fd, const void *buf, size_t n, off_t off)
{
	return result(__real_pwrite64(fd, buf, n, off), true);
}

/* All that has completed; the engine takes it right after the call. */
static void change_completed(struct io_uring *ring)
{
	struct io_uring_cqe *cqe;
	unsigned head;

	io_uring_for_each_cqe(ring, head, cqe) {
		struct ts_transfer *t = io_uring_cqe_get_data(cqe);

		cqe->res = (int)change(cqe->res, t->write);
	}
}

int __wrap_io_uring_submit(struct io_uring *ring)
{
	int n = __real_io_uring_submit(ring);

	change_completed(ring);
	return n;
}

int __wrap_io_uring_submit_and_wait(struct io_uring *ring, unsigned want)
{
	int n;

	/* Interrupted before anything happened. */
	if (ts_load_relaxed(&fault) == FAULT_INTR &&
	    ts_add_relaxed(&calls, 1) % ts_load_relaxed(&every) == 0)
		return -EINTR;
	n = __real_io_uring_submit_and_wait(ring, want);
	change_completed(ring);
	return n;
}
