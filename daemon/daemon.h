/* SPDX-License-Identifier: BSD-3-Clause */
/* daemon.h - the state of one thinswapd, shared by its parts
 *
 * One thread, one event loop (sd-event) owns all of this; the probe has a
 * thread of its own and its own lock. Life:
 *
 *   starting → running ⇄ draining → stopping
 *                ⇅  └→ failed: the server died under a device in use, and
 *           recovering          there is no successor
 *
 * "running" with or without a device: attach and detach come and go.
 */
#ifndef TS_DAEMON_DAEMON_H
#define TS_DAEMON_DAEMON_H

#include <stdbool.h>
#include <stdint.h>
#include <systemd/sd-event.h>

#include "attach.h"
#include "config.h"
#include "error.h"
#include "front.h"
#include "harden.h"
#include "probe.h"
#include "revive.h"
#include "runtime.h"
#include "spawn.h"
#include "standby.h"
#include "steps.h"
#include "visible.h"

enum ts_state {
	TS_STARTING,
	TS_RUNNING,
	TS_RECOVERING, /* a successor of the server is on its way */
	TS_DRAINING,
	TS_STOPPING,
	TS_FAILED,
};

struct ts_control;
struct ts_drain;

struct ts_daemon {
	struct ts_config config;
	char program[PATH_MAX];  /* this one, as it was started */
	char **argv;
	const char *config_path; /* as given; NULL: the installed place */
	const char *runtime_dir;
	enum ts_state state;
	char status[256]; /* what STATUS= says */
	uint64_t started_ns;

	struct ts_runtime rt;
	const struct ts_front_ops *front; /* what serves; set by the route */
	char served_path[TS_RUNTIME_PATH_BYTES]; /* its socket or file */
	int listen_fd;
	struct ts_args server_args;
	struct ts_child server;
	struct ts_probe *probe;
	struct ts_revival revival;
	struct ts_standby standby;
	bool adopted;       /* from a dead instance: see adopt.h */
	bool server_lived;  /* when that was done */
	bool server_differs; /* it is not as configured */
	bool must_connect;  /* its device has no connection to a server */
	bool upgraded;      /* the image before was told to upgrade */
	int upgrade_client; /* who did, for the answer; -1 */
	bool memory_lived;  /* kept memory was there before the start */
	struct ts_attach attach;
	bool wants_swapon; /* for the attach under way */
	struct ts_harden_table own_rows; /* taken at start, for the daemon */
	struct ts_harden_table harden;   /* all rows, of the last check */

	struct ts_progress serve; /* steps done; see start.c */
	struct ts_progress device;

	sd_event *event;
	sd_event_source *server_source;
	sd_event_source *tick_source;
	struct ts_nbdnl_link *link; /* see link.h; NULL */
	sd_event_source *link_source, *link_timer;
	struct ts_control *control;
	struct ts_drain *drain;
	bool stop_wanted; /* end when the drain has succeeded */
	bool leaving;     /* end, and leave all to the next instance */
	uint64_t warned_ns[TS_N_WARNINGS + 1]; /* see visible.h; 0: never */
	unsigned tuned;   /* bit by enum ts_tune_key; see visible.h */
	bool ram_closed;  /* ram-admission was tuned to false */
	bool stuck;       /* reads through the store do not come back */
	int exit_code;
};

const char *ts_state_name(enum ts_state state);

/* Set the status line; systemd is told, and the log at debug priority. */
void ts_daemon_status(struct ts_daemon *d, const char *format, ...)
	__attribute__((format(printf, 2, 3)));

/* The status line that fits the present state. */
void ts_daemon_status_refresh(struct ts_daemon *d);

/* start.c: everything up to a served socket, and its undoing. */
int ts_daemon_serve(struct ts_daemon *d, struct ts_error *error);
int ts_daemon_unserve(struct ts_daemon *d, struct ts_error *error);

/* start.c: attach, and swap on unless @swapon is false. Blocks for seconds. */
int ts_daemon_attach(struct ts_daemon *d, bool swapon, struct ts_error *error);

/* start.c: connect the attached device to the server that runs now. */
int ts_daemon_connect(struct ts_daemon *d, struct ts_error *error);

/* start.c: go on with the device of a dead instance, which is adopted. */
int ts_daemon_resume(struct ts_daemon *d, struct ts_error *error);

/* start.c: a server, and a read through it; also for a successor. */
int ts_daemon_start_server(struct ts_daemon *d, struct ts_error *error);
int ts_daemon_start_probe(struct ts_daemon *d, struct ts_error *error);

/* start.c: read back what holds for the daemon and its server. */
void ts_daemon_check_hardening(struct ts_daemon *d);

/* start.c: undo an attach whose swap is off (drain.c sees to that). */
int ts_daemon_disconnect(struct ts_daemon *d, struct ts_error *error);

/* reload.c: read the configuration again, take over what can change. */
void ts_daemon_reload(struct ts_daemon *d);

#endif
