// SPDX-License-Identifier: BSD-3-Clause
/* stats_pod.c - writes the tables of thinswap-stats(7) from stats.def
 *
 * Copies its input; a line that is @COUNTERS@, @GAUGES@, @SLOTS@ or
 * @LATENCIES@ becomes the lines of that table.
 */
#include <stdio.h>
#include <string.h>

#include "view.h"

static const char *metric_suffix(const struct ts_stat_info *info)
{
	return info->counter ? "_total" : "";
}

static void item(const struct ts_stat_info *info)
{
	const char *percent = strstr(info->name, "_percent");
	int len =
		percent ? (int)(percent - info->name) : (int)strlen(info->name);

	printf("=item B<%s> (thinswap_%.*s%s)\n\n%s\n\n", info->name, len,
	       info->name, percent ? "_ratio" : metric_suffix(info),
	       info->text);
}

static void stats(bool counters)
{
	char kind[32];

	for (unsigned i = 0; i < TS_N_STATS; i++)
		if (ts_stat_info[i].counter == counters &&
		    !ts_stat_kind(i, kind))
			item(&ts_stat_info[i]);
	for (unsigned i = 0; !counters && i < TS_N_GAUGES; i++)
		item(&ts_gauge_info[i]);
}

static void slots(void)
{
	char kind[32];

	for (unsigned i = 0; i < TS_N_STATS; i++)
		if (ts_stat_kind(i, kind))
			printf("=item B<%s> (thinswap_slots{kind=\"%s\"})\n\n"
			       "%s\n\n",
			       kind, kind, ts_stat_info[i].text);
}

static void latencies(void)
{
	for (unsigned i = 0; i < TS_N_HISTS; i++)
		printf("=item B<%s> (thinswap_%s_seconds)\n\n%s\n\n",
		       ts_latency_info[i].name, ts_latency_info[i].name,
		       ts_latency_info[i].text);
}

static void warnings(void)
{
	for (unsigned i = 0; i < TS_N_WARNINGS; i++)
		printf("%sC<%s>", i ? ", " : "", ts_warning_name(i));
	printf("\n");
}

int main(void)
{
	char line[4096];

	while (fgets(line, sizeof(line), stdin)) {
		if (strcmp(line, "@COUNTERS@\n") == 0)
			stats(true);
		else if (strcmp(line, "@GAUGES@\n") == 0)
			stats(false);
		else if (strcmp(line, "@SLOTS@\n") == 0)
			slots();
		else if (strcmp(line, "@LATENCIES@\n") == 0)
			latencies();
		else if (strcmp(line, "@WARNINGS@\n") == 0)
			warnings();
		else
			fputs(line, stdout);
	}
	return 0;
}
