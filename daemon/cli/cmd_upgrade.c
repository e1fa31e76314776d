// SPDX-License-Identifier: BSD-3-Clause
/* cmd_upgrade.c - `thinswap upgrade` */
#include <stdio.h>

#include "cli/cli.h"
#include "cli/options.h"

static const char head[] =
	"Have thinswapd go on as the program that is installed now, and its\n"
	"server replaced by a new one on the same memory, while swap stays on.\n"
	"A new server that cannot read what is stored is not used: the old one\n"
	"goes on, and the exit code is 1.\n";

static void print_result(const json_t *result)
{
	bool replaced = json_is_true(json_object_get(result,
						     "server_replaced"));

	printf("thinswapd is %s now; its server (pid %d) is %s\n",
	       json_string_value(json_object_get(result, "version")),
	       (int)json_integer_value(json_object_get(result, "server_pid")),
	       replaced ? "a new one" : "the same: one of its kind is not "
					"replaced while it lives");
}

int ts_cmd_upgrade(int argc, char **argv, const struct ts_cli *given)
{
	struct ts_cli cli = *given;
	const struct ts_usage usage = {
		.synopsis = "[OPTION]...",
		.head = head,
		.json = &cli.json,
	};
	json_t *result = NULL;
	int code;

	code = ts_options_parse(argc, argv, &usage);
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
	print_result(result);
	json_decref(result);
	return TS_EXIT_OK;
}
