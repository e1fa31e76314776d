/* SPDX-License-Identifier: BSD-3-Clause */
/* tier.c - when pages leave memory, which ones, and when they come back
 *
 * The clock's hand goes over clusters, not over slots, so that neighbours
 * leave together and are read together later. Raw pages have a hand of their
 * own that is tried first: they cost the most memory for one page.
 */
#include "tier.h"
#include "fault.h"
#include "util/atomic.h"

#include <string.h>

#define HIGH_MORE 8u
#define LOW_MORE  16u

void ts_tier_init(struct ts_tier *tier, unsigned high_percent,
		  unsigned low_percent)
{
	*tier = (struct ts_tier){
		.high_percent = high_percent,
		.low_percent = low_percent,
	};
}

/* The headroom at a percentage of the budget that is used, and some blocks
 * more, which only a tiny budget feels.
 */
static uint32_t headroom_at(const struct ts_core *core, const unsigned *percent,
			    uint32_t more)
{
	uint64_t budget = ts_load_relaxed(&core->media.blocks.budget);

	return (uint32_t)(budget * (100 - ts_load_relaxed(percent)) / 100) +
	       more;
}

uint32_t ts_tier_begin_blocks(const struct ts_tier *tier,
			      const struct ts_core *core)
{
	return headroom_at(core, &tier->high_percent, HIGH_MORE);
}

uint32_t ts_tier_end_blocks(const struct ts_tier *tier,
			    const struct ts_core *core)
{
	return headroom_at(core, &tier->low_percent, LOW_MORE);
}

bool ts_tier_has_victims(struct ts_core *core)
{
	const struct ts_stats *stats = &core->media.stats;

	return ts_stats_sum(stats, TS_STAT_ram_slots) +
		       ts_stats_sum(stats, TS_STAT_raw_slots) >
	       0;
}

bool ts_tier_low(const struct ts_tier *tier, struct ts_core *core)
{
	return ts_load_relaxed(&tier->closed) ||
	       ts_blocks_headroom(&core->media.blocks) <
		       headroom_at(core, &tier->high_percent, HIGH_MORE);
}

bool ts_tier_wants_spill(const struct ts_tier *tier, struct ts_core *core)
{
	uint32_t headroom = ts_blocks_headroom(&core->media.blocks);

	if (ts_load_relaxed(&tier->closed))
		return ts_tier_has_victims(core);
	for (unsigned k = 0; k < TS_POOL_CLASSES; k++)
		headroom += ts_pool_surplus(&core->media.pool, k);
	return headroom < headroom_at(core, &tier->low_percent, LOW_MORE);
}

bool ts_tier_may_promote(const struct ts_tier *tier, struct ts_core *core)
{
	/* Up to the mark at which spilling begins: only then does what was
	 * found to be cold make room for what is in use.
	 */
	return !ts_tier_low(tier, core);
}

/* What one look at a cluster needs. */
struct look {
	struct ts_core *core;
	struct ts_cluster cluster;
	uint64_t nr;
	bool raw_only, ignore_hot;
	size_t room;
	unsigned extra;
	unsigned mark;
	uint8_t *copy;
	struct ts_victim *victim;
	unsigned n;
};

/* Take one slot if its page is to leave. Returns false when the room is used
 * up.
 */
static bool look_at(struct look *look, unsigned i)
{
	ts_word word = look->cluster.words[i];
	enum ts_kind kind = ts_word_kind(word);
	struct ts_victim *victim = &look->victim[look->n];
	unsigned len;

	/* Read again only after the clock has come by: not worth memory. */
	if (kind == TS_SPILL && ts_word_hot(word) && !look->raw_only)
		ts_cluster_flag(&look->cluster, i, ts_word_set_cold(word));
	if (kind != TS_RAW && (kind != TS_RAM || look->raw_only))
		return true;
	if (ts_word_mark(word))
		return true;
	if (ts_word_hot(word) && !look->ignore_hot) {
		/* The chance is given and taken by the other hand alone. */
		if (!look->raw_only)
			ts_cluster_flag(&look->cluster, i,
					ts_word_set_cold(word));
		return true;
	}
	len = ts_word_len(word);
	if (len + look->extra > look->room)
		return false;
	look->room -= len + look->extra;
	*victim = (struct ts_victim){
		.slot = look->nr * TS_CLUSTER_SLOTS + i,
		.len = len,
		.codec = (uint8_t)ts_word_codec(word),
		.data = look->copy + look->n * 4096,
	};
	memcpy(victim->data, ts_ram_data(&look->core->media.pool, word), len);
	ts_cluster_flag(&look->cluster, i, ts_word_set_mark(word, look->mark));
	TS_FAULT_POINT("tier: victim marked");
	look->n++;
	return look->n < TS_BATCH_PAGES;
}

/* Returns whether the whole cluster was looked at. */
static bool look_at_cluster(struct look *look)
{
	bool more = true;

	ts_cluster_open(&look->core->clusters, look->nr, &look->cluster);
	for (unsigned i = 0;
	     look->cluster.words && i < TS_CLUSTER_SLOTS && more; i++)
		more = look_at(look, i);
	ts_cluster_close(&look->cluster);
	return more;
}

/* Move a hand until something is found, some times round at most. */
static unsigned turn(struct look *look, uint64_t *hand, unsigned max_rounds)
{
	uint64_t end = look->core->clusters.n_clusters;
	unsigned rounds = 0;

	while (!look->n && rounds < max_rounds) {
		look->nr = ts_cluster_next(&look->core->clusters, *hand, end);
		if (look->nr >= end) {
			*hand = 0;
			rounds++;
			continue;
		}
		*hand = look->nr + look_at_cluster(look);
		if (look->room < look->extra + 4096u)
			break;
	}
	return look->n;
}

unsigned ts_tier_victims(struct ts_tier *tier, struct ts_core *core,
			 size_t room, unsigned extra, unsigned mark,
			 uint8_t *copy, struct ts_victim *ret_victim)
{
	struct look look = {
		.core = core,
		.ignore_hot = ts_load_relaxed(&tier->closed),
		.room = room,
		.extra = extra,
		.mark = mark,
		.copy = copy,
		.victim = ret_victim,
	};
	int64_t n_raw;

	/* Raw pages that a turn has passed are in use, or on their way. They
	 * are left to the other hand until there are more: twice round would
	 * take them however much they are used.
	 */
	n_raw = ts_stats_sum(&core->media.stats, TS_STAT_raw_slots);
	if (n_raw < tier->raw_passed)
		tier->raw_passed = n_raw;
	if (n_raw > tier->raw_passed) {
		look.raw_only = true;
		if (turn(&look, &tier->raw_hand, 1))
			return look.n;
		look.raw_only = false;
		tier->raw_passed = n_raw;
	}
	return turn(&look, &tier->hand, 2);
}
