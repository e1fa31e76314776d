// SPDX-License-Identifier: BSD-3-Clause
/* cmd_stats.c - `thinswap stats`: what the store holds, costs and does
 *
 * Reads the statistics file and asks nobody, so that it answers when the
 * server is stalled or gone.
 */
#include <getopt.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "cli/stats_out.h"

#define HEAD_EVERY 20u

static const char help[] =
	"Usage: thinswap stats [OPTION]...\n"
	"\n"
	"Show what the store holds and what it costs: pages by kind, bytes\n"
	"before and after, memory against the budget, room left, spill use\n"
	"and wear, latencies, errors, warnings. Works without privilege, and\n"
	"while the server is stalled.\n"
	"\n"
	"  --file FILE         of a server that was started with stats=FILE\n"
	"  --json              print one JSON object (each time)\n"
	"  --format FORMAT     text, json, prometheus or openmetrics\n"
	"  --watch [SECONDS]   rates, a line each second or so many seconds\n"
	"  --count N           end after N lines of --watch\n"
	"  -h, --help          print this help\n";

enum format { TEXT, JSON, PROMETHEUS, OPENMETRICS, N_FORMATS };

struct options {
	const char *file;
	enum format format;
	double watch; /* seconds; 0: once */
	unsigned long count;
};

static bool take_format(const char *text, enum format *ret)
{
	static const char *const names[N_FORMATS] = {
		"text", "json", "prometheus", "openmetrics"};

	for (unsigned i = 0; i < N_FORMATS; i++)
		if (!strcmp(text, names[i])) {
			*ret = i;
			return true;
		}
	return false;
}

static bool take_seconds(const char *text, double *ret)
{
	char *end;
	double seconds = strtod(text, &end);

	if (end == text || *end || !(seconds >= 0.1 && seconds <= 86400))
		return false;
	*ret = seconds;
	return true;
}

/* Returns -1 to go on, or an exit code. */
static int parse(int argc, char **argv, struct options *o)
{
	static const struct option longs[] = {
		{"file", required_argument, NULL, 'f'},
		{"json", no_argument, NULL, 'j'},
		{"format", required_argument, NULL, 'F'},
		{"watch", optional_argument, NULL, 'w'},
		{"count", required_argument, NULL, 'n'},
		{"help", no_argument, NULL, 'h'},
		{0},
	};
	char *end;
	int opt;

	optind = 0;
	opterr = 0;
	while ((opt = getopt_long(argc, argv, "h", longs, NULL)) != -1) {
		switch (opt) {
		case 'f':
			o->file = optarg;
			break;
		case 'j':
			o->format = JSON;
			break;
		case 'F':
			if (!take_format(optarg, &o->format))
				return ts_cli_usage(
					argv[0], "--format must be text, json, "
						 "prometheus or openmetrics");
			break;
		case 'w':
			o->watch = 1;
			/* Also as a word of its own. */
			if (!optarg && optind < argc && argv[optind][0] != '-')
				optarg = argv[optind++];
			if (optarg && !take_seconds(optarg, &o->watch))
				return ts_cli_usage(
					argv[0],
					"--watch must be 0.1 to 86400 seconds");
			break;
		case 'n':
			o->count = strtoul(optarg, &end, 10);
			if (*end || !o->count)
				return ts_cli_usage(argv[0],
						    "--count must be "
						    "a whole number above 0");
			break;
		case 'h':
			fputs(help, stdout);
			return TS_EXIT_OK;
		default:
			return ts_cli_usage(argv[0], "unknown option, or one "
						     "without its argument");
		}
	}
	return optind < argc ? ts_cli_usage(argv[0], "no arguments are taken")
			     : -1;
}

static void print(const struct options *o, const struct ts_snapshot *now)
{
	if (o->format == TEXT)
		ts_stats_text(stdout, now);
	else if (o->format == JSON)
		ts_cli_print_json(ts_stats_json(now));
	else
		ts_stats_prometheus(stdout, now, o->format == OPENMETRICS);
}

static void watch(const struct options *o, struct ts_stats_source *source,
		  struct ts_snapshot *before)
{
	uint64_t pause_ns = (uint64_t)llround(o->watch * 1e9);
	struct ts_snapshot now;

	for (unsigned long i = 0; !o->count || i < o->count; i++) {
		ts_sleep_ns(pause_ns);
		ts_stats_source_read(source, &now);
		if (o->format == TEXT)
			ts_stats_rates(stdout, before, &now,
				       i % HEAD_EVERY == 0);
		else
			print(o, &now);
		fflush(stdout);
		if (ferror(stdout))
			break;
		*before = now;
	}
}

int ts_cmd_stats(int argc, char **argv, const struct ts_cli *given)
{
	struct options o = {.format = given->json ? JSON : TEXT};
	struct ts_stats_source source;
	struct ts_cli cli = *given;
	struct ts_snapshot now;
	int code = parse(argc, argv, &o);

	if (code >= 0)
		return code;
	cli.json = o.format == JSON;
	code = ts_stats_source_open(&cli, o.file, false, &source);
	if (code != TS_EXIT_OK)
		return code;
	ts_stats_source_read(&source, &now);
	if (o.watch > 0)
		watch(&o, &source, &now);
	else
		print(&o, &now);
	ts_stats_source_close(&source);
	return TS_EXIT_OK;
}
