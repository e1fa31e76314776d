// SPDX-License-Identifier: BSD-3-Clause
/* cmd_tune.c - `thinswap tune KEY=VALUE...`: change a running server
 *
 * Goes through thinswapd, which logs it and keeps it in mind; with --file, to
 * a server that runs by itself.
 */
#include <errno.h>
#include <getopt.h>
#include <stdio.h>

#include "cli/cli.h"
#include "cli/options.h"
#include "tune.h"

#define TIMEOUT_MS 4000

static const char head[] =
	"Change settings of the running server, until thinswapd ends:\n"
	"\n"
	"  ram=SIZE              budget; up to the server's ram-max\n"
	"  level=N               of zstd, -7 to 19, for pages from now on\n"
	"  high-water=PERCENT    of ram in use: spilling begins\n"
	"  low-water=PERCENT     of ram in use: spilling ends\n"
	"  ram-admission=on|off  off: everything goes on to spill\n"
	"  write-budget=SIZE     most bytes a day to spill; 0: no limit\n";

/* Returns -1 to go on, or an exit code. */
static int parse(int argc, char **argv, const char **ret_file,
		 struct ts_cli *cli)
{
	const struct ts_option options[] = {
		{"file", "FILE",
		 "a server that was started with stats=FILE; FILE must\n"
		 "be yours to write",
		 ts_take_text, ret_file},
		{0},
	};
	const struct ts_usage usage = {
		.synopsis = "[OPTION]... KEY=VALUE...",
		.head = head,
		.options = options,
		.json = &cli->json,
		.least = 1,
		.most = TS_NO_LIMIT,
		.missing = "KEY=VALUE is missing",
	};

	return ts_options_parse(argc, argv, &usage);
}

static int tune_file(const struct ts_cli *cli, const char *file,
		     enum ts_tune_key key, int64_t value)
{
	char why[512];

	switch (ts_tune_ask(file, key, value, TIMEOUT_MS, why, sizeof(why))) {
	case 0:
		return TS_EXIT_OK;
	case -EACCES:
	case -EPERM:
		return ts_cli_fail(cli, TS_EXIT_NO_PERMISSION, why);
	case -ENOENT:
	case -ESRCH:
		return ts_cli_fail(cli, TS_EXIT_NO_DAEMON, why);
	default:
		return ts_cli_fail(cli, TS_EXIT_FAILED, why);
	}
}

static int tune_daemon(const struct ts_cli *cli, const char *text)
{
	json_t *result = NULL;
	int code = ts_cli_ask(
		cli, json_pack("{s:s, s:s}", "command", "tune", "set", text),
		false, &result);

	json_decref(result);
	return code;
}

int ts_cmd_tune(int argc, char **argv, const struct ts_cli *given)
{
	struct ts_cli cli = *given;
	const char *file = NULL;
	enum ts_tune_key key;
	int64_t value;
	char why[512], shown[24];
	int code = parse(argc, argv, &file, &cli);

	if (code >= 0)
		return code;
	/* All are read before the first is done. */
	for (int i = optind; i < argc; i++)
		if (ts_tune_parse(argv[i], &key, &value, why, sizeof(why)))
			return ts_cli_fail(&cli, TS_EXIT_USAGE, why);
	for (int i = optind; i < argc; i++) {
		ts_tune_parse(argv[i], &key, &value, why, sizeof(why));
		code = file ? tune_file(&cli, file, key, value)
			    : tune_daemon(&cli, argv[i]);
		if (code != TS_EXIT_OK)
			return code;
		if (!cli.json)
			printf("%s is now %s\n", ts_tune_name(key),
			       ts_tune_format(key, value, shown,
					      sizeof(shown)));
	}
	return cli.json ? ts_cli_print_json(json_pack("{s:b}", "ok", 1))
			: TS_EXIT_OK;
}
