/* SPDX-License-Identifier: BSD-3-Clause */
/* check.c - walk a store and compare what is derived with the words */
#include "store.h"
#include "util/atomic.h"
#include "util/lock.h"

#include <errno.h>
#include <stdio.h>

/* What the walk over the words adds up to. */
struct tally {
	uint64_t clusters, leaves;
	uint64_t slots[TS_KINDS];
	uint64_t stored_bytes, record_bytes;
	uint64_t objects[TS_POOL_CLASSES];
};

static bool object_in_use(struct ts_pool *pool, ts_obj obj)
{
	uint32_t block =
		(uint32_t)(obj.grains >> (TS_BLOCK_SHIFT - TS_GRAIN_SHIFT));
	unsigned off = obj.grains << TS_GRAIN_SHIFT & (TS_BLOCK_BYTES - 1);
	const struct ts_block *m;
	unsigned bytes;

	if (block >= pool->blocks->fresh)
		return false;
	m = &pool->blocks->meta[block];
	bytes = pool->classes[m->size_class].obj_bytes;
	return off % bytes == 0 &&
	       m->map[off / bytes / 64] >> off / bytes % 64 & 1;
}

static const char *check_page(struct ts_core *core, struct ts_coder *decoder,
			      ts_word word, uint64_t slot)
{
	const struct ts_backend *backend = ts_backend_of[ts_word_kind(word)];
	uint8_t page[4096];
	struct ts_reading reading = {
		.n = 1,
		.slot = slot,
		.data = page,
		.word = {word},
		.decoder = decoder,
	};

	if (!backend)
		return "a word of an unknown kind";
	if (backend->copy)
		backend->copy(&core->media, &reading, 0);
	backend->restore(&core->media, &reading, 1);
	return reading.bad ? "a stored page fails its check" : NULL;
}

static const char *check_word(struct ts_core *core, struct ts_coder *decoder,
			      struct tally *tally, ts_word word, uint64_t slot)
{
	struct ts_pool *pool = &core->media.pool;
	enum ts_kind kind = ts_word_kind(word);
	unsigned size_class;
	ts_obj obj;

	tally->slots[kind]++;
	if (kind == TS_SPILL)
		tally->record_bytes += ts_word_len(word) + TS_RECORD_EXTRA;
	if (kind != TS_RAM && !ts_kind_plain(kind))
		return check_page(core, decoder, word, slot);

	obj = ts_word_obj(word);
	if (!object_in_use(pool, obj))
		return "a word names an object that is not in use";
	size_class = ts_kind_plain(kind)
			     ? TS_CLASS_PAGE
			     : pool->blocks
				       ->meta[obj.grains >>
					      (TS_BLOCK_SHIFT - TS_GRAIN_SHIFT)]
				       .size_class;
	tally->objects[size_class]++;
	if (kind != TS_STAGED)
		tally->stored_bytes += ts_word_len(word);
	if (slot != (ts_kind_plain(kind) ? ts_raw_owner(pool, obj)
					 : ts_ram_owner(pool, obj)))
		return "an object has another owner than the slot that names "
		       "it";
	return check_page(core, decoder, word, slot);
}

static const char *check_cluster(struct ts_core *core, struct ts_coder *decoder,
				 struct tally *tally, uint64_t nr)
{
	struct ts_cluster cluster;
	const char *wrong = NULL;
	unsigned live = 0;

	ts_cluster_open(&core->clusters, nr, &cluster);
	for (unsigned i = 0; i < TS_CLUSTER_SLOTS && !wrong; i++) {
		ts_word word = cluster.words[i];

		live += ts_word_kind(word) != TS_NONE;
		wrong = check_word(core, decoder, tally, word,
				   nr * TS_CLUSTER_SLOTS + i);
	}
	if (!wrong && live != ts_cluster_live(&cluster))
		wrong = "a cluster's live count and its words disagree";
	if (!wrong && !live)
		wrong = "a cluster without live slots";
	ts_cluster_close(&cluster);
	tally->clusters++;
	tally->objects[TS_CLASS_PAGE]++;
	return wrong;
}

/* Frames are in use until a worker has them, whatever becomes of the word. */
static const char *check_stage(struct ts_core *core, struct tally *tally)
{
	struct ts_stage *stage = core->media.stage;

	if (!stage)
		return tally->slots[TS_STAGED]
			       ? "a staged page that nobody will compress"
			       : NULL;
	if (stage->n < tally->slots[TS_STAGED])
		return "a staged page is not in the queue";
	if (stage->n + stage->n_free != stage->n_frames)
		return "frames that neither the queue nor the stage has";
	tally->objects[TS_CLASS_PAGE] += stage->n - tally->slots[TS_STAGED];
	return NULL;
}

static const char *check_totals(struct ts_core *core, struct tally *tally)
{
	struct ts_media *media = &core->media;
	uint64_t blocks = tally->leaves;

	for (unsigned k = 0; k < TS_POOL_CLASSES; k++) {
		if (media->pool.classes[k].n_used != tally->objects[k])
			return "objects in use that no word names";
		blocks += media->pool.classes[k].n_blocks;
	}
	if (blocks != media->blocks.n_taken)
		return "blocks taken that nothing uses";
	for (unsigned kind = TS_NONE + 1; kind < TS_KINDS; kind++)
		if (ts_backend_of[kind] &&
		    ts_stats_sum(&media->stats, ts_backend_of[kind]->slots) !=
			    (int64_t)tally->slots[kind])
			return "a gauge of slots and the words disagree";
	if (media->spill &&
	    media->spill->segments.live_bytes != tally->record_bytes)
		return "live bytes of the spill file and the words disagree";
	if (ts_stats_sum(&media->stats, TS_STAT_stored_bytes) !=
		    (int64_t)tally->stored_bytes ||
	    ts_stats_sum(&media->stats, TS_STAT_clusters) !=
		    (int64_t)tally->clusters)
		return "a gauge and the words disagree";
	return NULL;
}

static const char *check_all(struct ts_core *core, uint64_t *ret_cluster)
{
	struct ts_lend *decoders = &core->media.codec.decoders;
	struct ts_coder *decoder = ts_borrow(decoders);
	uint64_t nr = 0, end = core->clusters.n_clusters;
	struct tally tally = { 0 };
	const char *wrong = NULL;

	for (uint32_t i = 0; i < core->clusters.n_leaves; i++)
		tally.leaves += ts_load_acquire(&core->clusters.root[i]) != 0;
	while ((nr = ts_cluster_next(&core->clusters, nr, end)) < end &&
	       !wrong) {
		wrong = check_cluster(core, decoder, &tally, nr);
		*ret_cluster = nr++;
	}
	ts_return(decoders, decoder);
	if (!wrong)
		wrong = ts_blocks_check(&core->media.blocks);
	if (!wrong)
		wrong = ts_pool_check(&core->media.pool);
	if (!wrong && core->media.spill)
		wrong = ts_segments_check(&core->media.spill->segments);
	if (!wrong)
		wrong = check_stage(core, &tally);
	return wrong ? wrong : check_totals(core, &tally);
}

int ts_store_check(struct ts_store *store, char *err, size_t err_bytes)
{
	uint64_t cluster = 0;
	const char *wrong;

	/* The workers first: they may be waiting for the keeper. */
	ts_workers_rest(&store->workers);
	ts_lock(&store->keeper.busy);
	if (store->core.media.spill)
		ts_lock(&store->spiller.busy);
	wrong = check_all(&store->core, &cluster);
	if (store->core.media.spill)
		ts_unlock(&store->spiller.busy);
	ts_unlock(&store->keeper.busy);
	ts_workers_go_on(&store->workers);
	if (wrong)
		snprintf(err, err_bytes, "%s (at cluster %llu)", wrong,
			 (unsigned long long)cluster);
	return wrong ? -EBADMSG : 0;
}
