// SPDX-License-Identifier: BSD-3-Clause
/* control.c - the control socket: how `thinswap` talks to thinswapd
 *
 * Clients are few and their requests small: a fixed table, a line buffer each,
 * and answers written at once. A client that does not read its answers loses
 * them, never the daemon's time.
 */
#include "control.h"

#include <errno.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "daemon.h"
#include "drain.h"
#include "log.h"
#include "status.h"
#include "upgrade.h"

#define MAX_CLIENTS       16
#define MAX_REQUEST_BYTES 1024

struct client {
	struct ts_control *control;
	int fd; /* -1: free */
	sd_event_source *source;
	char line[MAX_REQUEST_BYTES];
	size_t used;
	bool waits_for_drain;
};

struct ts_control {
	struct ts_daemon *d;
	int fd;
	sd_event_source *source;
	struct client clients[MAX_CLIENTS];
};

static void drop(struct client *client)
{
	client->source = sd_event_source_disable_unref(client->source);
	if (client->fd >= 0)
		close(client->fd);
	client->fd = -1;
	client->used = 0;
	client->waits_for_drain = false;
}

/* Takes over @message. */
static void answer(struct client *client, json_t *message)
{
	char *text = message ? json_dumps(message, JSON_COMPACT) : NULL;
	struct msghdr head = {0};
	struct iovec parts[2] = {{0}};

	if (text) {
		parts[0] = (struct iovec){text, strlen(text)};
		parts[1] = (struct iovec){(char[]){'\n'}, 1};
		head.msg_iov = parts;
		head.msg_iovlen = 2;
		if (sendmsg(client->fd, &head, MSG_NOSIGNAL | MSG_DONTWAIT) < 0)
			ts_log(LOG_DEBUG, "control client lost: %m");
	}
	free(text);
	json_decref(message);
}

static void answer_error(struct client *client, const char *reason,
			 const char *text)
{
	answer(client, json_pack("{s:b, s:s, s:s}", "ok", 0, "reason", reason,
				 "error", text));
}

static void answer_result(struct client *client, json_t *result)
{
	answer(client, json_pack("{s:b, s:o}", "ok", 1, "result", result));
}

static void do_attach(struct client *client, json_t *request)
{
	struct ts_daemon *d = client->control->d;
	json_t *swapon = json_object_get(request, "swapon");
	struct ts_error error;
	int err;

	if (d->state != TS_RUNNING) {
		answer_error(client, "failed",
			     "the daemon is not in the state to attach");
		return;
	}
	err = ts_daemon_attach(
		d, swapon ? json_is_true(swapon) : d->config.tuning.swapon,
		&error);
	ts_daemon_status_refresh(d);
	if (err < 0) {
		ts_log(LOG_ERR, "attach: %s", error.text);
		answer_error(client, "failed", error.text);
		return;
	}
	answer_result(client,
		      json_pack("{s:s, s:s}", "device", d->attach.device,
				"route", d->attach.ops->name));
}

static void do_detach(struct client *client, json_t *request)
{
	struct ts_daemon *d = client->control->d;
	bool force = json_is_true(json_object_get(request, "force"));
	struct ts_error error;
	int err;

	if (!d->attach.device[0]) {
		answer_error(client, "failed", "no device is attached");
		return;
	}
	/* Before the drain begins, since it may end at once. */
	client->waits_for_drain = true;
	err = ts_drain_begin(d, force, &error);
	if (err < 0) {
		client->waits_for_drain = false;
		answer_error(client,
			     err == -ENOMEM || err == -ENODATA ? "refused"
							       : "failed",
			     error.text);
	}
}

static void do_tune(struct client *client, json_t *request)
{
	const char *set = json_string_value(json_object_get(request, "set"));
	struct ts_error error;

	if (!set)
		answer_error(client, "usage", "tune: \"set\" is missing");
	else if (ts_visible_tune(client->control->d, set, "tune", true,
				 &error) < 0)
		answer_error(client, "failed", error.text);
	else
		answer_result(client, json_object());
}

/* On success nobody is left here who could answer. */
static void do_upgrade(struct client *client)
{
	struct ts_error error;

	ts_upgrade_begin(client->control->d, client->fd, &error);
	ts_log(LOG_ERR, "upgrade: nothing changed: %s", error.text);
	answer_error(client, "failed", error.text);
}

static void handle(struct client *client, const char *line)
{
	json_t *request = json_loads(line, 0, NULL);
	const char *command =
		json_string_value(json_object_get(request, "command"));

	if (!command)
		answer_error(client, "usage", "not a request");
	else if (strcmp(command, "status") == 0)
		answer_result(client, ts_status_json(client->control->d));
	else if (strcmp(command, "attach") == 0)
		do_attach(client, request);
	else if (strcmp(command, "detach") == 0)
		do_detach(client, request);
	else if (strcmp(command, "tune") == 0)
		do_tune(client, request);
	else if (strcmp(command, "upgrade") == 0)
		do_upgrade(client);
	else
		answer_error(client, "usage", "unknown command");
	json_decref(request);
}

static int on_client(sd_event_source *source, int fd, uint32_t events,
		     void *opaque)
{
	struct client *client = opaque;
	size_t room = sizeof(client->line) - 1 - client->used;
	char *end;
	ssize_t got;

	got = recv(fd, client->line + client->used, room, MSG_DONTWAIT);
	if (got < 0 && (errno == EAGAIN || errno == EINTR))
		return 0;
	if (got <= 0 || room == 0) {
		drop(client);
		return 0;
	}
	client->used += got;
	client->line[client->used] = '\0';
	while ((end = strchr(client->line, '\n'))) {
		*end = '\0';
		handle(client, client->line);
		client->used -= end + 1 - client->line;
		memmove(client->line, end + 1, client->used + 1);
	}
	return 0;
}

static bool is_allowed(int fd)
{
	struct ucred peer;
	socklen_t len = sizeof(peer);

	if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &len) < 0)
		return false;
	return peer.uid == 0 || peer.uid == geteuid();
}

static int on_connect(sd_event_source *source, int fd, uint32_t events,
		      void *opaque)
{
	struct ts_control *control = opaque;
	struct client *client = NULL;
	int got = accept4(fd, NULL, NULL, SOCK_CLOEXEC);

	if (got < 0)
		return 0;
	for (unsigned i = 0; i < MAX_CLIENTS && !client; i++)
		if (control->clients[i].fd < 0)
			client = &control->clients[i];
	if (!client) {
		ts_log(LOG_WARNING, "too many control clients");
		close(got);
		return 0;
	}
	client->fd = got;
	if (!is_allowed(got)) {
		answer_error(client, "failed", "only root may do this");
		drop(client);
	} else if (sd_event_add_io(control->d->event, &client->source, got,
				   EPOLLIN, on_client, client) < 0) {
		drop(client);
	}
	return 0;
}

int ts_control_open(struct ts_daemon *d, struct ts_control **ret,
		    struct ts_error *error)
{
	struct ts_control *control = calloc(1, sizeof(*control));
	int err;

	if (!control)
		return ts_fail(error, -ENOMEM, "control socket: %m");
	control->d = d;
	control->fd = -1;
	for (unsigned i = 0; i < MAX_CLIENTS; i++) {
		control->clients[i].control = control;
		control->clients[i].fd = -1;
	}
	err = ts_runtime_listen(&d->rt, "control", 0600, (gid_t)-1,
				&control->fd, error);
	if (err == 0) {
		err = sd_event_add_io(d->event, &control->source, control->fd,
				      EPOLLIN, on_connect, control);
		if (err < 0)
			ts_fail(error, err, "control socket: %m");
	}
	if (err < 0) {
		ts_control_close(control);
		return err;
	}
	*ret = control;
	return 0;
}

void ts_control_close(struct ts_control *control)
{
	if (!control)
		return;
	for (unsigned i = 0; i < MAX_CLIENTS; i++)
		drop(&control->clients[i]);
	sd_event_source_disable_unref(control->source);
	if (control->fd >= 0) {
		ts_runtime_forget(&control->d->rt, "control");
		close(control->fd);
	}
	free(control);
}

void ts_control_drain_progress(struct ts_control *control, const char *text)
{
	for (unsigned i = 0; control && i < MAX_CLIENTS; i++)
		if (control->clients[i].waits_for_drain)
			answer(&control->clients[i],
			       json_pack("{s:s}", "progress", text));
}

void ts_control_drain_ended(struct ts_control *control, int err,
			    const char *error_text)
{
	for (unsigned i = 0; control && i < MAX_CLIENTS; i++) {
		struct client *client = &control->clients[i];

		if (!client->waits_for_drain)
			continue;
		client->waits_for_drain = false;
		if (err < 0)
			answer_error(client, "failed", error_text);
		else
			answer_result(client, json_object());
	}
}
