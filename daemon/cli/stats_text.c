// SPDX-License-Identifier: BSD-3-Clause
/* stats_text.c - a snapshot of the statistics for people */
#include "cli/stats_out.h"

#include <inttypes.h>
#include <string.h>

#include "cli/swaps.h"
#include "util/size.h"

#define PAGE 4096u
#define SIZE(bytes)                                                            \
	ts_size_format((bytes), (char[TS_SIZE_TEXT_BYTES]){0},                 \
		       TS_SIZE_TEXT_BYTES)

char *ts_duration_format(uint64_t ns, char *buf, size_t room)
{
	if (ns == UINT64_MAX)
		snprintf(buf, room, "over 60 s");
	else if (ns < 10000)
		snprintf(buf, room, "%.1f us", (double)ns / 1e3);
	else if (ns < 10000000)
		snprintf(buf, room, "%.0f us", (double)ns / 1e3);
	else if (ns < 10000000000ull)
		snprintf(buf, room, "%.0f ms", (double)ns / 1e6);
	else
		snprintf(buf, room, "%.0f s", (double)ns / 1e9);
	return buf;
}

static void server(FILE *out, const struct ts_snapshot *now)
{
	double up = (double)(now->taken_ns - now->header.start_ns) / 1e9;

	fprintf(out, "server          pid %d, thinswap %.23s, ",
		now->header.pid, now->header.engine);
	if (!now->alive)
		fprintf(out, "gone\n");
	else if (up < 7200)
		fprintf(out, "up %.0f min%s\n", up / 60,
			now->stopped ? ", STOPPED" : "");
	else
		fprintf(out, "up %.1f h%s\n", up / 3600,
			now->stopped ? ", STOPPED" : "");
}

static void pages(FILE *out, const struct ts_snapshot *now,
		  const struct ts_view *view)
{
	char kind[32], label[40];

	fprintf(out,
		"pages in use    %" PRIu64 " of %" PRIu64
		" (%s of %s virtual size)\n",
		view->used_slots, view->size_slots,
		SIZE(view->used_slots * PAGE), SIZE(view->size_slots * PAGE));
	for (unsigned i = 0; i < TS_N_STATS; i++) {
		if (!ts_stat_kind(i, kind))
			continue;
		snprintf(label, sizeof(label), "  %s", kind);
		fprintf(out, "%-15s %-10" PRIu64 " %s\n", label, view->slots[i],
			ts_stat_info[i].text);
	}
}

static void compression(FILE *out, const struct ts_snapshot *now,
			const struct ts_view *view)
{
	uint64_t before = (view->memory_pages + view->spill_pages) * PAGE;

	if (!before) {
		fprintf(out, "compression     nothing compressed yet\n");
		return;
	}
	fprintf(out,
		"compression     %s became %s: ratio %.2f (of compressed "
		"and raw pages;\n                zero and fill pages do not "
		"count), %.2f all in, level %" PRId64 "\n",
		SIZE(before), SIZE(view->compressed_bytes), view->ratio,
		view->all_in, now->looked_up.gauge[TS_GAUGE_level]);
}

static void memory(FILE *out, const struct ts_snapshot *now,
		   const struct ts_view *view)
{
	const int64_t *gauge = now->looked_up.gauge;
	int64_t budget = gauge[TS_GAUGE_budget_bytes];

	fprintf(out,
		"memory          %s of %s budget (%.0f %%), and %s ready "
		"ahead of demand\n",
		SIZE(view->taken_bytes), SIZE((uint64_t)budget),
		budget > 0 ? 100.0 * (double)view->taken_bytes / (double)budget
			   : 0,
		SIZE((uint64_t)gauge[TS_GAUGE_free_touched_bytes]));
	if (view->room_is_guess)
		fprintf(out,
			"room            at least %s more, if nothing "
			"compresses\n",
			SIZE(view->room_bytes));
	else
		fprintf(out,
			"room            about %s more at the present "
			"ratio\n",
			SIZE(view->room_bytes));
}

static void spill(FILE *out, const struct ts_snapshot *now,
		  const struct ts_view *view)
{
	const int64_t *gauge = now->looked_up.gauge, *stat = now->sums.value;

	if (!gauge[TS_GAUGE_spill_present]) {
		fprintf(out, "spill           none\n");
		return;
	}
	fprintf(out, "spill           %s of %s used for %s of pages, %s%s\n",
		SIZE(view->spill_used_bytes),
		SIZE((uint64_t)gauge[TS_GAUGE_spill_size_bytes]),
		SIZE(view->spill_pages * PAGE),
		gauge[TS_GAUGE_spill_encrypted] ? "encrypted" : "not encrypted",
		gauge[TS_GAUGE_spill_degraded] ? ", DEGRADED" : "");
	fprintf(out, "  wear          %s written, amplification %.2f; ",
		SIZE((uint64_t)stat[TS_STAT_spill_written_bytes]),
		view->amplification);
	if (gauge[TS_GAUGE_write_budget_bytes])
		fprintf(out, "budget %s a day%s\n",
			SIZE((uint64_t)gauge[TS_GAUGE_write_budget_bytes]),
			gauge[TS_GAUGE_write_budget_spent] ? ", SPENT" : "");
	else
		fprintf(out, "no budget\n");
	fprintf(out,
		"  moved         %" PRId64 " pages out, %" PRId64
		" read there, %" PRId64 " brought back, %" PRId64 " cleaned\n",
		stat[TS_STAT_spilled_pages], stat[TS_STAT_spill_read_pages],
		stat[TS_STAT_promoted_pages], stat[TS_STAT_cleaned_pages]);
}

static void latency(FILE *out, const struct ts_snapshot *now)
{
	static const unsigned quantiles[] = {500, 900, 990, 999};
	char text[TS_DURATION_TEXT_BYTES];

	fprintf(out, "%-15s %12s %10s %10s %10s %10s\n", "latency", "count",
		"p50", "p90", "p99", "p99.9");
	for (unsigned i = 0; i < TS_N_HISTS; i++) {
		const struct ts_latency *hist = &now->sums.hist[i];
		char label[32];

		snprintf(label, sizeof(label), "  %s", ts_latency_info[i].name);
		fprintf(out, "%-15s %12" PRIu64, label, ts_latency_count(hist));
		for (unsigned k = 0; k < 4; k++)
			fprintf(out, " %10s",
				ts_latency_count(hist)
					? ts_duration_format(
						  ts_latency_quantile_ns(
							  hist, quantiles[k]),
						  text, sizeof(text))
					: "-");
		fputc('\n', out);
	}
}

static void errors(FILE *out, const struct ts_snapshot *now)
{
	const int64_t *stat = now->sums.value;

	fprintf(out,
		"errors          %" PRId64 " writes refused for room, %" PRId64
		" damaged pages, %" PRId64 " spill errors\n",
		stat[TS_STAT_nospace], stat[TS_STAT_damaged],
		stat[TS_STAT_spill_errors]);
}

/* The kernel keeps a page in swap after it was read back, and counts slots
 * that it has not written yet; so its figure is larger than ours.
 */
static void kernel_view(FILE *out, const struct ts_view *view)
{
	uint64_t used;

	if (ts_swaps_used(&used))
		return;
	fprintf(out,
		"kernel          counts %s of swap in use on all devices "
		"(SwapUsed). The kernel\n                also counts slots it "
		"has set aside or not yet given back, and other\n"
		"                swap areas; thinswap counts what it holds "
		"(%s)\n",
		SIZE(used), SIZE(view->used_slots * PAGE));
}

void ts_stats_text(FILE *out, const struct ts_snapshot *now)
{
	struct ts_view view;
	char text[400];

	ts_view_make(now, &view);
	server(out, now);
	pages(out, now, &view);
	compression(out, now, &view);
	memory(out, now, &view);
	spill(out, now, &view);
	errors(out, now);
	latency(out, now);
	kernel_view(out, &view);
	if (!now->sums.consistent)
		fprintf(out, "note: the server changed things all the time, or "
			     "stopped within a change; sums may be some pages "
			     "off\n");
	for (unsigned i = 0; i < TS_N_WARNINGS; i++)
		if (view.warnings >> i & 1)
			fprintf(out, "warning: %s: %s\n", ts_warning_name(i),
				ts_warning_text(i, now, &view, text,
						sizeof(text)));
}

void ts_rates_make(const struct ts_snapshot *before,
		   const struct ts_snapshot *now, struct ts_rates *ret)
{
	const int64_t *a = before->sums.value, *b = now->sums.value;
	double s = (double)(now->taken_ns - before->taken_ns) / 1e9;

	memset(ret, 0, sizeof(*ret));
	/* A server that was started anew begins at nothing. */
	if (before->header.start_ns != now->header.start_ns || s <= 0)
		return;
	ret->seconds = s;
#define RATE(to, name)                                                         \
	ret->to = (double)(b[TS_STAT_##name] - a[TS_STAT_##name]) / s
	RATE(read_pages, read_pages);
	RATE(written_pages, written_pages);
	RATE(discarded_pages, discarded_pages);
	RATE(spilled_pages, spilled_pages);
	RATE(spill_read_pages, spill_read_pages);
	RATE(promoted_pages, promoted_pages);
	RATE(spill_written_bytes, spill_written_bytes);
#undef RATE
	for (unsigned i = 0; i < TS_N_HISTS; i++)
		ts_latency_minus(&now->sums.hist[i], &before->sums.hist[i],
				 &ret->hist[i]);
}

void ts_stats_rates(FILE *out, const struct ts_snapshot *before,
		    const struct ts_snapshot *now, bool with_head)
{
	char r[TS_DURATION_TEXT_BYTES], w[TS_DURATION_TEXT_BYTES];
	struct ts_rates rates;
	struct ts_view view;

	ts_view_make(now, &view);
	ts_rates_make(before, now, &rates);
	if (with_head)
		fprintf(out, "%10s %10s %10s %10s %10s %11s %11s %6s %10s %s\n",
			"pages", "read/s", "write/s", "discard/s", "spill/s",
			"read p99", "write p99", "ratio", "room", "warnings");
	fprintf(out,
		"%10" PRIu64 " %10.0f %10.0f %10.0f %10.0f %11s %11s "
		"%6.2f %10s",
		view.used_slots, rates.read_pages, rates.written_pages,
		rates.discarded_pages, rates.spilled_pages,
		ts_duration_format(
			ts_latency_quantile_ns(&rates.hist[TS_HIST_read], 990),
			r, sizeof(r)),
		ts_duration_format(
			ts_latency_quantile_ns(&rates.hist[TS_HIST_write], 990),
			w, sizeof(w)),
		view.ratio, SIZE(view.room_bytes));
	for (unsigned i = 0; i < TS_N_WARNINGS; i++)
		if (view.warnings >> i & 1)
			fprintf(out, " %s", ts_warning_name(i));
	fputc('\n', out);
	fflush(out);
}
