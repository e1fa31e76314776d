/* SPDX-License-Identifier: BSD-3-Clause */
/* probe.h - a thread that keeps reading through the store
 *
 * The watchdog is fed only while these reads succeed: they go the whole way,
 * socket, server, engine and codec. The thread never blocks the daemon.
 */
#ifndef TS_DAEMON_PROBE_H
#define TS_DAEMON_PROBE_H

#include <stdbool.h>
#include <stdint.h>

#include "error.h"
#include "spawn.h"

struct ts_nbd_patience;
struct ts_probe;

/* How a kind of server is read from; see front.h. */
struct ts_probe_ops {
	/* Waits for the server to serve; fails at once when it has ended. */
	int (*open)(const char *path, const struct ts_child *server,
		    int timeout_ms, void **ret, struct ts_error *error);

	/* Make the server touch what this handle will need, once, before
	 * anything is attached. NULL where there is nothing of that kind.
	 */
	int (*warm)(void *handle, pid_t server_pid, struct ts_error *error);

	/* One real read through the store: begin it, and wait for its end.
	 * After -ETIMEDOUT it is still under way and can be waited for again.
	 */
	int (*read_start)(void *handle, struct ts_error *error);
	int (*read_wait)(void *handle, const struct ts_nbd_patience *patience,
			 struct ts_error *error);

	/* Not while a read is under way. */
	int (*allocated)(void *handle, const struct ts_nbd_patience *patience,
			 uint64_t *ret_bytes, struct ts_error *error);
	void (*close)(void *handle);
};

/* Connect, read once, and go on reading every @interval_ms. @path and @server
 * must outlive the probe.
 */
int ts_probe_start(const struct ts_probe_ops *ops, const char *path,
		   const struct ts_child *server, int interval_ms,
		   struct ts_probe **ret, struct ts_error *error);

/* Ends within a second, whatever the server does. NULL is fine. */
void ts_probe_stop(struct ts_probe *probe);

struct ts_probe_state {
	uint64_t reads, failures;
	uint64_t last_ns;      /* how long the last good read took */
	int64_t since_good_ms; /* age of the last good read; -1: none */
	struct ts_error error; /* of the last failure; "" when it is over */
};

void ts_probe_look(struct ts_probe *probe, struct ts_probe_state *ret);

/* Ask what is allocated; waits for at most @timeout_ms. -ETIMEDOUT while the
 * server does not answer.
 */
int ts_probe_allocated(struct ts_probe *probe, int timeout_ms,
		       uint64_t *ret_bytes, struct ts_error *error);

#endif
