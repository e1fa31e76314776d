// SPDX-License-Identifier: BSD-3-Clause
/* client.c - a request to thinswapd over its control socket */
#include "cli/cli.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

int ts_cli_fail(const struct ts_cli *cli, int code, const char *text)
{
	if (cli->json)
		ts_cli_print_json(json_pack("{s:b, s:i, s:s}", "ok", 0,
					    "exit_code", code, "error", text));
	else
		fprintf(stderr, "thinswap: %s\n", text);
	return code;
}

static int cannot_connect(const struct ts_cli *cli, const char *path,
			  bool quiet)
{
	enum ts_exit code = TS_EXIT_NO_DAEMON;
	char text[512];

	if (errno == EACCES || errno == EPERM) {
		code = TS_EXIT_NO_PERMISSION;
		snprintf(text, sizeof(text),
			 "%s: permission denied: only the "
			 "user that thinswapd runs as (root) may use its "
			 "control socket; try sudo",
			 path);
	} else if (errno == ENOENT || errno == ECONNREFUSED) {
		snprintf(text, sizeof(text),
			 "thinswapd does not run in %s "
			 "(%s); start it with systemctl start thinswap",
			 cli->runtime_dir, strerror(errno));
	} else {
		snprintf(text, sizeof(text), "%s: %s", path, strerror(errno));
	}
	return quiet ? (int)code : ts_cli_fail(cli, code, text);
}

/* Connect; returns an exit code. */
static int open_control(const struct ts_cli *cli, bool quiet, int *ret_fd)
{
	struct sockaddr_un addr = {.sun_family = AF_UNIX};
	int fd, err;

	if (snprintf(addr.sun_path, sizeof(addr.sun_path), "%s/control",
		     cli->runtime_dir) >= (int)sizeof(addr.sun_path)) {
		errno = ENAMETOOLONG;
		return cannot_connect(cli, cli->runtime_dir, quiet);
	}
	fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (fd < 0)
		return ts_cli_fail(cli, TS_EXIT_FAILED, strerror(errno));
	if (connect(fd, (struct sockaddr *)&addr, sizeof(addr)) < 0) {
		err = cannot_connect(cli, addr.sun_path, quiet);
		close(fd);
		return err;
	}
	*ret_fd = fd;
	return TS_EXIT_OK;
}

/* One line from the daemon. -1 to go on, else the exit code. */
static int take_message(const struct ts_cli *cli, json_t *message,
			json_t **ret_result)
{
	json_t *progress = json_object_get(message, "progress");
	json_t *error = json_object_get(message, "error");
	json_t *reason = json_object_get(message, "reason");

	if (progress) {
		if (!cli->json)
			fprintf(stderr, "%s\n", json_string_value(progress));
		return -1;
	}
	if (json_is_true(json_object_get(message, "ok"))) {
		*ret_result = json_incref(json_object_get(message, "result"));
		return TS_EXIT_OK;
	}
	return ts_cli_fail(
		cli,
		reason && strcmp(json_string_value(reason), "refused") == 0
			? TS_EXIT_REFUSED
			: TS_EXIT_FAILED,
		error ? json_string_value(error) : "unknown answer");
}

/* Read answers until the last one; closes @fd. */
static int take_messages(const struct ts_cli *cli, int fd, json_t **ret_result)
{
	FILE *answers = fdopen(fd, "r");
	char *line = NULL;
	size_t room = 0;
	int code = -1;

	while (answers && code < 0 && getline(&line, &room, answers) > 0) {
		json_t *message = json_loads(line, 0, NULL);

		code = take_message(cli, message, ret_result);
		json_decref(message);
	}
	if (code < 0)
		code = ts_cli_fail(cli, TS_EXIT_NO_DAEMON,
				   "thinswapd went away without an answer");
	free(line);
	if (answers)
		fclose(answers);
	else
		close(fd);
	return code;
}

int ts_cli_ask(const struct ts_cli *cli, json_t *request, bool quiet,
	       json_t **ret_result)
{
	char *text = json_dumps(request, JSON_COMPACT);
	int code, fd = -1;

	json_decref(request);
	code = open_control(cli, quiet, &fd);
	if (code == TS_EXIT_OK) {
		/* What cannot be sent shows as a missing answer. */
		send(fd, text, strlen(text), MSG_NOSIGNAL);
		send(fd, "\n", 1, MSG_NOSIGNAL);
		code = take_messages(cli, fd, ret_result);
	}
	free(text);
	return code;
}

int ts_cli_print_json(json_t *object)
{
	json_dumpf(object, stdout, JSON_INDENT(2) | JSON_REAL_PRECISION(9));
	putchar('\n');
	json_decref(object);
	return TS_EXIT_OK;
}
