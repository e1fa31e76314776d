// SPDX-License-Identifier: BSD-3-Clause
/* filereader.c - reads through the store by its FUSE file, for the probe
 *
 * pread() on a FUSE file cannot be given up: it sleeps until the server
 * answers or is gone. Asynchronous direct I/O can be left alone, and its
 * completion awaited with a limit. The two system calls that takes are made
 * directly; libaio is no more than they are. What has no asynchronous form is
 * called by way of patient.h.
 */
#include "filereader.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/aio_abi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/statvfs.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "nbdclient.h"
#include "patient.h"
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

struct opening {
	char path[PATH_MAX];
	int fd;
};

static int open_now(void *arg)
{
	struct opening *opening = arg;

	opening->fd = open(opening->path, O_RDONLY | O_DIRECT | O_CLOEXEC);
	return opening->fd < 0 ? -errno : 0;
}

static void close_again(void *arg)
{
	struct opening *opening = arg;

	close(opening->fd);
}

static bool must_stop_opening(void *server)
{
	return !ts_child_is_alive(server) || ts_stop_is_requested();
}

/* The file is there as soon as the server has mounted; on a connection that
 * was there before, opening it waits for the server.
 */
static int open_file(const char *path, const struct ts_child *server,
		     int timeout_ms, struct ts_error *error)
{
	struct ts_patient how = {
		.call = open_now,
		.undo = close_again,
		.must_stop = must_stop_opening,
		.opaque = (void *)server,
	};
	struct opening opening;

	snprintf(opening.path, sizeof(opening.path), "%s", path);
	for (int ms = 0;; ms += OPEN_STEP_MS) {
		int err;

		how.timeout_ms = timeout_ms - ms;
		err = ts_patient_call(&how, &opening, sizeof(opening));
		if (err == 0)
			return opening.fd;
		if (err != -ENOENT && err != -ECANCELED && err != -ETIMEDOUT)
			return ts_fail(error, err, "open %s: %m", path);
		if (!ts_child_is_alive(server))
			return ts_fail(error, -EPIPE,
				       "%s ended at start; its "
				       "messages are above",
				       server->name);
		if (ts_stop_is_requested())
			return ts_fail(error, -ECANCELED, "told to stop");
		if (err == -ETIMEDOUT || ms >= timeout_ms)
			return ts_fail(error, -ETIMEDOUT,
				       "%s does not serve "
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

struct counting {
	int fd; /* its own: the reader may be gone when the answer comes */
	struct statvfs st;
};

static void close_counting(void *arg)
{
	struct counting *counting = arg;

	close(counting->fd);
}

static int count_now(void *arg)
{
	struct counting *counting = arg;

	return fstatvfs(counting->fd, &counting->st) < 0 ? -errno : 0;
}

static int file_allocated(void *opaque, const struct ts_nbd_patience *patience,
			  uint64_t *ret_bytes, struct ts_error *error)
{
	struct reader *reader = opaque;
	struct ts_patient how = {
		.call = count_now,
		.undo = close_counting,
		.timeout_ms = patience->timeout_ms,
		.must_stop = patience->must_stop,
		.opaque = patience->opaque,
	};
	struct counting counting = {
		.fd = fcntl(reader->fd, F_DUPFD_CLOEXEC, 0),
	};
	int err;

	if (counting.fd < 0)
		return ts_fail(error, -errno, "statvfs: %m");
	err = ts_patient_call(&how, &counting, sizeof(counting));
	if (err != -ETIMEDOUT && err != -ECANCELED)
		close(counting.fd);
	if (err < 0)
		return ts_fail(error, err, "statvfs: %m");
	*ret_bytes = (uint64_t)(counting.st.f_blocks - counting.st.f_bfree) *
		     counting.st.f_frsize;
	return 0;
}

const struct ts_probe_ops ts_filereader_ops = {
	.open = file_open,
	.read_start = file_read_start,
	.read_wait = file_read_wait,
	.allocated = file_allocated,
	.close = file_close,
};
