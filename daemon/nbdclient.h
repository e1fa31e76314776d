/* SPDX-License-Identifier: BSD-3-Clause */
/* nbdclient.h - the daemon's own connections to its NBD server
 *
 * Connections that will be handed to the kernel are made without structured
 * replies, which the kernel does not understand. The probe's connection asks
 * for them, to learn what is allocated.
 */
#ifndef TS_DAEMON_NBDCLIENT_H
#define TS_DAEMON_NBDCLIENT_H

#include <libnbd.h>
#include <stdbool.h>
#include <stdint.h>

#include "error.h"
#include "spawn.h"

enum ts_nbd_use {
	TS_NBD_FOR_KERNEL,
	TS_NBD_FOR_PROBE,
};

/* Connect and negotiate. Gives up after @timeout_ms, and at once when
 * @server ends: the listening socket alone would keep a client waiting.
 */
int ts_nbd_open(const char *socket_path, const struct ts_child *server,
		enum ts_nbd_use use, int timeout_ms, struct nbd_handle **ret,
		struct ts_error *error);

struct ts_nbd_export {
	uint64_t size_bytes;
	uint32_t flags; /* transmission flags as the kernel takes them */
	bool multi_conn;
	bool trim;
};

int ts_nbd_describe(struct nbd_handle *nbd, struct ts_nbd_export *ret,
		    struct ts_error *error);

struct ts_nbd_warmth {
	unsigned rounds;
	uint64_t last_faults; /* page faults of the server in the last round */
};

/* Make the server allocate and touch all that this connection will need:
 * rounds of many large parallel reads, and with @write also writes, until a
 * round causes no page fault in process @server_pid, 20 at most, or 6 without
 * @write, where somebody waits. With @write only for a device that holds
 * nothing yet: its first MiB is written and then discarded.
 */
int ts_nbd_warm(struct nbd_handle *nbd, pid_t server_pid, bool write,
		struct ts_nbd_warmth *ret, struct ts_error *error);

/* What warm-up writes: large requests of pages that cost nothing, and every
 * 16th one half noise, half repetition, so that the codec has its turn too.
 */
void ts_nbd_warm_pattern(void *buf, size_t bytes);

/* How long to wait for one answer: until @timeout_ms are over (-1: for ever),
 * or @must_stop says so.
 */
struct ts_nbd_patience {
	int timeout_ms;
	bool (*must_stop)(void *opaque);
	void *opaque;
};

/* One real read through the store: begin it, and wait for its end. After
 * -ETIMEDOUT the read is still under way and can be waited for again.
 */
int ts_nbd_read_start(struct nbd_handle *nbd, uint64_t off_bytes,
		      int64_t *ret_cookie, struct ts_error *error);
int ts_nbd_wait(struct nbd_handle *nbd, int64_t cookie,
		const struct ts_nbd_patience *patience, struct ts_error *error);

/* How much of the device is allocated, from its extents. Should the patience
 * end, the handle is good only for closing.
 */
int ts_nbd_allocated(struct nbd_handle *nbd,
		     const struct ts_nbd_patience *patience,
		     uint64_t *ret_bytes, struct ts_error *error);

#endif
