/* SPDX-License-Identifier: BSD-3-Clause */
/* tier.c - when pages leave memory, which ones, and when they come back
 *
 * The clock's hand goes over clusters, not over slots, so that neighbours
 * leave together and are read together later. Raw pages have a hand of their
 * own that is tried first: they cost the most memory for one page.
 */
#include "tier.h"
#include "batch.h"
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

/* Returns 0 or why not; that is no error, only no promotion. */
static int promote_one(struct ts_core *core, const struct ts_reading *reading,
		       unsigned i, uint64_t seq)
{
	struct ts_batch batch = {
		.n = 1,
		.slot = reading->slot + i,
		.todo = 1,
	};
	/* What was read, see ts_backend_spill. Its dictionary stays as long as
	 * we hold a decoder.
	 */
	const uint8_t *data = ts_reading_scratch(reading, i);
	ts_word word = reading->word[i];
	enum ts_codec_id codec = ts_word_codec(word);
	int err;

	if (codec == TS_CODEC_RAW)
		err = ts_raw_put(&core->media, &batch, 0, data);
	else
		err = ts_ram_put(&core->media, &batch, 0, codec, data,
				 ts_word_len(word));
	if (err)
		return err;
	err = ts_batch_publish(core, &batch, &seq);
	if (err)
		ts_batch_abandon(core, &batch);
	return err;
}

unsigned ts_tier_promote(const struct ts_tier *tier, struct ts_core *core,
			 const struct ts_reading *reading, uint64_t seq)
{
	unsigned n = 0;

	for (unsigned i = 0; i < reading->n; i++) {
		ts_word word = reading->word[i];

		if (ts_word_kind(word) != TS_SPILL || !ts_word_hot(word))
			continue;
		if (!ts_tier_may_promote(tier, core) ||
		    promote_one(core, reading, i, seq))
			break;
		seq++;
		n++;
	}
	ts_stats_add(&core->media.stats, TS_STAT_promoted_pages, n);
	return n;
}

/* What one look at a cluster needs. */
struct look {
	struct ts_core *core;
	struct ts_cluster cluster;
	uint64_t nr;
	bool raw_only, ignore_hot;
	struct ts_pack *pack;
	unsigned n;
};

static bool has_room(const struct ts_pack *pack, unsigned len)
{
	return len + TS_PACK_EXTRA <= ts_pack_room(pack);
}

/* Copy a page to the pack. Under the lock of its cluster, so that its
 * dictionary has a page all the time.
 */
static void take(struct look *look, unsigned i, ts_word word)
{
	struct ts_media *media = &look->core->media;
	struct ts_pack *pack = look->pack;
	unsigned len = ts_word_len(word);

	memcpy(ts_pack_data(pack), ts_ram_data(&media->pool, word), len);
	ts_pack_add(pack, media, look->nr * TS_CLUSTER_SLOTS + i,
		    (uint8_t)ts_word_codec(word), len, ts_word_none());
	ts_cluster_flag(&look->cluster, i, ts_word_set_mark(word, pack->mark));
	TS_FAULT_POINT("tier: victim marked");
	look->n++;
}

/* Take one slot if its page is to leave. Returns false when there is no more
 * room.
 */
static bool look_at(struct look *look, unsigned i)
{
	ts_word word = look->cluster.words[i];
	enum ts_kind kind = ts_word_kind(word);

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
	if (!has_room(look->pack, ts_word_len(word)))
		return false;
	take(look, i, word);
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
		if (!has_room(look->pack, 4096))
			break;
	}
	return look->n;
}

unsigned ts_tier_fill(struct ts_tier *tier, struct ts_core *core,
		      struct ts_pack *pack)
{
	struct look look = {
		.core = core,
		.ignore_hot = ts_load_relaxed(&tier->closed),
		.pack = pack,
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
