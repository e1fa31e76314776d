// SPDX-License-Identifier: BSD-3-Clause
/* cmd_device.c - `thinswap attach` and `thinswap detach` */
#include <getopt.h>
#include <stdio.h>

#include "cli/cli.h"

static const char attach_help[] =
	"Usage: thinswap attach [OPTION]...\n"
	"\n"
	"Attach the block device that thinswapd serves, write a swap header\n"
	"and switch swap on.\n"
	"\n"
	"  --no-swapon  leave swapon to others (fstab, a .swap unit)\n"
	"  --json       print one JSON object\n"
	"  -h, --help   print this help\n";

static const char detach_help[] =
	"Usage: thinswap detach [OPTION]...\n"
	"\n"
	"Bring everything that is swapped out back into memory, switch swap\n"
	"off and take the device away; thinswapd goes on serving its socket.\n"
	"Refused, with exit code 5, where memory has no room for the pages,\n"
	"and where the server has died and pages are lost.\n"
	"\n"
	"  --force      try all the same: the OOM killer may end processes,\n"
	"               and those whose pages are lost get SIGBUS\n"
	"  --json       print one JSON object\n"
	"  -h, --help   print this help\n";

/* Both commands take one option of their own and no arguments.
 *
 * Returns -1 to go on, or an exit code.
 */
static int parse(int argc, char **argv, const char *help, const char *option,
		 bool *ret_given, struct ts_cli *cli)
{
	const struct option longs[] = {
		{option, no_argument, NULL, 'o'},
		{"json", no_argument, NULL, 'j'},
		{"help", no_argument, NULL, 'h'},
		{0},
	};
	int opt;

	optind = 0;
	opterr = 0;
	while ((opt = getopt_long(argc, argv, "h", longs, NULL)) != -1) {
		switch (opt) {
		case 'o':
			*ret_given = true;
			break;
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

static int finish(int code, const struct ts_cli *cli, json_t *result,
		  const char *text)
{
	if (code != TS_EXIT_OK)
		return code;
	if (cli->json) {
		json_object_set_new(result, "ok", json_true());
		return ts_cli_print_json(result);
	}
	puts(text);
	json_decref(result);
	return TS_EXIT_OK;
}

int ts_cmd_attach(int argc, char **argv, const struct ts_cli *given)
{
	struct ts_cli cli = *given;
	bool no_swapon = false;
	json_t *request, *result = NULL;
	char text[128] = "";
	int code;

	code = parse(argc, argv, attach_help, "no-swapon", &no_swapon, &cli);
	if (code >= 0)
		return code;
	request = json_pack("{s:s}", "command", "attach");
	if (no_swapon)
		json_object_set_new(request, "swapon", json_false());
	code = ts_cli_ask(&cli, request, false, &result);
	if (code == TS_EXIT_OK)
		snprintf(text, sizeof(text), "%s attached by %s",
			 json_string_value(json_object_get(result, "device")),
			 json_string_value(json_object_get(result, "route")));
	return finish(code, &cli, result, text);
}

int ts_cmd_detach(int argc, char **argv, const struct ts_cli *given)
{
	struct ts_cli cli = *given;
	json_t *result = NULL;
	bool force = false;
	int code;

	code = parse(argc, argv, detach_help, "force", &force, &cli);
	if (code >= 0)
		return code;
	code = ts_cli_ask(
		&cli,
		json_pack("{s:s, s:b}", "command", "detach", "force", force),
		false, &result);
	return finish(code, &cli, result, "detached");
}
