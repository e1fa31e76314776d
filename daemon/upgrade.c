// SPDX-License-Identifier: BSD-3-Clause
/* upgrade.c - go on as the programs that are installed now, swap staying on
 *
 * What is handed over as JSON in a memfd is what neither the notes nor the
 * server could tell: counters, and settings that were tuned. A field that is
 * missing, because the other version did not know it, keeps its value.
 */
#include "upgrade.h"

#include <errno.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include "build.h"
#include "daemon.h"
#include "fdstore.h"
#include "log.h"
#include "server.h"

#define STATE_FD	 "state"
#define CLIENT_FD	 "client"
#define VERSION_TIMEOUT_MS 10000

static json_t *describe_state(const struct ts_daemon *d)
{
	const struct ts_config *config = &d->config;
	const struct ts_revival *revival = &d->revival;

	return json_pack("{s:s, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:i, s:i, "
			 "s:i, s:I, s:i, s:i}",
			 "from_version", TS_VERSION,
			 "started_ns", (json_int_t)d->started_ns,
			 "deaths", (json_int_t)revival->deaths,
			 "taken_over", (json_int_t)revival->taken_over,
			 "replaced", (json_int_t)revival->replaced,
			 "last_ns", (json_int_t)revival->last_ns,
			 "ram_budget_bytes",
			 (json_int_t)config->ram.budget_bytes,
			 "ram_max_bytes", (json_int_t)config->ram.max_bytes,
			 "level", config->codec.level,
			 "high_water", config->tuning.high_water_percent,
			 "low_water", config->tuning.low_water_percent,
			 "write_budget_bytes",
			 (json_int_t)config->spill.write_budget_bytes,
			 "tuned", (int)d->tuned, "ram_closed",
			 (int)d->ram_closed);
}

static void take_u64(json_t *state, const char *name, uint64_t *value)
{
	json_t *item = json_object_get(state, name);

	if (json_is_integer(item))
		*value = (uint64_t)json_integer_value(item);
}

static void take_int(json_t *state, const char *name, int *value)
{
	json_t *item = json_object_get(state, name);

	if (json_is_integer(item))
		*value = (int)json_integer_value(item);
}

static void take_state(struct ts_daemon *d, json_t *state)
{
	struct ts_config *config = &d->config;
	struct ts_revival *revival = &d->revival;
	int tuned = 0, closed = 0;

	take_int(state, "tuned", &tuned);
	take_int(state, "ram_closed", &closed);
	d->tuned = (unsigned)tuned;
	d->ram_closed = closed;
	take_u64(state, "started_ns", &d->started_ns);
	take_u64(state, "deaths", &revival->deaths);
	take_u64(state, "taken_over", &revival->taken_over);
	take_u64(state, "replaced", &revival->replaced);
	take_u64(state, "last_ns", &revival->last_ns);
	take_u64(state, "ram_budget_bytes", &config->ram.budget_bytes);
	take_u64(state, "ram_max_bytes", &config->ram.max_bytes);
	take_int(state, "level", &config->codec.level);
	take_int(state, "high_water", &config->tuning.high_water_percent);
	take_int(state, "low_water", &config->tuning.low_water_percent);
	take_u64(state, "write_budget_bytes",
		 &config->spill.write_budget_bytes);
	ts_log(LOG_NOTICE, "thinswapd %s goes on for %s", TS_VERSION,
	       json_string_value(json_object_get(state, "from_version")));
}

static int keep_state(const struct ts_daemon *d)
{
	json_t *state = describe_state(d);
	int fd = memfd_create("thinswapd-state", MFD_CLOEXEC), err = 0;

	if (fd < 0)
		err = -errno;
	else if (!state || json_dumpfd(state, fd, JSON_COMPACT) < 0)
		err = -ENOMEM;
	json_decref(state);
	if (err == 0)
		ts_fdstore_keep(STATE_FD, fd, false);
	else if (fd >= 0)
		close(fd);
	return err < 0 ? err : fd;
}

void ts_upgrade_receive(struct ts_daemon *d)
{
	int fd = ts_fdstore_take(STATE_FD);
	json_t *state;

	if (fd < 0)
		return;
	d->upgraded = true;
	d->upgrade_client = ts_fdstore_take(CLIENT_FD);
	lseek(fd, 0, SEEK_SET);
	state = json_loadfd(fd, 0, NULL);
	close(fd);
	if (state)
		take_state(d, state);
	else
		ts_log(LOG_WARNING, "what the image before told is not "
		       "readable");
	json_decref(state);
}

static int check(const struct ts_daemon *d, struct ts_error *error)
{
	const char *argv[] = { d->program, "--version", NULL };
	struct ts_config_error wrong;
	struct ts_config config;

	if (d->state != TS_RUNNING || d->drain)
		return ts_fail(error, -EBUSY, "the daemon is %s: not now",
			       ts_state_name(d->state));
	if (!d->program[0])
		return ts_fail(error, -ENOENT, "nobody knows the path of the "
			       "program");
	if (ts_config_load(d->config_path, &config, &wrong) < 0)
		return ts_fail(error, -EINVAL, "the new one would not start: "
			       "%s", wrong.text);
	return ts_run(argv, VERSION_TIMEOUT_MS, error);
}

int ts_upgrade_begin(struct ts_daemon *d, int client_fd,
		     struct ts_error *error)
{
	int state_fd, err;

	err = check(d, error);
	if (err < 0)
		return err;
	state_fd = keep_state(d);
	if (state_fd < 0)
		return ts_fail(error, state_fd, "state for the new one: %m");
	ts_log(LOG_NOTICE, "becoming what %s is now", d->program);
	ts_standby_end(d);
	ts_fdstore_keep(CLIENT_FD, client_fd, false);
	err = ts_fdstore_exec(d->program, d->argv, error);
	ts_fdstore_forget(CLIENT_FD);
	ts_fdstore_forget(STATE_FD);
	close(state_fd);
	return err;
}

static void answer(struct ts_daemon *d, json_t *message)
{
	char *text = json_dumps(message, JSON_COMPACT);

	if (text && d->upgrade_client >= 0) {
		send(d->upgrade_client, text, strlen(text), MSG_NOSIGNAL);
		send(d->upgrade_client, "\n", 1, MSG_NOSIGNAL);
	}
	free(text);
	json_decref(message);
	if (d->upgrade_client >= 0)
		close(d->upgrade_client);
	d->upgrade_client = -1;
}

static void answer_failed(struct ts_daemon *d, const char *why)
{
	struct ts_error error;

	ts_fail(&error, 0, "thinswapd is %s now; the server goes on as it "
		"was: %s", TS_VERSION, why);
	ts_log(LOG_WARNING, "%s", error.text);
	answer(d, json_pack("{s:b, s:s, s:s}", "ok", 0, "reason", "failed",
			    "error", error.text));
}

static void answer_done(struct ts_daemon *d, bool replaced)
{
	answer(d, json_pack("{s:b, s:{s:s, s:i, s:b}}", "ok", 1, "result",
			    "version", TS_VERSION,
			    "server_pid", d->server.pid,
			    "server_replaced", replaced));
}

/* One that keeps nothing goes on until a clean stop. */
static void leave_server(struct ts_daemon *d)
{
	if (d->server_differs)
		ts_log(LOG_WARNING, "%s runs as configured when it was "
		       "started; what has changed since takes effect after a "
		       "clean stop", d->server.name);
	if (d->upgraded)
		answer_done(d, false);
}

static void replace_server(struct ts_daemon *d)
{
	struct ts_error error;

	if (ts_revive_replace(d, &error) < 0)
		answer_failed(d, error.text);
	else
		answer_done(d, true);
}

void ts_upgrade_finish(struct ts_daemon *d)
{
	struct ts_error error;

	if (ts_revive_check(d, &error) < 0)
		leave_server(d);
	else if (d->upgraded || d->server_differs ||
		 (d->server_lived && ts_server_is_outdated(d->server.pid)))
		replace_server(d);
	d->upgraded = false;
}
