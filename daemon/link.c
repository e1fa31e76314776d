// SPDX-License-Identifier: BSD-3-Clause
/* link.c - a device whose connections the kernel drops while its server lives
 *
 * When a server dies its connections die first: for a moment the message is
 * waited out, to see whether that is what it was.
 */
#include "link.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "daemon.h"
#include "log.h"
#include "nbdnl.h"

#define WAIT_US 500000ull

static int index_of(const struct ts_daemon *d)
{
	int index;

	return sscanf(d->attach.device, "/dev/nbd%d", &index) == 1 ? index :
								     -1;
}

static int on_wait_over(sd_event_source *source, uint64_t now_us, void *opaque)
{
	struct ts_daemon *d = opaque;
	struct ts_error error;

	d->link_timer = sd_event_source_disable_unref(d->link_timer);
	if ((d->state != TS_RUNNING && d->state != TS_DRAINING) ||
	    !ts_child_is_alive(&d->server))
		return 0;
	if (ts_standby_check(d, &error) < 0) {
		ts_log(LOG_CRIT, "the kernel has dropped a connection of %s, "
		       "because a request took longer than its timeout; the "
		       "server (pid %d) gets another one", d->attach.device,
		       d->server.pid);
		if (ts_daemon_connect(d, &error) < 0)
			ts_log(LOG_ERR, "%s", error.text);
		ts_link_forget(d);
		return 0;
	}
	ts_log(LOG_CRIT, "the kernel has dropped a connection of %s, because a "
	       "request took longer than its timeout: the server (pid %d) is "
	       "killed, and another one goes on with its memory",
	       d->attach.device, d->server.pid);
	ts_child_signal(&d->server, SIGKILL);
	return 0;
}

static int on_message(sd_event_source *source, int fd, uint32_t events,
		      void *opaque)
{
	struct ts_daemon *d = opaque;

	if (!ts_nbdnl_link_died(d->link, index_of(d)) || d->link_timer)
		return 0;
	if (sd_event_add_time_relative(d->event, &d->link_timer,
				       CLOCK_MONOTONIC, WAIT_US, 0,
				       on_wait_over, d) < 0)
		ts_log(LOG_ERR, "a dead connection of %s: no timer",
		       d->attach.device);
	return 0;
}

void ts_link_begin(struct ts_daemon *d)
{
	struct ts_error error;
	int fd;

	if (d->link || index_of(d) < 0)
		return;
	if (ts_nbdnl_listen(&d->link, &fd, &error) < 0) {
		ts_log(LOG_WARNING, "connections that the kernel drops will "
		       "not be noticed: %s", error.text);
		return;
	}
	if (sd_event_add_io(d->event, &d->link_source, fd, EPOLLIN,
			    on_message, d) < 0)
		ts_link_end(d);
}

void ts_link_forget(struct ts_daemon *d)
{
	d->link_timer = sd_event_source_disable_unref(d->link_timer);
	if (d->link)
		ts_nbdnl_link_died(d->link, index_of(d));
}

void ts_link_end(struct ts_daemon *d)
{
	d->link_timer = sd_event_source_disable_unref(d->link_timer);
	d->link_source = sd_event_source_disable_unref(d->link_source);
	ts_nbdnl_unlisten(d->link);
	d->link = NULL;
}
