/* SPDX-License-Identifier: BSD-3-Clause */
/* io.c - reads and writes of the spill file, by io_uring or without it */
#include "spill/io.h"

#include <assert.h>
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

/* Limits are named with their value: it is what has to be changed. */
static void explain(const char *what, int error, char *ret_why)
{
	const char *why = strerror(error);
	struct rlimit limit;

	if (error == EPERM)
		why = "not permitted (sysctl kernel.io_uring_disabled or a seccomp filter)";
	else if (error == ENOSYS)
		why = "the kernel has none, or a seccomp filter says so";
	if (error == ENOMEM && !getrlimit(RLIMIT_MEMLOCK, &limit) &&
	    limit.rlim_cur != RLIM_INFINITY)
		snprintf(ret_why, TS_IO_WHY_BYTES,
			 "%s: %s (RLIMIT_MEMLOCK is %llu bytes)", what, why,
			 (unsigned long long)limit.rlim_cur);
	else
		snprintf(ret_why, TS_IO_WHY_BYTES, "%s: %s", what, why);
}

void ts_io_init(struct ts_io *io, const struct ts_spill_file *file,
		void *memory, size_t bytes, bool use_uring,
		char ret_why[TS_IO_WHY_BYTES])
{
	int err;

	*io = (struct ts_io){
		.file = file,
		.memory = { .iov_base = memory, .iov_len = bytes },
	};
	ret_why[0] = '\0';
	if (!use_uring) {
		snprintf(ret_why, TS_IO_WHY_BYTES, "turned off");
		return;
	}
	err = io_uring_queue_init(TS_IO_DEPTH, &io->ring, 0);
	if (err) {
		explain("io_uring", -err, ret_why);
		return;
	}
	io->uring = true;
	/* Both are only faster ways. */
	io->fixed_file = !io_uring_register_files(&io->ring, &file->fd, 1);
	err = io_uring_register_buffers(&io->ring, &io->memory, 1);
	io->fixed_buf = !err;
	if (err)
		explain("buffers of io_uring cannot be registered", -err,
			ret_why);
}

void ts_io_fini(struct ts_io *io)
{
	if (io->uring)
		io_uring_queue_exit(&io->ring);
	io->uring = false;
}

/* Do the rest of a transfer by system calls, from byte @from on. */
static int transfer_rest(const struct ts_io *io, struct ts_transfer *t,
			 uint32_t from)
{
	int fd = io->file->fd;

	while (from < t->bytes) {
		uint8_t *at = (uint8_t *)t->buf + from;
		off_t off = (off_t)(t->off + from);
		ssize_t n = t->write ? pwrite(fd, at, t->bytes - from, off) :
				       pread(fd, at, t->bytes - from, off);

		if (n > 0)
			from += (uint32_t)n;
		else if (!n)
			return -EIO; /* the file has been cut short */
		else if (errno == EAGAIN)
			poll(NULL, 0, 1);
		else if (errno != EINTR)
			return -errno;
	}
	return 0;
}

static void finish(struct ts_io *io, struct ts_transfer *t, int result)
{
	t->result = result;
	t->done = true;
	io->in_flight--;
}

static void prepare(struct ts_io *io, struct io_uring_sqe *sqe,
		    struct ts_transfer *t)
{
	int fd = io->fixed_file ? 0 : io->file->fd;

	if (io->fixed_buf && t->write)
		io_uring_prep_write_fixed(sqe, fd, t->buf, t->bytes, t->off,
					  0);
	else if (io->fixed_buf)
		io_uring_prep_read_fixed(sqe, fd, t->buf, t->bytes, t->off, 0);
	else if (t->write)
		io_uring_prep_write(sqe, fd, t->buf, t->bytes, t->off);
	else
		io_uring_prep_read(sqe, fd, t->buf, t->bytes, t->off);
	if (io->fixed_file)
		io_uring_sqe_set_flags(sqe, IOSQE_FIXED_FILE);
	io_uring_sqe_set_data(sqe, t);
}

void ts_io_now(struct ts_io *io, struct ts_transfer *t)
{
	t->result = transfer_rest(io, t, 0);
	t->done = true;
}

void ts_io_start(struct ts_io *io, struct ts_transfer *t)
{
	struct io_uring_sqe *sqe;

	assert(io->in_flight < TS_IO_DEPTH);
	if (!io->uring) {
		ts_io_now(io, t);
		return;
	}
	t->done = false;
	io->in_flight++;
	sqe = io_uring_get_sqe(&io->ring);
	assert(sqe);
	prepare(io, sqe, t);
}

static void reap(struct ts_io *io)
{
	struct io_uring_cqe *cqe;

	while (!io_uring_peek_cqe(&io->ring, &cqe)) {
		struct ts_transfer *t = io_uring_cqe_get_data(cqe);
		int n = cqe->res;

		io_uring_cqe_seen(&io->ring, cqe);
		if (n == -EINTR || n == -EAGAIN)
			n = 0;
		else if (!n)
			n = -EIO;
		finish(io, t, n < 0 ? n : transfer_rest(io, t, (uint32_t)n));
	}
}

void ts_io_poll(struct ts_io *io)
{
	if (!io->in_flight)
		return;
	/* EINTR, EBUSY: what was started stays queued until the next call. */
	io_uring_submit(&io->ring);
	reap(io);
}

void ts_io_wait(struct ts_io *io)
{
	unsigned before = io->in_flight;

	while (io->in_flight && io->in_flight == before) {
		io_uring_submit_and_wait(&io->ring, 1);
		reap(io);
	}
}
