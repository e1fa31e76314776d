/* SPDX-License-Identifier: BSD-3-Clause */
/* view.c - what a snapshot of the statistics means */
#include "view.h"
#include "util/size.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define PAGE_BYTES 4096u
/* Below that, a mean says nothing yet. */
#define ENOUGH_PAGES    256u
#define LOW_RATIO_PAGES 4096u
#define LOW_RATIO       1.5
/* The tiers count as nearly full when less than this part is left ... */
#define FULL_PART 4u
/* ... and as too small when they leave less than this part of what the kernel
 * believes to be free swap.
 */
#define TOO_SMALL_PART 4u
/* The server looks around every second. */
#define STALE_NS 5000000000ull

const struct ts_stat_info ts_stat_info[TS_N_STATS] = {
#define COUNTER                         true
#define GAUGE                           false
#define TS_STAT(name, kind, unit, text) {#name, #unit, text, kind},
#include "stats.def"
#undef COUNTER
#undef GAUGE
};

const struct ts_stat_info ts_gauge_info[TS_N_GAUGES] = {
#define TS_GAUGE(name, unit, text) {#name, #unit, text, false},
#include "stats.def"
};

const struct ts_stat_info ts_latency_info[TS_N_HISTS] = {
#define TS_HIST(name, text) {#name, "SECONDS", text, false},
#include "stats.def"
};

const char *ts_stat_kind(enum ts_stat which, char buf[static 32])
{
	const char *name = ts_stat_info[which].name;
	const char *suffix = strstr(name, "_slots");

	if (ts_stat_info[which].counter || !suffix || strlen(suffix) != 6)
		return NULL;
	snprintf(buf, 32, "%.*s", (int)(suffix - name), name);
	return buf;
}

/* Sums of what came and what went can be below zero for a moment: one thread
 * has counted the page that another is about to count.
 */
static uint64_t above_zero(int64_t value)
{
	return value > 0 ? (uint64_t)value : 0;
}

/* Pages by kind. The sum is exact even at such a moment; what kinds are below
 * zero is taken out of the others, the largest first.
 */
static void count_slots(const int64_t *stat, struct ts_view *view)
{
	uint64_t owed = 0;
	int64_t used = 0;
	char kind[32];

	for (unsigned i = 0; i < TS_N_STATS; i++) {
		if (!ts_stat_kind(i, kind))
			continue;
		used += stat[i];
		view->slots[i] = above_zero(stat[i]);
		owed += above_zero(-stat[i]);
	}
	view->used_slots = above_zero(used);
	while (owed) {
		unsigned largest = 0;
		uint64_t part;

		for (unsigned i = 0; i < TS_N_STATS; i++)
			if (view->slots[i] > view->slots[largest])
				largest = i;
		part = view->slots[largest] < owed ? view->slots[largest] :
						     owed;
		if (!part)
			break;
		view->slots[largest] -= part;
		owed -= part;
	}
}

static double divide(double a, double b)
{
	return b > 0 ? a / b : 0;
}

/* How many bytes of pages fit in @free_bytes when @pages take @used_bytes. */
static uint64_t room(uint64_t free_bytes, uint64_t pages, uint64_t used_bytes,
		     bool *guess)
{
	if (pages < ENOUGH_PAGES || !used_bytes) {
		*guess = free_bytes > 0;
		return free_bytes;
	}
	return (uint64_t)((double)free_bytes * pages * PAGE_BYTES / used_bytes);
}

static void make_room(const struct ts_snapshot *snapshot, struct ts_view *view)
{
	const int64_t *gauge = snapshot->looked_up.gauge;
	uint64_t budget = above_zero(gauge[TS_GAUGE_budget_bytes]);
	uint64_t free_bytes =
		budget > view->taken_bytes ? budget - view->taken_bytes : 0;
	bool spills = !gauge[TS_GAUGE_spill_degraded] &&
		      !gauge[TS_GAUGE_write_budget_spent];
	uint64_t spill_free =
		spills ? above_zero(gauge[TS_GAUGE_spill_free_bytes]) : 0;
	uint64_t unused = (view->size_slots - view->used_slots) * PAGE_BYTES;
	bool guess = false, spill_guess = false;

	view->memory_room_bytes =
		room(free_bytes, view->memory_pages, view->taken_bytes, &guess);
	view->spill_room_bytes = room(spill_free, view->spill_pages,
				      view->spill_used_bytes, &spill_guess);
	/* Nothing spilled yet: it will be what memory holds compressed. */
	if (spill_guess && view->memory_pages >= ENOUGH_PAGES)
		view->spill_room_bytes =
			(uint64_t)((double)spill_free * view->ratio);
	view->room_is_guess = guess;
	view->room_bytes = view->memory_room_bytes + view->spill_room_bytes;
	if (view->room_bytes > unused)
		view->room_bytes = unused;
}

static bool overcommitted(const struct ts_snapshot *snapshot,
			  const struct ts_view *view)
{
	const int64_t *gauge = snapshot->looked_up.gauge;
	uint64_t all = above_zero(gauge[TS_GAUGE_budget_bytes]) +
		       above_zero(gauge[TS_GAUGE_spill_size_bytes]);
	uint64_t used = view->taken_bytes + view->spill_used_bytes;
	uint64_t unused = (view->size_slots - view->used_slots) * PAGE_BYTES;

	return used > all - all / FULL_PART &&
	       view->room_bytes < unused / TOO_SMALL_PART;
}

static void warn_if(struct ts_view *view, enum ts_warning which, bool when)
{
	if (when)
		view->warnings |= 1u << which;
}

static void make_warnings(const struct ts_snapshot *snapshot,
			  struct ts_view *view)
{
	const struct ts_looked_up *now = &snapshot->looked_up;
	bool stale = snapshot->taken_ns > now->at_ns + STALE_NS;

	warn_if(view, TS_WARN_OVERCOMMITTED, overcommitted(snapshot, view));
	warn_if(view, TS_WARN_LOW_RATIO,
		view->memory_pages + view->spill_pages >= LOW_RATIO_PAGES &&
			view->ratio < LOW_RATIO);
	warn_if(view, TS_WARN_SPILL_DEGRADED,
		now->gauge[TS_GAUGE_spill_degraded]);
	warn_if(view, TS_WARN_WRITE_BUDGET_SPENT,
		now->gauge[TS_GAUGE_write_budget_spent]);
	warn_if(view, TS_WARN_MEMORY_NOT_LOCKED,
		!now->gauge[TS_GAUGE_memory_locked]);
	warn_if(view, TS_WARN_DAMAGED_PAGES,
		snapshot->sums.value[TS_STAT_damaged] > 0);
	warn_if(view, TS_WARN_SERVER_GONE, !snapshot->alive);
	warn_if(view, TS_WARN_SERVER_STOPPED,
		snapshot->alive && (snapshot->stopped || stale));
}

void ts_view_make(const struct ts_snapshot *snapshot, struct ts_view *ret)
{
	const int64_t *stat = snapshot->sums.value;
	const int64_t *gauge = snapshot->looked_up.gauge;

	memset(ret, 0, sizeof(*ret));
	ret->size_slots = above_zero(gauge[TS_GAUGE_size_bytes]) / PAGE_BYTES;
	count_slots(stat, ret);
	for (unsigned i = 0; i < TS_N_STATS; i++) {
		if (i == TS_STAT_spill_slots)
			ret->spill_pages = ret->slots[i];
		else if (i != TS_STAT_zero_slots && i != TS_STAT_fill_slots &&
			 i != TS_STAT_staged_slots)
			ret->memory_pages += ret->slots[i];
	}
	if (ret->size_slots < ret->used_slots)
		ret->size_slots = ret->used_slots;
	ret->compressed_bytes = above_zero(stat[TS_STAT_stored_bytes]) +
				above_zero(stat[TS_STAT_spill_bytes]);
	ret->taken_bytes = above_zero(gauge[TS_GAUGE_taken_bytes]);
	ret->spill_used_bytes = above_zero(gauge[TS_GAUGE_spill_size_bytes] -
					   gauge[TS_GAUGE_spill_free_bytes]);
	ret->ratio = divide((double)(ret->memory_pages + ret->spill_pages) *
				    PAGE_BYTES,
			    (double)ret->compressed_bytes);
	ret->all_in = divide((double)ret->used_slots * PAGE_BYTES,
			     (double)ret->taken_bytes +
				     (double)ret->spill_used_bytes);
	ret->amplification =
		divide((double)stat[TS_STAT_spill_written_bytes],
		       (double)stat[TS_STAT_spilled_pages] * PAGE_BYTES);
	make_room(snapshot, ret);
	make_warnings(snapshot, ret);
}

const char *ts_warning_name(enum ts_warning which)
{
	static const char *const names[TS_N_WARNINGS] = {
		[TS_WARN_OVERCOMMITTED] = "overcommitted",
		[TS_WARN_LOW_RATIO] = "low-ratio",
		[TS_WARN_SPILL_DEGRADED] = "spill-degraded",
		[TS_WARN_WRITE_BUDGET_SPENT] = "write-budget-spent",
		[TS_WARN_MEMORY_NOT_LOCKED] = "memory-not-locked",
		[TS_WARN_DAMAGED_PAGES] = "damaged-pages",
		[TS_WARN_SERVER_STOPPED] = "server-stopped",
		[TS_WARN_SERVER_GONE] = "server-gone",
	};

	return names[which];
}

char *ts_warning_text(enum ts_warning which, const struct ts_snapshot *snapshot,
		      const struct ts_view *view, char *buf, size_t buf_bytes)
{
	uint64_t unused = (view->size_slots - view->used_slots) * PAGE_BYTES;
	char a[TS_SIZE_TEXT_BYTES], b[TS_SIZE_TEXT_BYTES];

	switch (which) {
	case TS_WARN_OVERCOMMITTED:
		snprintf(buf, buf_bytes,
			 "about %s more fit, but the kernel counts %s of free "
			 "swap: tools that go by SwapFree will act too late",
			 ts_size_format(view->room_bytes, a, sizeof(a)),
			 ts_size_format(unused, b, sizeof(b)));
		break;
	case TS_WARN_LOW_RATIO:
		snprintf(
			buf, buf_bytes,
			"compression gains little here: ratio %.2f, below %.1f",
			view->ratio, LOW_RATIO);
		break;
	case TS_WARN_SPILL_DEGRADED:
		snprintf(buf, buf_bytes,
			 "the spill device fails (%" PRId64
			 " errors); memory alone takes new pages until it "
			 "works again",
			 snapshot->sums.value[TS_STAT_spill_errors]);
		break;
	case TS_WARN_WRITE_BUDGET_SPENT:
		snprintf(buf, buf_bytes,
			 "the write budget of %s a day is spent; nothing is "
			 "spilled until it allows more",
			 ts_size_format(
				 above_zero(
					 snapshot->looked_up.gauge
						 [TS_GAUGE_write_budget_bytes]),
				 a, sizeof(a)));
		break;
	case TS_WARN_MEMORY_NOT_LOCKED:
		snprintf(buf, buf_bytes,
			 "the pool is not locked in memory: the kernel may "
			 "swap it out to itself and hang (CAP_IPC_LOCK or "
			 "RLIMIT_MEMLOCK is missing, or somebody has unlocked "
			 "it)");
		break;
	case TS_WARN_DAMAGED_PAGES:
		snprintf(buf, buf_bytes,
			 "%" PRId64 " reads met a stored page whose check "
				    "failed: memory or disk is not reliable",
			 snapshot->sums.value[TS_STAT_damaged]);
		break;
	case TS_WARN_SERVER_STOPPED:
		snprintf(buf, buf_bytes,
			 "the server (pid %d) %s; last sign of life %.0f s ago",
			 snapshot->header.pid,
			 snapshot->stopped ? "is stopped by a signal"
					   : "is stalled",
			 (double)(snapshot->taken_ns -
				  snapshot->looked_up.at_ns) /
				 1e9);
		break;
	case TS_WARN_SERVER_GONE:
		snprintf(buf, buf_bytes,
			 "the server (pid %d) is gone; these are its last "
			 "figures",
			 snapshot->header.pid);
		break;
	case TS_N_WARNINGS:
		break;
	}
	return buf;
}
