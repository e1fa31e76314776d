// SPDX-License-Identifier: BSD-3-Clause
/* cmd_device.c - `thinswap attach` and `thinswap detach` */
#include <stdio.h>

#include "cli/cli.h"
#include "cli/options.h"

static const char attach_head[] =
	"Attach the block device that thinswapd serves, write a swap header\n"
	"and switch swap on.\n";

static const char detach_head[] =
	"Bring everything that is swapped out back into memory, switch swap\n"
	"off and take the device away; thinswapd goes on serving its socket.\n"
	"Refused, with exit code 5, where memory has no room for the pages,\n"
	"and where the server has died and pages are lost.\n";

/* Both commands take one option of their own and no arguments. */
static int parse(int argc, char **argv, const char *head,
		 const struct ts_option *options, struct ts_cli *cli)
{
	const struct ts_usage usage = {
		.synopsis = "[OPTION]...",
		.head = head,
		.options = options,
		.json = &cli->json,
	};

	return ts_options_parse(argc, argv, &usage);
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
	const struct ts_option options[] = {
		{"no-swapon", NULL,
		 "leave swapon to others (fstab, a .swap unit)", ts_take_flag,
		 &no_swapon},
		{0},
	};
	char text[128] = "";
	int code;

	code = parse(argc, argv, attach_head, options, &cli);
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
	const struct ts_option options[] = {
		{"force", NULL,
		 "try all the same: the OOM killer may end processes,\n"
		 "and those whose pages are lost get SIGBUS",
		 ts_take_flag, &force},
		{0},
	};
	int code;

	code = parse(argc, argv, detach_head, options, &cli);
	if (code >= 0)
		return code;
	code = ts_cli_ask(
		&cli,
		json_pack("{s:s, s:b}", "command", "detach", "force", force),
		false, &result);
	return finish(code, &cli, result, "detached");
}
