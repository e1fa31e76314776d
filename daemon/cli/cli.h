/* SPDX-License-Identifier: BSD-3-Clause */
/* cli.h - what the commands of `thinswap` share
 *
 * A command gets its own name as argv[0] and returns an exit code. Results go
 * to standard output, as text or with --json as one object; errors go to
 * standard error, one sentence that says what to do.
 */
#ifndef TS_DAEMON_CLI_H
#define TS_DAEMON_CLI_H

#include <jansson.h>
#include <stdbool.h>

/* The same for every command; documented in thinswap(1). */
enum ts_exit {
	TS_EXIT_OK = 0,
	TS_EXIT_FAILED = 1,
	TS_EXIT_USAGE = 2,
	TS_EXIT_NO_DAEMON = 3,
	TS_EXIT_NO_PERMISSION = 4,
	TS_EXIT_REFUSED = 5,
	TS_EXIT_DAMAGED = 6,
};

struct ts_cli {
	const char *runtime_dir;
	bool json;
};

int ts_cmd_attach(int argc, char **argv, const struct ts_cli *cli);
int ts_cmd_detach(int argc, char **argv, const struct ts_cli *cli);
int ts_cmd_estimate(int argc, char **argv, const struct ts_cli *cli);
int ts_cmd_fsck(int argc, char **argv, const struct ts_cli *cli);
int ts_cmd_metrics(int argc, char **argv, const struct ts_cli *cli);
int ts_cmd_stats(int argc, char **argv, const struct ts_cli *cli);
int ts_cmd_status(int argc, char **argv, const struct ts_cli *cli);
int ts_cmd_top(int argc, char **argv, const struct ts_cli *cli);
int ts_cmd_tune(int argc, char **argv, const struct ts_cli *cli);
int ts_cmd_upgrade(int argc, char **argv, const struct ts_cli *cli);
int ts_cmd_version(int argc, char **argv, const struct ts_cli *cli);

/* Say why a command failed, as text or JSON; returns @code. */
int ts_cli_fail(const struct ts_cli *cli, int code, const char *sentence);

/* Send @request (taken over) to the daemon and wait for the end. Progress is
 * printed to standard error unless --json is on. On TS_EXIT_OK, *ret_result
 * is the result, to be freed by the caller; otherwise the error was printed.
 * @quiet: print nothing where there is no daemon.
 */
int ts_cli_ask(const struct ts_cli *cli, json_t *request, bool quiet,
	       json_t **ret_result);

/* Print an object to standard output and free it; returns TS_EXIT_OK. */
int ts_cli_print_json(json_t *object);

#endif
