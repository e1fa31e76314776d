/* SPDX-License-Identifier: BSD-3-Clause */
/* standby.h - a second server, ready to take the first one's place
 *
 * A successor that is started when the server has died must be forked, find
 * its code, and allocate: on a machine whose memory is used up, and that has
 * no swap until it serves, it never gets there. So it is started beforehand,
 * with its connections made and warmed, and waits before it takes over the
 * kept memory (plugin/standby.h). The same way a server is replaced by one of
 * another version: that one says first whether it can read what is kept.
 *
 * One at a time. Killing it is harmless at any moment: what is stored is kept.
 */
#ifndef TS_DAEMON_STANDBY_H
#define TS_DAEMON_STANDBY_H

#include <stdbool.h>
#include <stdint.h>
#include <systemd/sd-event.h>

#include "error.h"
#include "front.h"
#include "runtime.h"
#include "spawn.h"

struct ts_daemon;

struct ts_standby {
	struct ts_child child; /* pid 0: there is none */
	struct ts_args args;
	int control_fd, listen_fd;
	uint64_t own_bytes; /* resident for it alone */
	sd_event_source *end_source;
	uint64_t not_before_ns; /* of the next try */
	unsigned failures;      /* in a row */
};

/* Initialises a struct ts_standby: there is none. */
#define TS_STANDBY_NONE                                                       \
	{ .child = { .pidfd = -1 }, .control_fd = -1, .listen_fd = -1 }

/* Can the running server be followed by one? Only where it can be replaced
 * (revive.h) and serves a socket; else -EOPNOTSUPP and a sentence.
 */
int ts_standby_check(const struct ts_daemon *d, struct ts_error *error);

/* Start one with the command line @args and wait until it is ready. Blocks for
 * a second or so. -EPROTO: it refuses what is kept; the sentence is its own.
 */
int ts_standby_start(struct ts_daemon *d, const struct ts_args *args,
		     struct ts_error *error);

bool ts_standby_is_ready(const struct ts_daemon *d);

/* The server is dead: let the standby take over, connect the device to it, and
 * make it the server. On error it is gone.
 */
int ts_standby_take(struct ts_daemon *d, struct ts_error *error);

/* Kill it, if there is one. */
void ts_standby_end(struct ts_daemon *d);

/* Have one where one is wanted, none where not; from time to time. */
void ts_standby_tick(struct ts_daemon *d);

/* Kill what a dead instance left. True when there was one: then the socket may
 * be on its way to it.
 */
bool ts_standby_reclaim(const struct ts_runtime *rt);

#endif
