/* SPDX-License-Identifier: BSD-3-Clause */
/* watch.h - what a running daemon reacts to: signals, deaths, time */
#ifndef TS_DAEMON_WATCH_H
#define TS_DAEMON_WATCH_H

#include "error.h"

struct ts_daemon;

/* Add all sources to the event loop; after a start that went well. */
int ts_watch_begin(struct ts_daemon *d, struct ts_error *error);

void ts_watch_end(struct ts_daemon *d);

/* React to the death of the server that runs now. 0 or -errno. */
int ts_watch_server(struct ts_daemon *d);

/* A drain is over: with 0 the device is gone. */
void ts_watch_drain_ended(struct ts_daemon *d, int err);

/* Feed systemd's watchdog if the store answers; harmless at any time. */
void ts_watch_feed(struct ts_daemon *d);

#endif
