/* SPDX-License-Identifier: BSD-3-Clause */
/* stats_out.h - a snapshot of the statistics as text, JSON and for Prometheus
 */
#ifndef TS_DAEMON_CLI_STATS_OUT_H
#define TS_DAEMON_CLI_STATS_OUT_H

#include <jansson.h>
#include <stdbool.h>
#include <stdio.h>

#include "cli/cli.h"
#include "view.h"

/* Where the statistics of an instance are: @file if given, else in the
 * runtime directory.
 */
struct ts_stats_source {
	char path[512];
	bool of_daemon;
	struct ts_statsfile_reader reader;
};

/* Returns an exit code; an error is printed unless @quiet. */
int ts_stats_source_open(const struct ts_cli *cli, const char *file, bool quiet,
			 struct ts_stats_source *ret);
void ts_stats_source_close(struct ts_stats_source *source);

/* Take a snapshot; a server that was started anew is followed. */
void ts_stats_source_read(struct ts_stats_source *source,
			  struct ts_snapshot *ret);

/* The page of `thinswap stats`. */
void ts_stats_text(FILE *out, const struct ts_snapshot *now);

/* One line of `thinswap stats --watch`: what happened since @before. */
void ts_stats_rates(FILE *out, const struct ts_snapshot *before,
		    const struct ts_snapshot *now, bool with_head);

json_t *ts_stats_json(const struct ts_snapshot *now);

/* Prometheus' text format 0.0.4, or OpenMetrics 1.0. */
void ts_stats_prometheus(FILE *out, const struct ts_snapshot *now,
			 bool openmetrics);

/* What is exported while no server is there. */
void ts_stats_prometheus_down(FILE *out, bool openmetrics);

/* "123 us"; returns @buf. */
char *ts_duration_format(uint64_t ns, char *buf, size_t room);
#define TS_DURATION_TEXT_BYTES 24

/* What happened between two snapshots. */
struct ts_rates {
	double seconds;
	double read_pages, written_pages, discarded_pages; /* a second */
	double spilled_pages, spill_read_pages, promoted_pages;
	double spill_written_bytes;
	struct ts_latency hist[TS_N_HISTS];
};
void ts_rates_make(const struct ts_snapshot *before,
		   const struct ts_snapshot *now, struct ts_rates *ret);

#endif
