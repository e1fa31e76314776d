// SPDX-License-Identifier: BSD-3-Clause
/* standby.c - a second server, ready to take the first one's place
 *
 * The daemon can be killed at any step of a takeover, and the next instance
 * must find its way by the notes. So: the standby's own note and its socket's
 * own name last until it serves; an instance that finds them kills it and
 * begins anew on the kept memory. Only then is the socket renamed to the place
 * where clients look, and the note to that of the server; an instance that
 * finds a server which its device is not connected to connects it (adopt.c).
 * Renames and system calls that allocate next to nothing are all that happens
 * between a death and its repair; the notes that need room come after.
 */
#include "standby.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "daemon.h"
#include "link.h"
#include "log.h"
#include "place.h"
#include "server.h"
#include "util/harden.h"
#include "util/size.h"
#include "watch.h"

#define SOCKET_NAME "standby"

#define READY_TIMEOUT_MS 180000
#define TAKE_TIMEOUT_MS  300000
#define SLICE_MS         1000

/* A failed standby costs memory and time that the server may need more. */
#define RETRY_NS     (10ull * 1000000000)
#define RETRY_MAX_NS (600ull * 1000000000)

/* Left free beside what a standby takes, or it is not the time for one. */
#define SPARE_KIB (48u << 10)

static uint64_t now_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return ts.tv_sec * 1000000000ull + ts.tv_nsec;
}

int ts_standby_check(const struct ts_daemon *d, struct ts_error *error)
{
	if (!d->front->has_socket)
		return ts_fail(error, -EOPNOTSUPP, "%s has no standby",
			       d->server.name);
	return ts_revive_check(d, error);
}

bool ts_standby_is_ready(const struct ts_daemon *d)
{
	return ts_child_is_alive(&d->standby.child) &&
	       ts_args_equal(&d->standby.args, &d->server_args);
}

/* Wait until it says something. The server may die meanwhile, which is more
 * urgent; once it is dead there is none.
 */
static int wait_for_news(struct ts_daemon *d, int timeout_ms,
			 struct ts_error *error)
{
	struct pollfd fds[] = {
		{ .fd = d->standby.control_fd, .events = POLLIN },
		{ .fd = d->server.pid > 0 ? d->server.pidfd : -1,
		  .events = POLLIN },
	};

	for (int ms = 0; ms < timeout_ms; ms += SLICE_MS) {
		ts_watch_feed(d);
		if (poll(fds, 2, SLICE_MS) <= 0)
			continue;
		if (fds[1].revents)
			return ts_fail(error, -ECANCELED,
				       "the server has died meanwhile");
		return 0;
	}
	return ts_fail(error, -ETIMEDOUT, "the new server said nothing for "
		       "%d s", timeout_ms / 1000);
}

/* One line from it, or what became of it. */
static int hear(struct ts_daemon *d, int timeout_ms, char *line, size_t room,
		struct ts_error *error)
{
	struct ts_standby *standby = &d->standby;
	int err = wait_for_news(d, timeout_ms, error);
	ssize_t got;

	if (err < 0)
		return err;
	got = recv(standby->control_fd, line, room - 1, 0);
	if (got <= 0)
		return ts_fail(error, -EPIPE, "the new server ended; its "
			       "messages are above");
	line[got] = '\0';
	line[strcspn(line, "\n")] = '\0';
	if (strncmp(line, "refused ", 8) == 0)
		return ts_fail(error, -EPROTO, "the new server refuses: %s",
			       line + 8);
	if (strncmp(line, "failed ", 7) == 0)
		return ts_fail(error, -EIO, "the new server failed: %s",
			       line + 7);
	return 0;
}

static int note_standby(void *opaque, pid_t pid)
{
	return ts_server_note(opaque, TS_STANDBY_NOTE, pid);
}

static int spawn(struct ts_daemon *d, struct ts_error *error)
{
	struct ts_standby *standby = &d->standby;
	struct ts_spawn how = TS_SPAWN(standby->args.argv);
	int ends[2], err;

	err = ts_runtime_listen(&d->rt, SOCKET_NAME, 0600, (gid_t)-1,
				&standby->listen_fd, error);
	if (err < 0)
		return err;
	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) < 0)
		return ts_fail(error, -errno, "socketpair: %m");
	standby->control_fd = ends[0];
	how.listen_fd = standby->listen_fd;
	how.standby_fd = ends[1];
	how.serves_swap = true;
	how.realtime = ts_harden_wants_realtime(&d->config, true);
	how.note = note_standby;
	how.opaque = &d->rt;
	err = ts_spawn(&how, &standby->child, error);
	close(ends[1]);
	return err;
}

static int on_end(sd_event_source *source, int fd, uint32_t events,
		  void *opaque);

static int hear_ready(struct ts_daemon *d, struct ts_error *error)
{
	struct ts_standby *standby = &d->standby;
	char line[640];
	int err;

	err = hear(d, READY_TIMEOUT_MS, line, sizeof(line), error);
	if (err == 0 && sscanf(line, "ready %lu", &standby->own_bytes) != 1)
		err = ts_fail(error, -EPROTO, "it said \"%.64s\"", line);
	return err;
}

static int say(struct ts_standby *standby, const char *word,
	       struct ts_error *error)
{
	ssize_t len = (ssize_t)strlen(word);

	if (send(standby->control_fd, word, len, MSG_NOSIGNAL) != len)
		return ts_fail(error, -errno, "the standby has ended");
	return 0;
}

static int connect_it(struct ts_daemon *d, struct ts_error *error)
{
	int err;

	err = d->attach.ops->prepare(&d->attach, SOCKET_NAME,
				     &d->standby.child, error);
	if (err == 0)
		err = say(&d->standby, "again\n", error);
	return err < 0 ? err : hear_ready(d, error);
}

static int make_ready(struct ts_daemon *d, struct ts_error *error)
{
	struct ts_standby *standby = &d->standby;
	int err;

	err = spawn(d, error);
	if (err == 0)
		err = hear_ready(d, error);
	if (err == 0 && d->attach.device[0] && d->attach.ops->prepare)
		err = connect_it(d, error);
	if (err == 0) {
		err = sd_event_add_io(d->event, &standby->end_source,
				      standby->child.pidfd, EPOLLIN, on_end,
				      d);
		if (err < 0)
			ts_fail(error, err, "event loop: %m");
	}
	return err < 0 ? err : 0;
}

int ts_standby_start(struct ts_daemon *d, const struct ts_args *args,
		     struct ts_error *error)
{
	struct ts_standby *standby = &d->standby;
	char own[TS_SIZE_TEXT_BYTES];
	int err;

	ts_standby_end(d);
	ts_args_copy(&standby->args, args);
	err = make_ready(d, error);
	if (err < 0) {
		ts_standby_end(d);
		return err;
	}
	ts_log(LOG_INFO, "%s (pid %d) stands by to take over; it takes %s for "
	       "itself", standby->child.name, standby->child.pid,
	       ts_size_format(standby->own_bytes, own, sizeof(own)));
	return 0;
}

static void close_control(struct ts_standby *standby)
{
	standby->end_source =
		sd_event_source_disable_unref(standby->end_source);
	if (standby->control_fd >= 0)
		close(standby->control_fd);
	standby->control_fd = -1;
}

void ts_standby_end(struct ts_daemon *d)
{
	struct ts_standby *standby = &d->standby;

	if (d->attach.ops && d->attach.ops->drop)
		d->attach.ops->drop(&d->attach);
	if (standby->child.pid > 0)
		ts_child_kill(&standby->child);
	close_control(standby);
	if (standby->listen_fd >= 0) {
		close(standby->listen_fd);
		ts_runtime_forget(&d->rt, SOCKET_NAME);
		ts_runtime_forget(&d->rt, TS_STANDBY_NOTE);
	}
	standby->listen_fd = -1;
	standby->own_bytes = 0;
}

static void become_the_server(struct ts_daemon *d)
{
	struct ts_standby *standby = &d->standby;

	d->server = standby->child;
	standby->child = TS_CHILD_NONE;
	close_control(standby);
}

static int take(struct ts_daemon *d, struct ts_error *error)
{
	struct ts_standby *standby = &d->standby;
	char line[640];
	int err;

	ts_place_doubt(d);
	err = say(standby, "take\n", error);
	if (err == 0)
		err = hear(d, TAKE_TIMEOUT_MS, line, sizeof(line), error);
	if (err == 0 && strcmp(line, "taken") != 0)
		err = ts_fail(error, -EPROTO, "it said \"%.64s\"", line);
	if (err == 0)
		err = ts_place_move(d, SOCKET_NAME, error);
	if (err == 0)
		err = ts_server_note_moved(&d->rt, TS_STANDBY_NOTE, error);
	if (err == 0 && d->attach.device[0])
		err = d->attach.ops->hand_over(&d->attach, error);
	ts_link_forget(d);
	return err;
}

int ts_standby_take(struct ts_daemon *d, struct ts_error *error)
{
	bool realtime = ts_harden_wants_realtime(&d->config, true);
	int err;

	/* For what little is allocated here: see util/harden.h. */
	if (realtime)
		ts_harden_realtime(true);
	err = take(d, error);
	if (realtime)
		ts_harden_realtime(false);
	if (err < 0) {
		ts_standby_end(d);
		ts_server_forget(&d->rt);
		ts_place_lose(d);
		return err;
	}
	become_the_server(d);
	ts_place_settle(d, d->standby.listen_fd);
	d->standby.listen_fd = -1;
	if (d->attach.device[0])
		err = ts_attach_note(&d->attach, error);
	return err;
}

static void put_off(struct ts_standby *standby)
{
	uint64_t wait_ns = RETRY_NS << (standby->failures < 6 ?
						standby->failures : 6);

	standby->failures++;
	standby->not_before_ns =
		now_ns() + (wait_ns < RETRY_MAX_NS ? wait_ns : RETRY_MAX_NS);
}

static int on_end(sd_event_source *source, int fd, uint32_t events,
		  void *opaque)
{
	struct ts_daemon *d = opaque;

	ts_log(LOG_WARNING, "the standby (pid %d) has ended; another one is "
	       "started later", d->standby.child.pid);
	ts_standby_end(d);
	put_off(&d->standby);
	return 0;
}

static bool is_wanted(const struct ts_daemon *d)
{
	struct ts_error error;

	if (d->config.tuning.standby == TS_STANDBY_NEVER ||
	    d->state != TS_RUNNING || ts_standby_check(d, &error) < 0)
		return false;
	return d->config.tuning.standby == TS_STANDBY_ALWAYS ||
	       (d->attach.device[0] && d->attach.ops->prepare);
}

/* As much as the server has for itself is what its successor takes. A machine
 * that lives on swap has next to nothing available, and needs a standby most:
 * there others are swapped out for it.
 */
static bool has_room(const struct ts_daemon *d)
{
	unsigned long long kib, room_kib = 0;
	struct ts_harden_facts facts;
	char line[128];
	FILE *file;

	if (ts_harden_observe(d->server.pid, &facts) < 0)
		return false;
	file = fopen("/proc/meminfo", "re");
	if (!file)
		return true;
	while (fgets(line, sizeof(line), file))
		if (sscanf(line, "MemAvailable: %llu", &kib) == 1 ||
		    sscanf(line, "SwapFree: %llu", &kib) == 1)
			room_kib += kib;
	fclose(file);
	return room_kib > (facts.rss_bytes - facts.anon_shm_bytes) / 1024 +
				  SPARE_KIB;
}

void ts_standby_tick(struct ts_daemon *d)
{
	struct ts_standby *standby = &d->standby;
	struct ts_error error;

	if (!is_wanted(d)) {
		/* A drain may be refused or fail: it is kept for that time. */
		if (standby->child.pid > 0 && d->state == TS_RUNNING)
			ts_standby_end(d);
		return;
	}
	if (standby->child.pid > 0 && ts_standby_is_ready(d))
		return;
	/* It is not as the server was tuned since. */
	ts_standby_end(d);
	if (now_ns() < standby->not_before_ns || !has_room(d))
		return;
	if (ts_standby_start(d, &d->server_args, &error) == 0) {
		standby->failures = 0;
		return;
	}
	ts_log(LOG_WARNING, "no standby: %s", error.text);
	put_off(standby);
}

bool ts_standby_reclaim(const struct ts_runtime *rt)
{
	bool found = ts_server_kill_noted(rt, TS_STANDBY_NOTE);

	if (found)
		ts_log(LOG_NOTICE, "ended the standby that a dead instance "
		       "left");
	ts_runtime_forget(rt, TS_STANDBY_NOTE);
	ts_runtime_forget(rt, SOCKET_NAME);
	return found;
}
