// SPDX-License-Identifier: BSD-3-Clause
/* stats_prom.c - a snapshot of the statistics for Prometheus
 *
 * Base units are bytes, seconds and ratios; counters end in _total. The two
 * formats differ in little: OpenMetrics names a counter's family without
 * _total, and ends with "# EOF".
 */
#include "cli/stats_out.h"

#include <inttypes.h>
#include <string.h>

#define PREFIX "thinswap_"

struct out {
	FILE *file;
	bool openmetrics;
};

static void head(const struct out *out, const char *name, const char *type,
		 const char *text)
{
	bool total = !strcmp(type, "counter") && !out->openmetrics;

	fprintf(out->file, "# HELP " PREFIX "%s%s %s\n", name,
		total ? "_total" : "", text);
	fprintf(out->file, "# TYPE " PREFIX "%s%s %s\n", name,
		total ? "_total" : "", type);
}

static void gauge(const struct out *out, const char *name, double value,
		  const char *text)
{
	head(out, name, "gauge", text);
	fprintf(out->file, PREFIX "%s %.17g\n", name, value);
}

static void server(const struct out *out, const struct ts_snapshot *now)
{
	gauge(out, "up", now->alive, "1 while the server's process is there");
	gauge(out, "stopped", now->stopped,
	      "1 while the server is stopped by a signal");
	gauge(out, "start_time_seconds", (double)now->header.start_time,
	      "when the server was started, seconds since 1970");
	gauge(out, "look_age_seconds",
	      (double)(now->taken_ns - now->looked_up.at_ns) / 1e9,
	      "how long ago the server last looked around; more than a few "
	      "seconds means that it is stalled");
	head(out, "build_info", "gauge", "always 1; labels say which build");
	fprintf(out->file, PREFIX "build_info{version=\"%.23s\"} 1\n",
		now->header.engine);
}

static void slots(const struct out *out, const struct ts_view *view)
{
	char kind[32];

	head(out, "slots", "gauge",
	     "pages in use, by what they are stored as; their sum is all");
	for (unsigned i = 0; i < TS_N_STATS; i++)
		if (ts_stat_kind(i, kind))
			fprintf(out->file,
				PREFIX "slots{kind=\"%s\"} %" PRIu64 "\n", kind,
				view->slots[i]);
}

static void counters_and_gauges(const struct out *out,
				const struct ts_snapshot *now)
{
	char kind[32];

	for (unsigned i = 0; i < TS_N_STATS; i++) {
		const struct ts_stat_info *info = &ts_stat_info[i];

		if (ts_stat_kind(i, kind))
			continue;
		head(out, info->name, info->counter ? "counter" : "gauge",
		     info->text);
		fprintf(out->file, PREFIX "%s%s %" PRId64 "\n", info->name,
			info->counter ? "_total" : "", now->sums.value[i]);
	}
}

/* "high_water_percent" becomes "high_water_ratio". */
static void looked_up(const struct out *out, const struct ts_snapshot *now)
{
	for (unsigned i = 0; i < TS_N_GAUGES; i++) {
		const struct ts_stat_info *info = &ts_gauge_info[i];
		double value = (double)now->looked_up.gauge[i];
		char name[64];
		char *percent;

		snprintf(name, sizeof(name), "%s", info->name);
		percent = strstr(name, "_percent");
		if (percent) {
			strcpy(percent, "_ratio");
			value /= 100;
		}
		gauge(out, name, value, info->text);
	}
}

static void meaning(const struct out *out, const struct ts_view *view)
{
	gauge(out, "compression_ratio", view->ratio,
	      "4096 bytes for each page stored compressed or raw, divided by "
	      "what compression made of them; 0 when there is none");
	gauge(out, "all_in_ratio", view->all_in,
	      "4096 bytes for each slot in use, divided by all memory and "
	      "spill "
	      "space taken for them; 0 when there is none");
	gauge(out, "room_bytes", (double)view->room_bytes,
	      "how much more can be swapped out at the present ratio");
	gauge(out, "spill_amplification_ratio", view->amplification,
	      "bytes written to spill, divided by 4096 for each page moved "
	      "there");
}

static void histogram(const struct out *out, const struct ts_stat_info *info,
		      const struct ts_latency *hist)
{
	uint64_t below = hist->bucket[0];
	char name[64];

	snprintf(name, sizeof(name), "%s_seconds", info->name);
	head(out, name, "histogram", info->text);
	/* One bucket for each power of two is enough for a monitor. */
	for (unsigned i = 0; i < TS_LATENCY_BUCKETS - 1; i += TS_LATENCY_SUB) {
		for (unsigned k = i ? i - TS_LATENCY_SUB + 1 : 1; i && k <= i;
		     k++)
			below += hist->bucket[k];
		fprintf(out->file,
			PREFIX "%s_bucket{le=\"%.12g\"} %" PRIu64 "\n", name,
			(double)ts_latency_end_ns(i) / 1e9, below);
	}
	below += hist->bucket[TS_LATENCY_BUCKETS - 1];
	fprintf(out->file, PREFIX "%s_bucket{le=\"+Inf\"} %" PRIu64 "\n", name,
		below);
	fprintf(out->file, PREFIX "%s_sum %.17g\n", name,
		(double)hist->sum_ns / 1e9);
	fprintf(out->file, PREFIX "%s_count %" PRIu64 "\n", name, below);
}

static void classes(const struct out *out, const struct ts_snapshot *now)
{
	const struct ts_class_use *c = now->looked_up.size_class;

	head(out, "class_blocks", "gauge",
	     "blocks of 64 KiB by the size of the objects in them");
	for (unsigned i = 0; i < TS_POOL_CLASSES; i++)
		if (c[i].blocks)
			fprintf(out->file,
				PREFIX
				"class_blocks{object_bytes=\"%u\"} %" PRIu64
				"\n",
				c[i].object_bytes, c[i].blocks);
	head(out, "class_objects", "gauge", "objects in use by their size");
	for (unsigned i = 0; i < TS_POOL_CLASSES; i++)
		if (c[i].blocks)
			fprintf(out->file,
				PREFIX
				"class_objects{object_bytes=\"%u\"} %" PRIu64
				"\n",
				c[i].object_bytes, c[i].objects);
}

static void warnings(const struct out *out, const struct ts_view *view)
{
	head(out, "warning", "gauge", "1 while there is something to warn of");
	for (unsigned i = 0; i < TS_N_WARNINGS; i++)
		fprintf(out->file, PREFIX "warning{name=\"%s\"} %u\n",
			ts_warning_name(i), view->warnings >> i & 1);
}

static void end(const struct out *out)
{
	if (out->openmetrics)
		fputs("# EOF\n", out->file);
}

void ts_stats_prometheus(FILE *file, const struct ts_snapshot *now,
			 bool openmetrics)
{
	struct out out = {file, openmetrics};
	struct ts_view view;

	ts_view_make(now, &view);
	server(&out, now);
	slots(&out, &view);
	counters_and_gauges(&out, now);
	looked_up(&out, now);
	meaning(&out, &view);
	for (unsigned i = 0; i < TS_N_HISTS; i++)
		histogram(&out, &ts_latency_info[i], &now->sums.hist[i]);
	classes(&out, now);
	warnings(&out, &view);
	end(&out);
}

void ts_stats_prometheus_down(FILE *file, bool openmetrics)
{
	struct out out = {file, openmetrics};

	gauge(&out, "up", 0, "1 while the server's process is there");
	end(&out);
}
