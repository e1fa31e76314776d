// SPDX-License-Identifier: BSD-3-Clause
/* main.c - thinswap: look at and steer thinswapd */
#include <getopt.h>
#include <stdio.h>
#include <string.h>

#include "build.h"
#include "cli/cli.h"
#include "cli/cmd_check.h"
#include "cli/options.h"
#include "runtime.h"

static const char help[] =
	"Usage: thinswap [--runtime-dir DIR] COMMAND [OPTION]...\n"
	"\n"
	"Look at and steer thinswapd; see thinswap(1).\n"
	"\n"
	"  status          device, memory and health of the daemon\n"
	"  stats           what the store holds, costs and does\n"
	"  top             the same live, in a terminal\n"
	"  metrics         serve it to Prometheus\n"
	"  estimate [PID]  what it would make of memory in use\n"
	"  fsck            verify every page that is stored\n"
	"  tune KEY=VALUE  change a setting of the running server\n"
	"  attach          attach the block device and switch swap on\n"
	"  detach          drain the swap and take the device away\n"
	"  check [FILE]    judge a configuration, start nothing\n"
	"  upgrade         go on as what is installed now; swap stays on\n"
	"  version         version of this program and of the daemon\n"
	"\n"
	"  --runtime-dir DIR  of the daemon; default /run/thinswap\n"
	"  --json             print one JSON object (any command)\n"
	"  -h, --help         print this help, or that of a command\n"
	"\n"
	"Exit code: 0 done, 1 failed, 2 wrong usage, 3 no daemon runs,\n"
	"4 not permitted, 5 refused: could be forced, 6 damage was found.\n";

static int run_check(int argc, char **argv, const struct ts_cli *cli)
{
	return ts_cmd_check(argc, argv, cli->json);
}

static const struct {
	const char *name;
	int (*run)(int argc, char **argv, const struct ts_cli *cli);
} commands[] = {
	{"attach", ts_cmd_attach},
	{"check", run_check},
	{"detach", ts_cmd_detach},
	{"estimate", ts_cmd_estimate},
	{"fsck", ts_cmd_fsck},
	{"metrics", ts_cmd_metrics},
	{"stats", ts_cmd_stats},
	{"status", ts_cmd_status},
	{"top", ts_cmd_top},
	{"tune", ts_cmd_tune},
	{"upgrade", ts_cmd_upgrade},
	{"version", ts_cmd_version},
};

static int run_command(int argc, char **argv, const struct ts_cli *cli)
{
	char sentence[96];

	for (size_t i = 0; i < sizeof(commands) / sizeof(*commands); i++)
		if (strcmp(commands[i].name, argv[0]) == 0)
			return commands[i].run(argc, argv, cli);
	snprintf(sentence, sizeof(sentence), "unknown command \"%.40s\"",
		 argv[0]);
	return ts_cli_usage(NULL, sentence);
}

int main(int argc, char **argv)
{
	static const struct option longs[] = {
		{"runtime-dir", required_argument, NULL, 'r'},
		{"json", no_argument, NULL, 'j'},
		{"help", no_argument, NULL, 'h'},
		{"version", no_argument, NULL, 'V'},
		{0},
	};
	struct ts_cli cli = {0};
	char dir[TS_RUNTIME_DIR_BYTES];
	int opt;

	opterr = 0;
	while ((opt = getopt_long(argc, argv, "+hV", longs, NULL)) != -1) {
		switch (opt) {
		case 'r':
			cli.runtime_dir = optarg;
			break;
		case 'j':
			cli.json = true;
			break;
		case 'h':
			fputs(help, stdout);
			return TS_EXIT_OK;
		case 'V':
			puts("thinswap " TS_VERSION);
			return TS_EXIT_OK;
		default:
			return ts_cli_usage(NULL, "unknown option, or one "
						  "without its argument");
		}
	}
	if (!cli.runtime_dir)
		cli.runtime_dir = ts_runtime_default_dir(dir, sizeof(dir));
	if (!cli.runtime_dir)
		cli.runtime_dir = "/run/thinswap";
	if (optind == argc)
		return ts_cli_usage(NULL, "a command is needed");
	return run_command(argc - optind, argv + optind, &cli);
}
