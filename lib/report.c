/* SPDX-License-Identifier: BSD-3-Clause */
/* report.c - what a store tells of itself: extents and counters */
#include "store.h"
#include "util/atomic.h"

/* A run that grows until the type changes. */
struct run {
	ts_extent_fn *fn;
	void *opaque;
	uint64_t off, len;
	enum ts_extent type;
};

static int flush_run(struct run *run)
{
	return run->len ? run->fn(run->opaque, run->off, run->len, run->type) :
			  0;
}

static int add_to_run(struct run *run, enum ts_extent type, uint64_t len)
{
	int ret = 0;

	if (type != run->type) {
		ret = flush_run(run);
		run->off += run->len;
		run->len = 0;
		run->type = type;
	}
	run->len += len;
	return ret;
}

static enum ts_extent extent_of(ts_word word)
{
	switch (ts_word_kind(word)) {
	case TS_NONE:
		return TS_EXTENT_HOLE;
	case TS_ZERO:
		return TS_EXTENT_ZERO;
	default:
		return TS_EXTENT_DATA;
	}
}

/* The bytes of slot @i within [off, end). */
static uint64_t slot_part(uint64_t slot, uint64_t off, uint64_t end)
{
	uint64_t from = slot << TS_SLOT_SHIFT, to = from + TS_SLOT_BYTES;

	return (to < end ? to : end) - (from > off ? from : off);
}

/* Report [off, end) of one cluster. The words are copied out first: @fn must
 * not run under the lock.
 */
static int walk_cluster(struct ts_core *core, struct run *run, uint64_t off,
			uint64_t end)
{
	uint64_t slot = off >> TS_SLOT_SHIFT;
	enum ts_extent type[TS_CLUSTER_SLOTS] = { 0 };
	struct ts_cluster cluster;
	int ret = 0;

	ts_cluster_open(&core->clusters, slot / TS_CLUSTER_SLOTS, &cluster);
	for (unsigned i = 0; i < TS_CLUSTER_SLOTS; i++)
		type[i] = cluster.words ? extent_of(cluster.words[i]) :
					  TS_EXTENT_HOLE;
	ts_cluster_close(&cluster);

	for (; slot << TS_SLOT_SHIFT < end && !ret; slot++)
		ret = add_to_run(run, type[slot % TS_CLUSTER_SLOTS],
				 slot_part(slot, off, end));
	return ret;
}

int ts_store_extents(struct ts_store *store, uint64_t len, uint64_t off,
		     ts_extent_fn *fn, void *opaque)
{
	const uint64_t cluster_bytes = TS_CLUSTER_SLOTS * TS_SLOT_BYTES;
	struct run run = { .fn = fn, .opaque = opaque, .off = off };
	uint64_t end = off + len;
	int ret = ts_store_range(store, len, off);

	while (off < end && !ret) {
		uint64_t nr = off / cluster_bytes;
		uint64_t last = (end + cluster_bytes - 1) / cluster_bytes;
		uint64_t next = ts_cluster_next(&store->core.clusters, nr,
						last);
		uint64_t stop = next * cluster_bytes;

		if (next > nr) {
			if (stop > end)
				stop = end;
			ret = add_to_run(&run, TS_EXTENT_HOLE, stop - off);
		} else {
			stop = (nr + 1) * cluster_bytes;
			if (stop > end)
				stop = end;
			ret = walk_cluster(&store->core, &run, off, stop);
		}
		off = stop;
	}
	return ret ? ret : flush_run(&run);
}

static void report_spill(struct ts_store *store, struct ts_counters *ret)
{
	struct ts_spill *spill = store->core.media.spill;

	ret->spill = spill;
	if (!spill)
		return;
	ret->spill_uring = spill->uring;
	ret->why_not_uring = spill->why_not_uring;
	ret->spill_direct = spill->file.direct;
	ret->spill_firm = spill->file.firm;
	ret->spill_cipher = ts_seal_name(&spill->seal);
	ret->spill_degraded = ts_load_relaxed(&store->spiller.degraded);
	ret->spill_budget_spent = ts_load_relaxed(&store->spiller.wear_spent);
	ret->spill_size_bytes = (uint64_t)spill->segments.n << TS_SEGMENT_SHIFT;
	ret->spill_free_bytes = (uint64_t)ts_segments_free(&spill->segments)
				<< TS_SEGMENT_SHIFT;
}

void ts_store_counters(struct ts_store *store, struct ts_counters *ret)
{
	struct ts_media *media = &store->core.media;

	*ret = (struct ts_counters){ 0 };
#define TS_STAT(name, kind, unit, text)                                        \
	ret->name = (uint64_t)ts_stats_sum(&media->stats, TS_STAT_##name);
#include "stats.def"
	ret->resident_bytes = ts_blocks_resident_bytes(&media->blocks);
	ret->budget_bytes = (uint64_t)media->blocks.budget << TS_BLOCK_SHIFT;
	ret->locked = store->core.kept.shm.locked;
	report_spill(store, ret);
}
