/* SPDX-License-Identifier: BSD-3-Clause */
/* tier.h - when pages leave memory, which ones, and when they come back
 *
 * Headroom is what memory could still take: blocks below the budget that are
 * not taken, and those that compaction would free. Spilling starts when it
 * falls below the low mark and goes on up to the high mark. A page that is
 * read from spill again before the clock comes by returns to memory while
 * there is room above the high mark.
 */
#ifndef TS_TIER_H
#define TS_TIER_H

#include "core.h"

struct ts_tier {
	uint32_t low_blocks, high_blocks; /* of headroom; changed at any time */
	/* Of the budget: what they come from. The keeper's alone. */
	uint32_t budget_blocks;
	unsigned high_percent, low_percent;
	bool closed; /* no admission to memory: everything is to spill */
	uint64_t hand, raw_hand; /* clusters; the spiller's alone */
};

/* Spilling begins when more than @high_percent of the budget is taken, and
 * ends at @low_percent; never later than is good for a small budget.
 */
void ts_tier_init(struct ts_tier *tier, uint32_t budget_blocks,
		  unsigned high_percent, unsigned low_percent);

/* Compute the marks of a budget anew. */
void ts_tier_set_budget(struct ts_tier *tier, uint32_t budget_blocks);

/* Whether a writer should wake the spiller: a cheap look without locks. */
bool ts_tier_low(const struct ts_tier *tier, struct ts_core *core);

/* Whether there is more to spill: exact, and slower. */
bool ts_tier_wants_spill(const struct ts_tier *tier, struct ts_core *core);

/* Whether a page may come back to memory. */
bool ts_tier_may_promote(const struct ts_tier *tier, struct ts_core *core);

/* A page that is to leave memory. */
struct ts_victim {
	uint64_t slot;
	unsigned len;  /* stored bytes */
	uint8_t codec;
	uint8_t *data; /* a copy */
};

/* Walk the clock until some pages of one cluster have been found that leave
 * memory, and mark their words. Pages that do not compress go first, hot ones
 * get a second chance.
 *
 * @room        what the victims' lengths, each with @extra, may add up to
 * @mark        the write mark to set
 * @copy        TS_BATCH_PAGES pages for their data
 * @ret_victim  up to TS_BATCH_PAGES
 * Returns how many; 0 when two rounds of the clock found none.
 */
unsigned ts_tier_victims(struct ts_tier *tier, struct ts_core *core,
			 size_t room, unsigned extra, unsigned mark,
			 uint8_t *copy, struct ts_victim *ret_victim);

#endif
