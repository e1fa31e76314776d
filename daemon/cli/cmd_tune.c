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
#include "tune.h"

#define TIMEOUT_MS 4000

static const char help[] =
	"Usage: thinswap tune [OPTION]... KEY=VALUE...\n"
	"\n"
	"Change settings of the running server, until it is started anew:\n"
	"\n"
	"  ram=SIZE              budget; up to the server's ram-max\n"
	"  level=N               of zstd, -7 to 19, for pages from now on\n"
	"  high-water=PERCENT    of ram in use: spilling begins\n"
	"  low-water=PERCENT     of ram in use: spilling ends\n"
	"  ram-admission=BOOL    false: everything goes on to spill\n"
	"  write-budget=SIZE     most bytes a day to spill; 0: no limit\n"
	"\n"
	"  --file FILE  a server that was started with stats=FILE; FILE must\n"
	"               be yours to write\n"
	"  --json       print one JSON object\n"
	"  -h, --help   print this help\n";

/* Returns -1 to go on, or an exit code. */
static int parse(int argc, char **argv, const char **ret_file,
		 struct ts_cli *cli)
{
	static const struct option longs[] = {
		{"file", required_argument, NULL, 'f'},
		{"json", no_argument, NULL, 'j'},
		{"help", no_argument, NULL, 'h'},
		{0},
	};
	int opt;

	optind = 0;
	opterr = 0;
	while ((opt = getopt_long(argc, argv, "h", longs, NULL)) != -1) {
		switch (opt) {
		case 'f':
			*ret_file = optarg;
			break;
		case 'j':
			cli->json = true;
			break;
		case 'h':
			fputs(help, stdout);
			return TS_EXIT_OK;
		default:
			return ts_cli_usage(argv[0], "unknown option, or one "
						     "without its argument");
		}
	}
	return optind == argc ? ts_cli_usage(argv[0], "KEY=VALUE is missing")
			      : -1;
}

static int fail(const struct ts_cli *cli, int code, const char *text)
{
	if (cli->json)
		ts_cli_print_json(json_pack("{s:b, s:i, s:s}", "ok", 0,
					    "exit_code", code, "error", text));
	else
		fprintf(stderr, "thinswap: %s\n", text);
	return code;
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
		return fail(cli, TS_EXIT_NO_PERMISSION, why);
	case -ENOENT:
	case -ESRCH:
		return fail(cli, TS_EXIT_NO_DAEMON, why);
	default:
		return fail(cli, TS_EXIT_FAILED, why);
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
			return fail(&cli, TS_EXIT_USAGE, why);
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
