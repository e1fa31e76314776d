// SPDX-License-Identifier: BSD-3-Clause
/* cmd_upgrade.c - `thinswap upgrade` */
#include <getopt.h>
#include <stdio.h>

#include "cli/cli.h"

static const char help[] =
	"Usage: thinswap upgrade [OPTION]...\n"
	"\n"
	"Have thinswapd go on as the program that is installed now, and its\n"
	"server replaced by a new one on the same memory, while swap stays on.\n"
	"A new server that cannot read what is stored is not used: the old one\n"
	"goes on, and the exit code is 1.\n"
	"\n"
	"  --json      print one JSON object\n"
	"  -h, --help  print this help\n";

/* -1 to go on, or an exit code. */
static int parse(int argc, char **argv, struct ts_cli *cli)
{
	static const struct option longs[] = {
		{"json", no_argument, NULL, 'j'},
		{"help", no_argument, NULL, 'h'},
		{0},
	};
	int opt;

	optind = 0;
	opterr = 0;
	while ((opt = getopt_long(argc, argv, "h", longs, NULL)) != -1) {
		switch (opt) {
		case 'j':
			cli->json = true;
			break;
		case 'h':
			fputs(help, stdout);
			return TS_EXIT_OK;
		default:
			return ts_cli_usage(argv[0], "unknown option");
		}
	}
	return optind < argc ? ts_cli_usage(argv[0], "no arguments are taken")
			     : -1;
}

int ts_cmd_upgrade(int argc, char **argv, const struct ts_cli *given)
{
	struct ts_cli cli = *given;
	json_t *result = NULL;
	bool replaced;
	int code;

	code = parse(argc, argv, &cli);
	if (code >= 0)
		return code;
	code = ts_cli_ask(&cli, json_pack("{s:s}", "command", "upgrade"),
			  false, &result);
	if (code != TS_EXIT_OK)
		return code;
	if (cli.json) {
		json_object_set_new(result, "ok", json_true());
		return ts_cli_print_json(result);
	}
	replaced = json_is_true(json_object_get(result, "server_replaced"));
	printf("thinswapd is %s now; its server (pid %d) is %s\n",
	       json_string_value(json_object_get(result, "version")),
	       (int)json_integer_value(json_object_get(result, "server_pid")),
	       replaced ? "a new one" : "the same: it keeps nothing that "
					"another could take over");
	json_decref(result);
	return TS_EXIT_OK;
}
