// SPDX-License-Identifier: BSD-3-Clause
/* stats_json.c - a snapshot of the statistics as JSON
 *
 * Names are stable and documented in thinswap(1). Integers are integers; what
 * cannot be known is null.
 */
#include "cli/stats_out.h"

#include <time.h>

#define FORMAT 1

static json_t *integer(uint64_t n)
{
	return json_integer((json_int_t)n);
}

static json_t *ratio(double value)
{
	return value > 0 ? json_real(value) : json_null();
}

static json_t *server(const struct ts_snapshot *now)
{
	const struct ts_statsfile_header *h = &now->header;

	return json_pack(
		"{s:i, s:b, s:b, s:s, s:I, s:o, s:f}", "pid", h->pid, "alive",
		now->alive, "stopped", now->stopped, "version", h->engine,
		"started_at", (json_int_t)h->start_time, "uptime_seconds",
		now->alive
			? json_real((double)(now->taken_ns - h->start_ns) / 1e9)
			: json_null(),
		"looked_up_seconds_ago",
		(double)(now->taken_ns - now->looked_up.at_ns) / 1e9);
}

static json_t *slots(const struct ts_view *view)
{
	json_t *all = json_object();
	char kind[32];

	for (unsigned i = 0; i < TS_N_STATS; i++)
		if (ts_stat_kind(i, kind))
			json_object_set_new(all, kind, integer(view->slots[i]));
	json_object_set_new(all, "used", integer(view->used_slots));
	json_object_set_new(all, "size", integer(view->size_slots));
	return all;
}

static json_t *counters(const struct ts_snapshot *now)
{
	json_t *all = json_object();

	for (unsigned i = 0; i < TS_N_STATS; i++)
		if (ts_stat_info[i].counter)
			json_object_set_new(all, ts_stat_info[i].name,
					    json_integer(now->sums.value[i]));
	return all;
}

static json_t *gauges(const struct ts_snapshot *now)
{
	json_t *all = json_object();
	char kind[32];

	for (unsigned i = 0; i < TS_N_STATS; i++)
		if (!ts_stat_info[i].counter && !ts_stat_kind(i, kind))
			json_object_set_new(all, ts_stat_info[i].name,
					    json_integer(now->sums.value[i]));
	for (unsigned i = 0; i < TS_N_GAUGES; i++)
		json_object_set_new(all, ts_gauge_info[i].name,
				    json_integer(now->looked_up.gauge[i]));
	return all;
}

static json_t *meaning(const struct ts_view *view)
{
	return json_pack(
		"{s:o, s:o, s:o, s:o, s:o, s:o, s:b, s:o, s:o, s:o}", "ratio",
		ratio(view->ratio), "ratio_all_in", ratio(view->all_in),
		"bytes_before",
		integer((view->memory_pages + view->spill_pages) * 4096),
		"bytes_after", integer(view->compressed_bytes), "room_bytes",
		integer(view->room_bytes), "memory_room_bytes",
		integer(view->memory_room_bytes), "room_is_guess",
		view->room_is_guess, "spill_room_bytes",
		integer(view->spill_room_bytes), "spill_used_bytes",
		integer(view->spill_used_bytes), "spill_amplification",
		ratio(view->amplification));
}

static json_t *latency(const struct ts_latency *hist)
{
	uint64_t n = ts_latency_count(hist);

	return json_pack("{s:I, s:I, s:o, s:o, s:o, s:o, s:o}", "count",
			 (json_int_t)n, "sum_ns", (json_int_t)hist->sum_ns,
			 "mean_ns", n ? integer(hist->sum_ns / n) : json_null(),
			 "p50_ns", integer(ts_latency_quantile_ns(hist, 500)),
			 "p90_ns", integer(ts_latency_quantile_ns(hist, 900)),
			 "p99_ns", integer(ts_latency_quantile_ns(hist, 990)),
			 "p999_ns", integer(ts_latency_quantile_ns(hist, 999)));
}

static json_t *latencies(const struct ts_snapshot *now)
{
	json_t *all = json_object();

	for (unsigned i = 0; i < TS_N_HISTS; i++)
		json_object_set_new(all, ts_latency_info[i].name,
				    latency(&now->sums.hist[i]));
	return all;
}

static json_t *classes(const struct ts_snapshot *now)
{
	json_t *all = json_array();

	for (unsigned i = 0; i < TS_POOL_CLASSES; i++) {
		const struct ts_class_use *c = &now->looked_up.size_class[i];

		if (c->blocks)
			json_array_append_new(
				all,
				json_pack("{s:i, s:i, s:I, s:I}",
					  "object_bytes", c->object_bytes,
					  "objects_per_block", c->per_block,
					  "blocks", (json_int_t)c->blocks,
					  "objects", (json_int_t)c->objects));
	}
	return all;
}

static json_t *warnings(const struct ts_snapshot *now,
			const struct ts_view *view)
{
	json_t *all = json_array();
	char text[400];

	for (unsigned i = 0; i < TS_N_WARNINGS; i++)
		if (view->warnings >> i & 1)
			json_array_append_new(
				all,
				json_pack("{s:s, s:s}", "name",
					  ts_warning_name(i), "text",
					  ts_warning_text(i, now, view, text,
							  sizeof(text))));
	return all;
}

json_t *ts_stats_json(const struct ts_snapshot *now)
{
	struct ts_view view;

	ts_view_make(now, &view);
	return json_pack("{s:i, s:b, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o}",
			 "format", FORMAT, "consistent", now->sums.consistent,
			 "server", server(now), "slots", slots(&view), "store",
			 meaning(&view), "gauges", gauges(now), "counters",
			 counters(now), "latency", latencies(now), "classes",
			 classes(now), "warnings", warnings(now, &view));
}
