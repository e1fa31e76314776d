// SPDX-License-Identifier: BSD-3-Clause
/* cmd_stats.c - `thinswap stats`: what the store holds, costs and does
 *
 * Reads the statistics file and asks nobody, so that it answers when the
 * server is stalled or gone.
 */
#include <limits.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "cli/options.h"
#include "cli/stats_out.h"

#define HEAD_EVERY 20u

static const char head[] =
	"Show what the store holds and what it costs: pages by kind, bytes\n"
	"before and after, memory against the budget, room left, spill use\n"
	"and wear, latencies, errors, warnings. Works without privilege, and\n"
	"while the server is stalled.\n";

enum format { TEXT, JSON, PROMETHEUS, OPENMETRICS, N_FORMATS };

struct options {
	const char *file;
	enum format format;
	struct ts_seconds watch; /* 0: once */
	struct ts_number count;  /* 0: for ever */
};

static bool take_format(const char *text, void *to, char *why, size_t why_bytes)
{
	static const char *const names[N_FORMATS] = {
		"text", "json", "prometheus", "openmetrics"};

	for (unsigned i = 0; i < N_FORMATS; i++)
		if (!strcmp(text, names[i])) {
			*(enum format *)to = i;
			return true;
		}
	snprintf(why, why_bytes,
		 "must be text, json, prometheus or openmetrics");
	return false;
}

/* Returns -1 to go on, or an exit code. */
static int parse(int argc, char **argv, bool json, struct options *o)
{
	const struct ts_option options[] = {
		{"file", "FILE", "of a server that was started with stats=FILE",
		 ts_take_text, &o->file},
		{"format", "FORMAT", "text, json, prometheus or openmetrics",
		 take_format, &o->format},
		{"watch", "[SECONDS]",
		 "rates, a line each second or so many seconds",
		 ts_take_seconds, &o->watch},
		{"count", "N", "end after N lines of --watch", ts_take_number,
		 &o->count},
		{0},
	};
	const struct ts_usage usage = {
		.synopsis = "[OPTION]...",
		.head = head,
		.options = options,
		.json = &json,
	};
	int code = ts_options_parse(argc, argv, &usage);

	if (json)
		o->format = JSON;
	return code;
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
	uint64_t pause_ns = (uint64_t)llround(o->watch.value * 1e9);
	struct ts_snapshot now;

	for (unsigned long i = 0; !o->count.value || i < o->count.value; i++) {
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
	struct options o = {
		.watch = {0, 0.1, 86400},
		.count = {0, 1, ULONG_MAX},
	};
	struct ts_stats_source source;
	struct ts_cli cli = *given;
	struct ts_snapshot now;
	int code = parse(argc, argv, given->json, &o);

	if (code >= 0)
		return code;
	cli.json = o.format == JSON;
	code = ts_stats_source_open(&cli, o.file, false, &source);
	if (code != TS_EXIT_OK)
		return code;
	ts_stats_source_read(&source, &now);
	if (o.watch.value > 0)
		watch(&o, &source, &now);
	else
		print(&o, &now);
	ts_stats_source_close(&source);
	return TS_EXIT_OK;
}
