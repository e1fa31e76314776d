/* SPDX-License-Identifier: BSD-3-Clause */
/* revive.h - a server that dies gets a successor on the memory that it kept
 *
 * Requests wait meanwhile: the kernel's, for as long as dead-conn-timeout,
 * and those of clients that connect again to the socket. The first try comes
 * at once; servers that die young wait longer and longer for the next, and
 * after TS_REVIVE_TRIES of them in a row it is left to a person.
 */
#ifndef TS_DAEMON_REVIVE_H
#define TS_DAEMON_REVIVE_H

#include <stdbool.h>
#include <stdint.h>
#include <systemd/sd-event.h>

#include "error.h"

#define TS_REVIVE_TRIES 12

struct ts_daemon;

struct ts_revival {
	sd_event_source *timer;
	unsigned in_row; /* deaths and failed tries without a life between */
	bool gave_up;
	uint64_t start_ns; /* of the server that runs */
	uint64_t death_ns; /* of the one that died last */
	uint64_t deaths, taken_over;
	uint64_t replaced; /* while they lived */
	int last_status;
	uint64_t last_ns; /* from the last death to being served again */
};

/* The server is dead and reaped, with @status. 0: a successor is on its way,
 * or given up. -ENOENT: it has kept nothing, or the route cannot connect a
 * successor; then that is for the caller.
 */
int ts_revive_begin(struct ts_daemon *d, int status);

/* Can the server that lives be replaced? Only where it keeps its memory and
 * another one could reach who waits for it; else -EOPNOTSUPP and a sentence.
 */
int ts_revive_check(const struct ts_daemon *d, struct ts_error *error);

/* Replace the server that lives by one as configured and installed now, on the
 * same memory. -EOPNOTSUPP: that cannot be done with this server. -EPROTO and
 * others: the new one refuses or fails, and the old one goes on. With any
 * other error a successor is on its way.
 */
int ts_revive_replace(struct ts_daemon *d, struct ts_error *error);

/* A person asks to try again what was given up; else nothing happens. */
void ts_revive_again(struct ts_daemon *d);

/* A server has just begun to serve. */
void ts_revive_note_start(struct ts_daemon *d);

/* The daemon ends. */
void ts_revive_cancel(struct ts_daemon *d);

#endif
