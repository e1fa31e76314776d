// SPDX-License-Identifier: BSD-3-Clause
/* revive.c - a server that dies gets a successor on the memory that it kept
 *
 * A successor that fails is killed, never told to stop: a clean stop takes
 * the kept memory away. The device comes first: warming its connections reads
 * through the store, and until it is connected a machine that is short of
 * memory has less and less. The probe's connection costs as much again.
 */
#include "revive.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "daemon.h"
#include "log.h"
#include "memory.h"
#include "place.h"
#include "server.h"
#include "util/size.h"
#include "watch.h"

/* A server that has lived so long is no sign of a fault that comes back. */
#define LIFE_NS 1000000000ull

/* Nothing feeds the watchdog meanwhile. */
#define REHEARSAL_TIMEOUT_MS 60000

#define DELAY_MS     100u
#define DELAY_MAX_MS 5000u

#define HASTE_S	       2u
#define HASTE_PAUSE_US 200000u

static uint64_t now_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return ts.tv_sec * 1000000000ull + ts.tv_nsec;
}

static void end_probe(struct ts_daemon *d)
{
	ts_probe_stop(d->probe);
	d->probe = NULL;
}

static int start_cold(struct ts_daemon *d, struct ts_error *error)
{
	int err = 0;

	/* A listening socket that a dead instance had is gone with its last
	 * user.
	 */
	if (d->listen_fd < 0)
		err = ts_place_make_anew(d, error);
	if (err == 0)
		err = ts_daemon_start_server(d, error);
	if (err == 0 && d->attach.device[0])
		err = ts_daemon_connect(d, error);
	return err;
}

static int start_successor(struct ts_daemon *d, struct ts_error *error)
{
	int err = -ENOENT;

	if (ts_standby_is_ready(d)) {
		err = ts_standby_take(d, error);
		if (err < 0)
			ts_log(LOG_ERR, "the standby did not take over: %s",
			       error->text);
	}
	if (err < 0) {
		/* One that maps the memory would be in the way. */
		ts_standby_end(d);
		err = start_cold(d, error);
	}
	/* The device has its server now. */
	d->revival.last_ns = now_ns() - d->revival.death_ns;
	if (err == 0)
		err = ts_daemon_start_probe(d, error);
	if (err == 0) {
		err = ts_watch_server(d);
		if (err < 0)
			ts_fail(error, err, "event loop: %m");
	}
	if (err < 0) {
		end_probe(d);
		ts_server_kill(&d->rt, &d->server);
	}
	return err < 0 ? err : 0;
}

static void succeed(struct ts_daemon *d)
{
	struct ts_revival *revival = &d->revival;
	char kept[TS_SIZE_TEXT_BYTES] = "";
	struct ts_memory memory;

	revival->taken_over++;
	if (d->state == TS_RECOVERING)
		d->state = TS_RUNNING;
	if (ts_memory_look(&d->rt, &memory) == 0)
		ts_size_format(memory.resident_bytes, kept, sizeof(kept));
	ts_log(LOG_WARNING, "%s (pid %d) has taken over %s of kept memory; "
	       "served again after %.3f s, nothing is lost. It was death %llu "
	       "of a server", d->server.name, d->server.pid, kept,
	       revival->last_ns / 1e9, (unsigned long long)revival->deaths);
	ts_visible_tune_again(d);
	ts_daemon_check_hardening(d);
	if (d->state == TS_RUNNING)
		ts_daemon_status_refresh(d);
}

static int on_timer(sd_event_source *source, uint64_t now_us, void *opaque);

static void give_up(struct ts_daemon *d)
{
	struct ts_memory memory = {0};

	d->revival.gave_up = true;
	d->state = TS_FAILED;
	ts_memory_look(&d->rt, &memory);
	ts_log(LOG_CRIT, "%u servers in a row have not stayed up: no more are "
	       "started. What was stored is kept in segment %d, and requests "
	       "wait for it. Mend what the messages above name, then send "
	       "SIGHUP (systemctl reload thinswap)", d->revival.in_row,
	       memory.segment);
	ts_daemon_status_refresh(d);
}

/* The next try, at once or later. */
static void plan(struct ts_daemon *d)
{
	struct ts_revival *revival = &d->revival;
	unsigned delay_ms = 0;
	int err;

	if (++revival->in_row > TS_REVIVE_TRIES) {
		give_up(d);
		return;
	}
	if (revival->in_row > 1)
		delay_ms = DELAY_MS << (revival->in_row - 2);
	if (delay_ms > DELAY_MAX_MS)
		delay_ms = DELAY_MAX_MS;
	revival->timer = sd_event_source_disable_unref(revival->timer);
	err = sd_event_add_time_relative(d->event, &revival->timer,
					 CLOCK_MONOTONIC, delay_ms * 1000ull,
					 1, on_timer, d);
	if (err < 0) {
		ts_log(LOG_ERR, "timer: %s", strerror(-err));
		give_up(d);
		return;
	}
	if (d->state != TS_DRAINING)
		d->state = TS_RECOVERING;
	ts_daemon_status_refresh(d);
}

static int on_timer(sd_event_source *source, uint64_t now_us, void *opaque)
{
	struct ts_daemon *d = opaque;
	struct ts_error error = {.text = ""};

	if (start_successor(d, &error) == 0) {
		succeed(d);
		return 0;
	}
	ts_log(LOG_ERR, "try %u to start a successor failed: %s",
	       d->revival.in_row, error.text);
	plan(d);
	return 0;
}

int ts_revive_begin(struct ts_daemon *d, int status)
{
	struct ts_revival *revival = &d->revival;
	struct ts_memory memory;

	if ((d->attach.device[0] && !d->attach.ops->reconnect) ||
	    (d->attach.device[0] && !ts_front_can_reach(d->front,
							d->listen_fd)) ||
	    ts_memory_look(&d->rt, &memory) < 0)
		return -ENOENT;
	revival->death_ns = now_ns();
	revival->last_status = status;
	revival->deaths++;
	if (revival->death_ns - revival->start_ns >= LIFE_NS)
		revival->in_row = 0;
	end_probe(d);
	plan(d);
	return 0;
}

/* Requests that are under way when the old server is killed are sent again when
 * they time out: for those that begin from here on that is soon.
 */
static void hasten(struct ts_daemon *d)
{
	struct ts_error error;

	if (!d->attach.device[0] || !d->attach.ops->hasten)
		return;
	if (d->attach.ops->hasten(&d->attach, HASTE_S, &error) < 0)
		ts_log(LOG_WARNING, "requests under way will wait for their "
		       "timeout: %s", error.text);
	else
		usleep(HASTE_PAUSE_US);
}

static bool keeps_memory(const struct ts_args *args)
{
	for (unsigned i = 0; i < args->n; i++)
		if (strncmp(args->argv[i], "keep=", 5) == 0)
			return true;
	return false;
}

int ts_revive_check(const struct ts_daemon *d, struct ts_error *error)
{
	struct ts_memory memory;

	if (!keeps_memory(&d->server_args) ||
	    !ts_front_can_reach(d->front, d->listen_fd))
		return ts_fail(error, -EOPNOTSUPP,
			       "%s is not replaced while it lives",
			       d->server.name);
	if (ts_memory_look(&d->rt, &memory) < 0)
		return ts_fail(error, -EOPNOTSUPP, "no memory is kept");
	return 0;
}

/* Have the program say whether it could go on with what is kept. */
static int rehearse(const struct ts_args *args, struct ts_error *error)
{
	const char *argv[sizeof(args->argv) / sizeof(*args->argv) + 1];
	struct ts_error told;
	int err;

	argv[0] = args->argv[0];
	argv[1] = "--rehearse";
	memcpy(argv + 2, args->argv + 1, args->n * sizeof(*argv));
	err = ts_run(argv, REHEARSAL_TIMEOUT_MS, &told);
	return err < 0 ? ts_fail(error, -EPROTO, "the new server refuses: %s",
				 told.text) : 0;
}

/* A standby waits to take over; what can have none is only asked. */
static int prepare_successor(struct ts_daemon *d, const struct ts_args *args,
			     struct ts_error *error)
{
	return d->front->has_socket ? ts_standby_start(d, args, error) :
				      rehearse(args, error);
}

int ts_revive_replace(struct ts_daemon *d, struct ts_error *error)
{
	struct ts_revival *revival = &d->revival;
	struct ts_args args = { .n = 0 };
	pid_t old = d->server.pid;
	int err;

	err = ts_revive_check(d, error);
	if (err < 0)
		return err;
	ts_visible_keep_max(d);
	d->front->command(&d->config, &d->rt, &args);
	err = prepare_successor(d, &args, error);
	if (err < 0)
		return err;
	ts_args_copy(&d->server_args, &args);
	hasten(d);
	d->server_source = sd_event_source_disable_unref(d->server_source);
	end_probe(d);
	revival->death_ns = now_ns();
	ts_server_kill(&d->rt, &d->server);
	err = start_successor(d, error);
	if (err < 0) {
		ts_log(LOG_CRIT, "the server was ended for a new one, which "
		       "failed: %s", error->text);
		revival->in_row = 0;
		plan(d);
		return err;
	}
	revival->replaced++;
	d->server_differs = false;
	ts_log(LOG_NOTICE, "%s (pid %d) has taken the place of pid %d, on the "
	       "same memory; nobody was served for %.3f s", d->server.name,
	       d->server.pid, old, revival->last_ns / 1e9);
	ts_visible_tune_again(d);
	ts_daemon_check_hardening(d);
	return 0;
}

void ts_revive_again(struct ts_daemon *d)
{
	if (d->state != TS_FAILED || !d->revival.gave_up)
		return;
	ts_log(LOG_NOTICE, "trying again to start a server");
	d->revival.gave_up = false;
	d->revival.in_row = 0;
	plan(d);
}

void ts_revive_note_start(struct ts_daemon *d)
{
	d->revival.start_ns = now_ns();
}

void ts_revive_cancel(struct ts_daemon *d)
{
	d->revival.timer = sd_event_source_disable_unref(d->revival.timer);
}
