/* SPDX-License-Identifier: BSD-3-Clause */
/* view.h - what a snapshot of the statistics means
 *
 * ratio      4096 bytes for each page that is stored compressed or raw, in
 *            memory or spill, divided by what compression made of them. Zero
 *            and fill pages, which cost nothing, do not count.
 * all in     4096 bytes for every slot in use, divided by the memory taken and
 *            the spill space used for them, headers and part-filled blocks
 *            included.
 * room       what could still be stored, at the present cost of a page in each
 *            tier; never more than the device has free. With few pages to
 *            judge by, a page is taken to cost 4096 bytes. A spill file that
 *            takes nothing just now has none.
 * amplification  bytes written to spill, divided by 4096 for each page that
 *            was moved there: below 1 is what compression saves.
 */
#ifndef TS_VIEW_H
#define TS_VIEW_H

#include "statsfile.h"

enum ts_warning {
	TS_WARN_OVERCOMMITTED,
	TS_WARN_LOW_RATIO,
	TS_WARN_SPILL_DEGRADED,
	TS_WARN_WRITE_BUDGET_SPENT,
	TS_WARN_MEMORY_NOT_LOCKED,
	TS_WARN_DAMAGED_PAGES,
	TS_WARN_SERVER_STOPPED,
	TS_WARN_SERVER_GONE,
	TS_N_WARNINGS
};

struct ts_view {
	uint64_t size_slots, used_slots;
	uint64_t slots[TS_N_STATS]; /* by kind; they add up to used_slots */
	uint64_t memory_pages;      /* stored in memory, compressed or raw */
	uint64_t spill_pages;
	uint64_t compressed_bytes; /* in memory and spill */
	uint64_t taken_bytes;      /* of memory */
	uint64_t spill_used_bytes; /* segments that are not free */
	double ratio, all_in;      /* 0: nothing stored */
	double amplification;      /* 0: nothing spilled */
	uint64_t memory_room_bytes, spill_room_bytes, room_bytes;
	bool room_is_guess;
	uint32_t warnings; /* bit by enum ts_warning */
};

void ts_view_make(const struct ts_snapshot *snapshot, struct ts_view *ret);

/* "low-ratio", and the sentence for people. */
const char *ts_warning_name(enum ts_warning which);
char *ts_warning_text(enum ts_warning which, const struct ts_snapshot *snapshot,
		      const struct ts_view *view, char *buf, size_t buf_bytes);

/* How stats.def declares things. */
struct ts_stat_info {
	const char *name, *unit, *text;
	bool counter;
};
extern const struct ts_stat_info ts_stat_info[TS_N_STATS];
extern const struct ts_stat_info ts_gauge_info[TS_N_GAUGES];
extern const struct ts_stat_info ts_latency_info[TS_N_HISTS];

/* The kind of page that a gauge counts, "zero" of "zero_slots", in @buf; NULL
 * for every other line.
 */
const char *ts_stat_kind(enum ts_stat which, char buf[static 32]);

#endif
