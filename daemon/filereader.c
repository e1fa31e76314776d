// SPDX-License-Identifier: BSD-3-Clause
/* filereader.c - reads through the store by its FUSE file, for the probe
 *
 * pread() on a FUSE file cannot be given up: it sleeps until the server
 * answers or is gone. Asynchronous direct I/O can be left alone, and its
 * completion awaited with a limit. The two system calls that takes are made
 * directly; libaio is no more than they are.
 */
#include "filereader.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/aio_abi.h>
#include <stdlib.h>
#include <string.h>
#include <sys/statvfs.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "nbdclient.h"
#include "stop.h"

#define PAGE_BYTES   4096
#define STEP_MS      100
#define OPEN_STEP_MS 20

struct reader {
	int fd;
	aio_context_t context;
	bool under_way;
	_Alignas(PAGE_BYTES) uint8_t page[PAGE_BYTES];
};

/* The file is there as soon as the server has mounted. */
static int open_file(const char *path, const struct ts_child *server,
		     int timeout_ms, struct ts_error *error)
{
	for (int ms = 0;; ms += OPEN_STEP_MS) {
		int fd = open(path, O_RDONLY | O_DIRECT | O_CLOEXEC);

		if (fd >= 0)
			return fd;
		if (errno != ENOENT)
			return ts_fail(error, -errno, "open %s: %m", path);
		if (!ts_child_is_alive(server))
			return ts_fail(error, -EPIPE,
				       "%s ended at start; its "
				       "messages are above",
				       server->name);
		if (ts_stop_is_requested())
			return ts_fail(error, -ECANCELED, "told to stop");
		if (ms >= timeout_ms)
			return ts_fail(error, -ETIMEDOUT,
				       "%s has not mounted "
				       "after %d s",
				       server->name, timeout_ms / 1000);
		usleep(OPEN_STEP_MS * 1000);
	}
}

/* What is still under way keeps the memory that it will write to. */
static void file_close(void *opaque)
{
	struct reader *reader = opaque;

	close(reader->fd);
	if (reader->under_way)
		return;
	syscall(SYS_io_destroy, reader->context);
	free(reader);
}

static int file_open(const char *path, const struct ts_child *server,
		     int timeout_ms, void **ret, struct ts_error *error)
{
	struct reader *reader = aligned_alloc(PAGE_BYTES, sizeof(*reader));
	int err = 0;

	if (!reader)
		return ts_fail(error, -ENOMEM, "probe: %m");
	memset(reader, 0, sizeof(*reader));
	reader->fd = open_file(path, server, timeout_ms, error);
	if (reader->fd < 0)
		err = reader->fd;
	else if (syscall(SYS_io_setup, 1, &reader->context) < 0) {
		err = ts_fail(error, -errno, "io_setup: %m");
		close(reader->fd);
	}
	if (err < 0) {
		free(reader);
		return err;
	}
	*ret = reader;
	return 0;
}

static int file_read_start(void *opaque, struct ts_error *error)
{
	struct reader *reader = opaque;
	struct iocb request = {
		.aio_fildes = (uint32_t)reader->fd,
		.aio_lio_opcode = IOCB_CMD_PREAD,
		.aio_buf = (uint64_t)(uintptr_t)reader->page,
		.aio_nbytes = PAGE_BYTES,
	}, *requests = &request;

	if (syscall(SYS_io_submit, reader->context, 1, &requests) != 1)
		return ts_fail(error, -errno, "io_submit: %m");
	reader->under_way = true;
	return 0;
}

static int file_read_wait(void *opaque, const struct ts_nbd_patience *patience,
			  struct ts_error *error)
{
	struct reader *reader = opaque;
	int limit_ms = patience->timeout_ms;

	for (int ms = 0; limit_ms < 0 || ms < limit_ms; ms += STEP_MS) {
		struct timespec step = { .tv_nsec = STEP_MS * 1000000 };
		struct io_event event;

		if (syscall(SYS_io_getevents, reader->context, 1, 1, &event,
			    &step) == 1) {
			reader->under_way = false;
			if (event.res == PAGE_BYTES)
				return 0;
			return ts_fail(error,
				       event.res < 0 ? (int)event.res : -EIO,
				       "read through the store: %m");
		}
		if (patience->must_stop(patience->opaque))
			return ts_fail(error, -ECANCELED, "told to stop");
	}
	return ts_fail(error, -ETIMEDOUT, "no answer for %d s",
		       limit_ms / 1000);
}

/* statvfs cannot be given up; it is asked of a server that answers reads. */
static int file_allocated(void *opaque, const struct ts_nbd_patience *patience,
			  uint64_t *ret_bytes, struct ts_error *error)
{
	struct reader *reader = opaque;
	struct statvfs st;

	if (fstatvfs(reader->fd, &st) < 0)
		return ts_fail(error, -errno, "statvfs: %m");
	*ret_bytes = (uint64_t)(st.f_blocks - st.f_bfree) * st.f_frsize;
	return 0;
}

const struct ts_probe_ops ts_filereader_ops = {
	.open = file_open,
	.read_start = file_read_start,
	.read_wait = file_read_wait,
	.allocated = file_allocated,
	.close = file_close,
};
