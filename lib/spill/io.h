/* SPDX-License-Identifier: BSD-3-Clause */
/* io.h - reads and writes of the spill file, by io_uring or without it
 *
 * An engine belongs to one thread at a time. All of its memory is made and
 * touched by ts_io_init(). Where the kernel refuses io_uring (sysctl,
 * seccomp, RLIMIT_MEMLOCK) the same calls work by pread and pwrite, one after
 * the other.
 *
 * Transfers are whole: short ones are continued and EINTR and EAGAIN retried
 * here. What remains is an error of the device.
 */
#ifndef TS_SPILL_IO_H
#define TS_SPILL_IO_H

#include "spill/file.h"

#include <liburing.h>
#include <sys/uio.h>

#define TS_IO_DEPTH 16u

struct ts_transfer {
	void *buf;
	uint32_t bytes;
	uint64_t off; /* in the file */
	bool write;
	int result; /* 0 or -errno, when done */
	bool done;
};

struct ts_io {
	const struct ts_spill_file *file;
	bool uring;
	bool fixed_file;
	bool fixed_buf; /* memory given to ts_io_init() is registered */
	struct io_uring ring;
	struct iovec memory;
	unsigned in_flight;
};

#define TS_IO_WHY_BYTES 160

/* Set up an engine for transfers to and from the @bytes at @memory.
 * @use_uring false asks for pread and pwrite. Never fails: without io_uring,
 * or where it cannot register the memory, it falls back, and @ret_why says why;
 * else it is empty.
 */
void ts_io_init(struct ts_io *io, const struct ts_spill_file *file,
		void *memory, size_t bytes, bool use_uring,
		char ret_why[TS_IO_WHY_BYTES]);
void ts_io_fini(struct ts_io *io);

/* Start a transfer, at most TS_IO_DEPTH at a time. It stays where it is until
 * it is done. The kernel may not have seen it before ts_io_wait().
 */
void ts_io_start(struct ts_io *io, struct ts_transfer *transfer);

/* Do a transfer at once, by system calls of this thread. */
void ts_io_now(struct ts_io *io, struct ts_transfer *transfer);

/* Hand over what was started and wait until at least one transfer that was in
 * flight is done. With nothing in flight, return at once.
 */
void ts_io_wait(struct ts_io *io);

/* Hand over what was started, note what is done, do not wait. */
void ts_io_poll(struct ts_io *io);

/* Wait until all is done. */
static inline void ts_io_drain(struct ts_io *io)
{
	while (io->in_flight)
		ts_io_wait(io);
}

#endif
