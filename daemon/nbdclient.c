// SPDX-License-Identifier: BSD-3-Clause
/* nbdclient.c - the daemon's own connections to its NBD server
 *
 * Warming: nbdkit gives every connection a set of threads, and every thread a
 * request buffer that grows at first use. A page fault there, once the socket
 * belongs to the kernel and memory is short, is a deadlock. So each connection
 * is driven with enough large requests at the same time that every one of its
 * threads has had one, and the server's own fault counter says when that is so.
 */
#include "nbdclient.h"

#include <errno.h>
#include <linux/nbd.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "util/harden.h"

/* Twice what the kernel sends: it merges page-outs up to 128 KiB. What a
 * thread's buffer has grown to, it keeps.
 */
#define WARM_BYTES     (256u << 10)
#define WARM_IN_FLIGHT 64
#define WARM_ROUNDS    20
#define WARM_READS     6 /* rounds, where somebody waits for it */
#define WARM_PAGE_OF   16
#define WORDS_A_PAGE   512

/* Some threads may have had no turn in a round without faults; where somebody
 * waits for the connection, two rounds have to do.
 */
#define MANY_ROUNDS 4u
#define FEW_ROUNDS  1u

/* A block-status request covers 4 GiB at most: 16384 of them. */
#define MAP_STEP_BYTES 0xfffff000u
#define MAP_MOST_BYTES (64ll << 40)

#ifndef NBD_FLAG_SEND_WRITE_ZEROES
#define NBD_FLAG_SEND_WRITE_ZEROES (1 << 6)
#endif

static int nbd_fail(struct ts_error *error, const char *what)
{
	int err = nbd_get_errno();

	return ts_fail(error, err > 0 ? -err : -EIO, "%s: %s", what,
		       nbd_get_error());
}

static long long now_ms(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return ts.tv_sec * 1000ll + ts.tv_nsec / 1000000;
}

/* Drive the handshake until it is over, the time is, or the server is. */
static int negotiate(struct nbd_handle *nbd, const struct ts_child *server,
		     int timeout_ms, struct ts_error *error)
{
	long long end_ms = now_ms() + timeout_ms;

	while (nbd_aio_is_connecting(nbd)) {
		struct pollfd fds[2] = {
			{.fd = nbd_aio_get_fd(nbd)},
			{.fd = server->pidfd, .events = POLLIN},
		};
		unsigned direction = nbd_aio_get_direction(nbd);
		long long left_ms = end_ms - now_ms();

		if (direction & LIBNBD_AIO_DIRECTION_READ)
			fds[0].events |= POLLIN;
		if (direction & LIBNBD_AIO_DIRECTION_WRITE)
			fds[0].events |= POLLOUT;
		if (left_ms <= 0)
			return ts_fail(error, -ETIMEDOUT,
				       "the server did not answer within "
				       "%d s",
				       timeout_ms / 1000);
		if (poll(fds, 2, left_ms) < 0 && errno != EINTR)
			return ts_fail(error, -errno, "poll: %m");
		if (fds[1].revents)
			return ts_fail(error, -EPIPE,
				       "%s ended at start; its messages are "
				       "above",
				       server->name);
		if ((fds[0].revents & (POLLIN | POLLHUP | POLLERR)) &&
		    (direction & LIBNBD_AIO_DIRECTION_READ)) {
			if (nbd_aio_notify_read(nbd) < 0)
				return nbd_fail(error, "negotiation");
		} else if (fds[0].revents & (POLLOUT | POLLHUP | POLLERR)) {
			if (nbd_aio_notify_write(nbd) < 0)
				return nbd_fail(error, "negotiation");
		}
	}
	if (!nbd_aio_is_ready(nbd))
		return nbd_fail(error, "negotiation");
	return 0;
}

int ts_nbd_open(const char *socket_path, const struct ts_child *server,
		enum ts_nbd_use use, int timeout_ms, struct nbd_handle **ret,
		struct ts_error *error)
{
	struct nbd_handle *nbd = nbd_create();
	int err;

	if (!nbd)
		return nbd_fail(error, "libnbd");
	if (use == TS_NBD_FOR_KERNEL)
		err = nbd_set_request_structured_replies(nbd, false);
	else
		err = nbd_add_meta_context(nbd, LIBNBD_CONTEXT_BASE_ALLOCATION);
	if (err < 0 || nbd_aio_connect_unix(nbd, socket_path) < 0)
		err = nbd_fail(error, "connect");
	else
		err = negotiate(nbd, server, timeout_ms, error);
	if (err < 0) {
		nbd_close(nbd);
		return err;
	}
	*ret = nbd;
	return 0;
}

int ts_nbd_describe(struct nbd_handle *nbd, struct ts_nbd_export *ret,
		    struct ts_error *error)
{
	struct ts_nbd_export export = {.flags = NBD_FLAG_HAS_FLAGS};
	int64_t size = nbd_get_size(nbd);

	if (size < 0)
		return nbd_fail(error, "size of the export");
	export.size_bytes = size;
	export.trim = nbd_can_trim(nbd) > 0;
	export.multi_conn = nbd_can_multi_conn(nbd) > 0;
	if (nbd_is_read_only(nbd) > 0)
		export.flags |= NBD_FLAG_READ_ONLY;
	if (nbd_can_flush(nbd) > 0)
		export.flags |= NBD_FLAG_SEND_FLUSH;
	if (nbd_can_fua(nbd) > 0)
		export.flags |= NBD_FLAG_SEND_FUA;
	if (export.trim)
		export.flags |= NBD_FLAG_SEND_TRIM;
	if (nbd_can_zero(nbd) > 0)
		export.flags |= NBD_FLAG_SEND_WRITE_ZEROES;
	if (export.multi_conn)
		export.flags |= NBD_FLAG_CAN_MULTI_CONN;
	*ret = export;
	return 0;
}

void ts_nbd_warm_pattern(void *buf, size_t bytes)
{
	uint64_t state = 0x9e3779b97f4a7c15ull, *words = buf;

	memset(buf, 0, bytes);
	for (size_t i = 0; i < bytes / sizeof(*words); i++) {
		if (i / WORDS_A_PAGE % WARM_PAGE_OF != 0)
			continue;
		state ^= state << 13;
		state ^= state >> 7;
		state ^= state << 17;
		words[i] = i & 1 ? state : 0x74686973776170ull;
	}
}

/* The callback takes the place of reaping each command by its cookie. */
static int count_done(void *opaque, int *failed_errno)
{
	int *first_error = opaque;

	if (*failed_errno && !*first_error)
		*first_error = *failed_errno;
	return 1;
}

/* @write: which way; every command covers the same first @bytes. */
static int warm_round(struct nbd_handle *nbd, void *buffers, size_t bytes,
		      bool write, struct ts_error *error)
{
	int first_error = 0;

	for (unsigned i = 0; i < WARM_IN_FLIGHT; i++) {
		/* Reads need buffers of their own; writes share one. */
		char *buf = (char *)buffers + (write ? 0 : (i % 4) * bytes);
		nbd_completion_callback done = {
			.callback = count_done,
			.user_data = &first_error,
		};
		int64_t cookie;

		if (write)
			cookie = nbd_aio_pwrite(nbd, buf, bytes, 0, done, 0);
		else
			cookie = nbd_aio_pread(nbd, buf + bytes, bytes, 0, done,
					       0);
		if (cookie < 0)
			return nbd_fail(error, "warm-up request");
	}
	while (nbd_aio_in_flight(nbd) > 0)
		if (nbd_poll(nbd, -1) < 0)
			return nbd_fail(error, "warm-up");
	if (first_error)
		return ts_fail(error, -first_error, "warm-up %s: %m",
			       write ? "write" : "read");
	return 0;
}

/* Leave nothing stored. */
static int discard(struct nbd_handle *nbd, size_t bytes, struct ts_error *error)
{
	int err;

	if (nbd_can_trim(nbd) > 0)
		err = nbd_trim(nbd, bytes, 0, 0);
	else
		err = nbd_zero(nbd, bytes, 0, 0);
	return err < 0 ? nbd_fail(error, "discard after warm-up") : 0;
}

int ts_nbd_warm(struct nbd_handle *nbd, pid_t server_pid, bool write,
		struct ts_nbd_warmth *ret, struct ts_error *error)
{
	struct ts_nbd_warmth warmth = {0};
	int64_t size = nbd_get_size(nbd);
	size_t bytes = size < WARM_BYTES ? size & ~4095 : WARM_BYTES;
	struct ts_harden_facts before, after;
	void *buffers;
	int err = 0;

	if (size < 0)
		return nbd_fail(error, "size of the export");
	buffers = malloc(5 * (size_t)WARM_BYTES);
	if (!buffers)
		return ts_fail(error, -ENOMEM, "warm-up: %m");
	ts_nbd_warm_pattern(buffers, WARM_BYTES);

	while (warmth.rounds < (write ? WARM_ROUNDS : WARM_READS)) {
		ts_harden_observe(server_pid, &before);
		/* Mostly reads: cheap, and they fill the same buffers. */
		err = warm_round(nbd, buffers, bytes, false, error);
		if (err == 0 && write && warmth.rounds % 4 == 0)
			err = warm_round(nbd, buffers, bytes, true, error);
		if (err < 0)
			goto out;
		warmth.rounds++;
		err = ts_harden_observe(server_pid, &after);
		if (err < 0) {
			ts_fail(error, err, "the server ended in warm-up");
			goto out;
		}
		warmth.last_faults = after.minor_faults - before.minor_faults +
				     after.major_faults - before.major_faults;
		if (warmth.rounds > (write ? MANY_ROUNDS : FEW_ROUNDS) &&
		    warmth.last_faults == 0)
			break;
	}
	if (write)
		err = discard(nbd, bytes, error);
	if (err == 0)
		*ret = warmth;
out:
	free(buffers);
	return err;
}

int ts_nbd_wait(struct nbd_handle *nbd, int64_t cookie,
		const struct ts_nbd_patience *patience, struct ts_error *error)
{
	long long end_ms = now_ms() + patience->timeout_ms;
	int done;

	while ((done = nbd_aio_command_completed(nbd, cookie)) == 0) {
		if (patience->timeout_ms >= 0 && now_ms() >= end_ms)
			return ts_fail(error, -ETIMEDOUT,
				       "the server did not answer a request "
				       "within %d ms",
				       patience->timeout_ms);
		if (patience->must_stop(patience->opaque))
			return ts_fail(error, -ECANCELED, "told to stop");
		if (nbd_poll(nbd, 100) < 0)
			return nbd_fail(error, "request");
	}
	return done < 0 ? nbd_fail(error, "request") : 0;
}

int ts_nbd_read_start(struct nbd_handle *nbd, uint64_t off_bytes,
		      int64_t *ret_cookie, struct ts_error *error)
{
	/* Nobody looks at it; it must only outlive every request. */
	static char page[4096];
	int64_t cookie = nbd_aio_pread(nbd, page, sizeof(page), off_bytes,
				       NBD_NULL_COMPLETION, 0);

	if (cookie < 0)
		return nbd_fail(error, "read");
	*ret_cookie = cookie;
	return 0;
}

struct extents {
	uint64_t allocated_bytes;
	uint64_t covered_bytes;
};

static int add_extents(void *opaque, const char *context, uint64_t off_bytes,
		       uint32_t *entries, size_t n, int *ret_errno)
{
	struct extents *sum = opaque;

	for (size_t i = 0; i + 1 < n; i += 2) {
		sum->covered_bytes += entries[i];
		if (!(entries[i + 1] & LIBNBD_STATE_HOLE))
			sum->allocated_bytes += entries[i];
	}
	return 0;
}

int ts_nbd_allocated(struct nbd_handle *nbd,
		     const struct ts_nbd_patience *patience,
		     uint64_t *ret_bytes, struct ts_error *error)
{
	/* May outlive this call in a request that was given up. */
	static _Thread_local struct extents sum;
	int64_t size = nbd_get_size(nbd);

	if (size > MAP_MOST_BYTES)
		return ts_fail(error, -EFBIG,
			       "the device is too large to count its extents");
	if (nbd_can_meta_context(nbd, LIBNBD_CONTEXT_BASE_ALLOCATION) <= 0)
		return ts_fail(error, -EOPNOTSUPP,
			       "the server does not report what is "
			       "allocated");
	sum = (struct extents){0};
	for (int64_t off = 0; off < size; off += sum.covered_bytes) {
		nbd_extent_callback add = {.callback = add_extents,
					   .user_data = &sum};
		uint64_t ask = size - off;
		int64_t cookie;
		int err;

		if (ask > MAP_STEP_BYTES)
			ask = MAP_STEP_BYTES;
		sum.covered_bytes = 0;
		cookie = nbd_aio_block_status(nbd, ask, off, add,
					      NBD_NULL_COMPLETION, 0);
		if (cookie < 0)
			return nbd_fail(error, "block status");
		err = ts_nbd_wait(nbd, cookie, patience, error);
		if (err < 0)
			return err;
		if (sum.covered_bytes == 0)
			return ts_fail(error, -EPROTO,
				       "block status made no progress");
	}
	*ret_bytes = sum.allocated_bytes;
	return 0;
}
