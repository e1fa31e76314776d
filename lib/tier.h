/* SPDX-License-Identifier: BSD-3-Clause */
/* tier.h - when pages leave memory, which ones, and when they come back
 *
 * Headroom is what memory could still take: blocks below the budget that are
 * not taken, and those that compaction would free. Spilling starts when the
 * high mark of the budget is used and goes on down to the low mark. A page
 * that is read from spill again before the clock comes by returns to memory
 * while less than the high mark is used: the pages between the marks are the
 * room that is made for those in use.
 */
#ifndef TS_TIER_H
#define TS_TIER_H

#include "pack.h"

struct ts_tier {
	/* Of the budget in use; changed at any time. */
	unsigned high_percent, low_percent;
	bool closed; /* no admission to memory: everything is to spill */
	/* The spiller's alone. */
	uint64_t hand, raw_hand; /* clusters */
	int64_t raw_passed;      /* raw pages that the hand does not find */
};

void ts_tier_init(struct ts_tier *tier, unsigned high_percent,
		  unsigned low_percent);

/* Headroom, in blocks, at which spilling begins and ends. */
uint32_t ts_tier_begin_blocks(const struct ts_tier *tier,
			      const struct ts_core *core);
uint32_t ts_tier_end_blocks(const struct ts_tier *tier,
			    const struct ts_core *core);

/* Whether a writer should wake the spiller: a cheap look without locks. */
bool ts_tier_low(const struct ts_tier *tier, struct ts_core *core);

/* Whether there is more to spill: exact, and slower. */
bool ts_tier_wants_spill(const struct ts_tier *tier, struct ts_core *core);

/* Whether there is any page in memory that could be spilled. */
bool ts_tier_has_victims(struct ts_core *core);

/* Whether a page may come back to memory. */
bool ts_tier_may_promote(const struct ts_tier *tier, struct ts_core *core);

/* Bring pages of a reading that were read from spill before back to memory, if
 * they may and where nothing of their cluster has changed since. What was read
 * is stored as it is. The decoder of the reading is still held.
 *
 * Returns how many.
 */
unsigned ts_tier_promote(const struct ts_tier *tier, struct ts_core *core,
			 const struct ts_reading *reading, uint64_t seq);

/* Walk the clock until some pages of one cluster have been found that leave
 * memory, at most TS_BATCH_PAGES; add them to a pack and mark their words.
 * Pages that do not compress go first, hot ones get a second chance.
 *
 * Returns how many; 0 when the pack is full, or two rounds of the clock found
 * none.
 */
unsigned ts_tier_fill(struct ts_tier *tier, struct ts_core *core,
		      struct ts_pack *pack);

#endif
