// SPDX-License-Identifier: BSD-3-Clause
/* watch.c - what a running daemon reacts to: signals, deaths, time
 *
 * SIGTERM asks for a drain; only when it has succeeded does the daemon end,
 * and only then is nbdkit asked to. One that is refused changes nothing.
 *
 * A server that dies and has kept its memory gets a successor; see revive.c.
 * One that has not takes what was swapped out with it. A fresh one would be
 * empty and hand zeros to live processes, so none is started: the daemon
 * stays, says what is lost, and waits for a person.
 */
#include "watch.h"

#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "daemon.h"
#include "drain.h"
#include "handover.h"
#include "log.h"
#include "notify.h"
#include "server.h"
#include "swaparea.h"
#include "util/size.h"

#define TICK_US 2000000ull

/* How old a good read may be before the store counts as stuck. */
#define STUCK_MS 10000

static void stop_now(struct ts_daemon *d)
{
	d->state = TS_STOPPING;
	sd_event_exit(d->event, d->exit_code);
}

static int on_stop(sd_event_source *source,
		   const struct signalfd_siginfo *info, void *opaque)
{
	struct ts_daemon *d = opaque;
	struct ts_error error;
	int err;

	ts_log(LOG_INFO, "signal %u: stopping", info->ssi_signo);
	if (ts_handover_is_possible(d) && ts_handover_is_wanted()) {
		d->leaving = true;
		stop_now(d);
		return 0;
	}
	if (!d->attach.device[0]) {
		stop_now(d);
		return 0;
	}
	d->stop_wanted = true;
	err = ts_drain_begin(d, false, &error);
	if (err < 0) {
		d->stop_wanted = false;
		ts_log(LOG_CRIT, "not stopping: %s", error.text);
		ts_daemon_status(d, "not stopping: %s", error.text);
	}
	return 0;
}

void ts_watch_drain_ended(struct ts_daemon *d, int err)
{
	if (!d->stop_wanted)
		return;
	d->stop_wanted = false;
	if (err == 0)
		stop_now(d);
}

static int on_reload(sd_event_source *source,
		     const struct signalfd_siginfo *info, void *opaque)
{
	ts_daemon_reload(opaque);
	ts_revive_again(opaque);
	return 0;
}

static void declare_failed(struct ts_daemon *d, const char *who)
{
	struct ts_swap_use use = {0};
	bool on = ts_swap_lookup(d->attach.device, &use) == 0;

	d->state = TS_FAILED;
	ts_log(LOG_CRIT, "%s died under %s: %" PRIu64 " KiB that were swapped "
	       "out are lost. No empty server is put in its place, which "
	       "would hand zeros to live processes. `thinswap detach --force` "
	       "or reboot", who, d->attach.device,
	       on ? use.used_bytes / 1024 : 0);
	ts_daemon_status_refresh(d);
}

static int on_server_end(sd_event_source *source, int fd, uint32_t events,
			 void *opaque)
{
	struct ts_daemon *d = opaque;
	int status = 0, err;

	d->server_source = sd_event_source_disable_unref(d->server_source);
	ts_child_wait(&d->server, -1, &status);
	ts_server_forget(&d->rt);
	if (status == TS_STATUS_UNKNOWN)
		ts_log(LOG_CRIT, "%s ended", d->server.name);
	else
		ts_log(LOG_CRIT, "%s ended with status %d", d->server.name,
		       status);
	err = ts_revive_begin(d, status);
	if (err == 0)
		return 0;
	if (d->attach.device[0]) {
		declare_failed(d, d->server.name);
	} else {
		d->exit_code = 1;
		stop_now(d);
	}
	return 0;
}

void ts_watch_feed(struct ts_daemon *d)
{
	struct ts_probe_state state;

	/* While a successor is on its way there is none; that is limited. */
	if (!d->probe && d->state == TS_RECOVERING)
		ts_notify("WATCHDOG=1");
	if (!d->probe)
		return;
	ts_probe_look(d->probe, &state);
	if (state.since_good_ms >= 0 && state.since_good_ms < STUCK_MS) {
		ts_notify("WATCHDOG=1");
		if (d->stuck)
			ts_log(LOG_NOTICE, "reads through the store succeed "
			       "again");
		d->stuck = false;
		return;
	}
	if (!d->stuck)
		ts_log(LOG_ERR, "no read through the store for %d s: %s",
		       STUCK_MS / 1000, state.error.text);
	d->stuck = true;
}

static int on_tick(sd_event_source *source, uint64_t now_us, void *opaque)
{
	struct ts_daemon *d = opaque;

	ts_watch_feed(d);
	ts_visible_tick(d);
	ts_standby_tick(d);
	if (d->state == TS_RUNNING)
		ts_daemon_status_refresh(d);
	sd_event_source_set_time_relative(source, TICK_US);
	sd_event_source_set_enabled(source, SD_EVENT_ONESHOT);
	return 0;
}

int ts_watch_server(struct ts_daemon *d)
{
	ts_revive_note_start(d);
	return sd_event_add_io(d->event, &d->server_source, d->server.pidfd,
			       EPOLLIN, on_server_end, d);
}

int ts_watch_begin(struct ts_daemon *d, struct ts_error *error)
{
	int err;

	err = sd_event_add_signal(d->event, NULL, SIGTERM, on_stop, d);
	if (err >= 0)
		err = sd_event_add_signal(d->event, NULL, SIGINT, on_stop, d);
	if (err >= 0)
		err = sd_event_add_signal(d->event, NULL, SIGHUP, on_reload,
					  d);
	if (err >= 0)
		err = ts_watch_server(d);
	if (err >= 0)
		err = sd_event_add_time_relative(d->event, &d->tick_source,
						 CLOCK_MONOTONIC, TICK_US, 0,
						 on_tick, d);
	if (err < 0) {
		ts_watch_end(d);
		return ts_fail(error, err, "event loop: %m");
	}
	return 0;
}

void ts_watch_end(struct ts_daemon *d)
{
	d->server_source = sd_event_source_disable_unref(d->server_source);
	d->tick_source = sd_event_source_disable_unref(d->tick_source);
}
