/* SPDX-License-Identifier: BSD-3-Clause */
/* publish.c - look up what is not counted, and put it in the statistics file
 */
#include "publish.h"
#include "tune.h"

#include <string.h>

static int64_t of_blocks(uint32_t n)
{
	return (int64_t)n << TS_BLOCK_SHIFT;
}

static void look_up_memory(struct ts_store *store, int64_t *gauge)
{
	struct ts_blocks *blocks = &store->core.media.blocks;

	ts_lock(&blocks->lock);
	gauge[TS_GAUGE_free_touched_bytes] = of_blocks(blocks->n_touched);
	gauge[TS_GAUGE_taken_bytes] = of_blocks(blocks->n_taken);
	gauge[TS_GAUGE_budget_bytes] = of_blocks(blocks->budget);
	gauge[TS_GAUGE_budget_max_bytes] = of_blocks(blocks->n);
	ts_unlock(&blocks->lock);
	gauge[TS_GAUGE_resident_bytes] = gauge[TS_GAUGE_free_touched_bytes] +
					 gauge[TS_GAUGE_taken_bytes];
	gauge[TS_GAUGE_size_bytes] =
		(int64_t)(store->core.n_slots << TS_SLOT_SHIFT);
	gauge[TS_GAUGE_memory_locked] =
		ts_shm_is_locked(&store->core.kept.shm);
	gauge[TS_GAUGE_level] =
		ts_load_relaxed(&store->core.media.codec.dicts.level);
}

static void look_up_spill(struct ts_store *store, int64_t *gauge)
{
	struct ts_spill *spill = store->core.media.spill;
	struct ts_spiller *spiller = &store->spiller;
	struct ts_segments *segments;

	gauge[TS_GAUGE_ram_admission] = !ts_load_relaxed(&spiller->tier.closed);
	if (!spill)
		return;
	segments = &spill->segments;
	ts_lock(&segments->lock);
	gauge[TS_GAUGE_spill_free_bytes] = (int64_t)segments->n_free
					   << TS_SEGMENT_SHIFT;
	gauge[TS_GAUGE_spill_bad_bytes] = (int64_t)segments->n_bad
					  << TS_SEGMENT_SHIFT;
	ts_unlock(&segments->lock);
	gauge[TS_GAUGE_spill_present] = 1;
	gauge[TS_GAUGE_spill_size_bytes] = (int64_t)segments->n
					   << TS_SEGMENT_SHIFT;
	gauge[TS_GAUGE_spill_encrypted] = spill->encrypt;
	gauge[TS_GAUGE_spill_degraded] = ts_load_relaxed(&spiller->degraded);
	gauge[TS_GAUGE_spill_begin_headroom_bytes] =
		of_blocks(ts_tier_begin_blocks(&spiller->tier, &store->core));
	gauge[TS_GAUGE_spill_end_headroom_bytes] =
		of_blocks(ts_tier_end_blocks(&spiller->tier, &store->core));
	gauge[TS_GAUGE_high_water_percent] = spiller->tier.high_percent;
	gauge[TS_GAUGE_low_water_percent] = spiller->tier.low_percent;
	gauge[TS_GAUGE_write_budget_bytes] =
		(int64_t)ts_load_relaxed(&spiller->wear.bytes_day);
	gauge[TS_GAUGE_write_budget_spent] =
		ts_load_relaxed(&spiller->wear_spent);
}

void ts_look_up(struct ts_store *store, struct ts_looked_up *ret)
{
	struct ts_pool *pool = &store->core.media.pool;

	memset(ret, 0, sizeof(*ret));
	look_up_memory(store, ret->gauge);
	look_up_spill(store, ret->gauge);
	for (unsigned i = 0; i < TS_POOL_CLASSES; i++) {
		struct ts_class *c = &pool->classes[i];

		ts_lock(&c->lock);
		ret->size_class[i] = (struct ts_class_use){
			.object_bytes = c->obj_bytes,
			.per_block = c->per_block,
			.blocks = c->n_blocks,
			.objects = c->n_used,
		};
		ts_unlock(&c->lock);
	}
	ret->at_ns = ts_now_ns();
}

void ts_publish(void *opaque)
{
	struct ts_store *store = opaque;
	struct ts_looked_up looked_up;

	if (!store->statsfile.map)
		return;
	ts_tune_answer(store);
	ts_look_up(store, &looked_up);
	ts_statsfile_publish(&store->statsfile, &looked_up,
			     &store->core.media.stats);
}
