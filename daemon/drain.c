// SPDX-License-Identifier: BSD-3-Clause
/* drain.c - swap off, page by page, then the device away
 *
 * swapoff runs as a child and its progress is read from /proc/swaps. Whether
 * it worked is read from there too: exit statuses differ between versions,
 * and an area that is still listed is still in use.
 */
#include "drain.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "control.h"
#include "daemon.h"
#include "log.h"
#include "notify.h"
#include "swaparea.h"
#include "util/size.h"
#include "watch.h"

#define TICK_US 1000000ull

/* More than a tick: systemd waits as long as progress is told. */
#define EXTEND_US 30000000ull

struct ts_drain {
	struct ts_child swapoff;
	int output_fd;
	sd_event_source *end_source;
	sd_event_source *tick_source;
	enum ts_state back_to; /* when it fails */
};

static void free_drain(struct ts_daemon *d)
{
	struct ts_drain *drain = d->drain;

	if (!drain)
		return;
	sd_event_source_disable_unref(drain->end_source);
	sd_event_source_disable_unref(drain->tick_source);
	if (drain->output_fd >= 0)
		close(drain->output_fd);
	free(drain);
	d->drain = NULL;
}

static void tell_progress(struct ts_daemon *d)
{
	struct ts_swap_use use;
	char left[TS_SIZE_TEXT_BYTES], text[96];

	if (ts_swap_lookup(d->attach.device, &use) < 0)
		return;
	snprintf(text, sizeof(text), "draining %s: %s left", d->attach.device,
		 ts_size_format(use.used_bytes, left, sizeof(left)));
	ts_daemon_status(d, "%s", text);
	ts_notify("EXTEND_TIMEOUT_USEC=%llu", EXTEND_US);
	ts_control_drain_progress(d->control, text);
}

static int on_tick(sd_event_source *source, uint64_t now_us, void *opaque)
{
	struct ts_daemon *d = opaque;

	tell_progress(d);
	sd_event_source_set_time_relative(source, TICK_US);
	sd_event_source_set_enabled(source, SD_EVENT_ONESHOT);
	return 0;
}

/* The device is no swap area any more: take it away. */
static int finish(struct ts_daemon *d)
{
	struct ts_error error = {.text = ""};
	int err = ts_daemon_disconnect(d, &error);

	d->state = d->drain && d->drain->back_to == TS_FAILED && err < 0
			   ? TS_FAILED
			   : TS_RUNNING;
	free_drain(d);
	ts_daemon_status_refresh(d);
	ts_control_drain_ended(d->control, err, error.text);
	ts_watch_drain_ended(d, err);
	return err;
}

/* What swapoff was short of: the machine's memory, or that of a memory cgroup
 * which owns some of the pages, and which nobody can tell beforehand.
 */
static const char *short_of(const struct ts_daemon *d, const char *output)
{
	struct ts_swap_room room;
	struct ts_error error;

	if (!strstr(output, strerror(ENOMEM)) ||
	    ts_swap_measure_room(d->attach.device, &room, &error) < 0)
		return "";
	return room.missing_bytes
		       ? ". Memory has no room for all of it: free some"
		       : ". The machine has room for all of it, so a memory "
			 "cgroup has not: raise memory.max of the processes "
			 "that are swapped out";
}

static void fail(struct ts_daemon *d, int status, const char *output)
{
	struct ts_error error;

	ts_fail(&error, -EIO,
		"swapoff %s failed with status %d%s%s; it is "
		"still on and still served%s",
		d->attach.device, status, output[0] ? ": " : "", output,
		short_of(d, output));
	ts_log(LOG_ERR, "%s", error.text);
	d->state = d->revival.gave_up ? TS_FAILED : d->drain->back_to;
	free_drain(d);
	ts_daemon_status(d, "%s", error.text);
	ts_control_drain_ended(d->control, -EIO, error.text);
	ts_watch_drain_ended(d, -EIO);
}

static int on_end(sd_event_source *source, int fd, uint32_t events,
		  void *opaque)
{
	struct ts_daemon *d = opaque;
	char output[256] = "";
	struct ts_swap_use use;
	int status = 0;
	ssize_t got;

	ts_child_wait(&d->drain->swapoff, -1, &status);
	got = read(d->drain->output_fd, output, sizeof(output) - 1);
	output[got > 0 ? got : 0] = '\0';
	output[strcspn(output, "\n")] = '\0';
	if (ts_swap_lookup(d->attach.device, &use) == 0)
		fail(d, status, output);
	else
		finish(d);
	return 0;
}

static int start_swapoff(struct ts_daemon *d, struct ts_error *error)
{
	struct ts_drain *drain = calloc(1, sizeof(*drain));
	int fds[2], err;

	if (!drain)
		return ts_fail(error, -ENOMEM, "drain: %m");
	drain->output_fd = -1;
	drain->back_to = d->state == TS_RECOVERING ? TS_RUNNING : d->state;
	d->drain = drain;
	if (pipe2(fds, O_CLOEXEC | O_NONBLOCK) < 0) {
		err = ts_fail(error, -errno, "pipe for swapoff: %m");
		goto out;
	}
	drain->output_fd = fds[0];
	err = ts_swap_off_start(&d->config, d->attach.device, fds[1],
				&drain->swapoff, error);
	close(fds[1]);
	if (err < 0)
		goto out;
	err = sd_event_add_io(d->event, &drain->end_source,
			      drain->swapoff.pidfd, EPOLLIN, on_end, d);
	if (err >= 0)
		err = sd_event_add_time_relative(d->event, &drain->tick_source,
						 CLOCK_MONOTONIC, TICK_US, 0,
						 on_tick, d);
	if (err < 0) {
		ts_child_stop(&drain->swapoff, 1000);
		ts_fail(error, err, "drain: %m");
	}
out:
	if (err < 0)
		free_drain(d);
	else
		err = 0;
	return err;
}

static int check_room(struct ts_daemon *d, struct ts_error *error)
{
	char used[TS_SIZE_TEXT_BYTES], room[TS_SIZE_TEXT_BYTES];
	char missing[TS_SIZE_TEXT_BYTES];
	struct ts_swap_room space;
	int err;

	err = ts_swap_measure_room(d->attach.device, &space, error);
	if (err < 0 || space.missing_bytes == 0)
		return err;
	return ts_fail(
		error, -ENOMEM,
		"%s is swapped out and memory has room for %s: %s are "
		"missing. Swap stays on. Free memory and try again, or "
		"`thinswap detach --force`",
		ts_size_format(space.used_bytes, used, sizeof(used)),
		ts_size_format(space.room_bytes, room, sizeof(room)),
		ts_size_format(space.missing_bytes, missing, sizeof(missing)));
}

int ts_drain_begin(struct ts_daemon *d, bool force, struct ts_error *error)
{
	struct ts_swap_use use;
	int err;

	if (d->drain)
		return 0;
	if (ts_swap_lookup(d->attach.device, &use) < 0) {
		finish(d);
		return 0;
	}
	if (d->state == TS_FAILED && d->revival.gave_up && !force)
		return ts_fail(error, -ENODATA,
			       "no server of %s stays up: the %llu KiB swapped "
			       "out there are kept, but cannot be read. Mend "
			       "what the log names, then send SIGHUP "
			       "(systemctl reload thinswap)", d->attach.device,
			       (unsigned long long)use.used_bytes / 1024);
	if (d->state == TS_FAILED && !force)
		return ts_fail(error, -ENODATA,
			       "the server of %s died: the %llu KiB swapped "
			       "out there are lost, and processes that touch "
			       "them will be killed (SIGBUS). `thinswap detach "
			       "--force` does it",
			       d->attach.device,
			       (unsigned long long)use.used_bytes / 1024);
	if (!force) {
		err = check_room(d, error);
		if (err < 0)
			return err;
	}
	err = start_swapoff(d, error);
	if (err < 0)
		return err;
	d->state = TS_DRAINING;
	ts_log(LOG_NOTICE, "draining %s%s", d->attach.device,
	       force ? " by force" : "");
	tell_progress(d);
	return 0;
}

void ts_drain_abandon(struct ts_daemon *d)
{
	if (!d->drain)
		return;
	ts_child_stop(&d->drain->swapoff, 1000);
	free_drain(d);
}
