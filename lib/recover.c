/* SPDX-License-Identifier: BSD-3-Clause */
/* recover.c - rebuild what is derived, from the words alone
 *
 * One pass over the directory and its words; objects are not looked at, so it
 * costs some nanoseconds a slot. Blocks that nothing was found in go back to
 * the system, because nobody knows any more which of them were touched.
 */
#include "recover.h"
#include "account.h"
#include "spill/spill.h"
#include "stage.h"
#include "util/atomic.h"

#include <errno.h>
#include <stdio.h>

struct recovery {
	struct ts_core *core;
	struct ts_change change;
	uint64_t clusters;
	const char *wrong;
};

static bool fail(struct recovery *r, const char *wrong)
{
	if (!r->wrong)
		r->wrong = wrong;
	return false;
}

static bool adopt_object(struct recovery *r, ts_obj obj, unsigned bytes)
{
	if (!ts_pool_adopt(&r->core->media.pool, obj, bytes))
		return fail(r, "a word names memory that is not an object's");
	return true;
}

static bool adopt_spilled(struct recovery *r, ts_word word)
{
	struct ts_spill *spill = r->core->media.spill;
	unsigned bytes = ts_word_len(word) + TS_RECORD_EXTRA;

	if (!spill || ts_word_segment(word) >= spill->segments.n ||
	    ts_word_spill_off(word) + bytes > TS_SEGMENT_BYTES)
		return fail(r, "a word names a place outside the spill file");
	ts_segment_adopt(&spill->segments, ts_word_segment(word), bytes);
	return true;
}

/* A staged page is queued again, or stays what it is: a raw page. */
static ts_word adopt_staged(struct ts_media *media, ts_word word,
			    uint64_t slot)
{
	struct ts_staged staged = { slot, ts_word_obj(word) };

	if (ts_word_kind(word) != TS_STAGED ||
	    (media->stage && ts_stage_adopt(media->stage, staged)))
		return word;
	return ts_word_unstaged(word);
}

static bool adopt_word(struct recovery *r, ts_word *at, uint64_t slot)
{
	struct ts_media *media = &r->core->media;
	/* No pack is on its way any more. */
	ts_word word = ts_word_set_mark(*at, 0);

	if (!ts_backend_of[ts_word_kind(word)])
		return fail(r, "a word of an unknown kind");
	switch (ts_word_kind(word)) {
	case TS_RAM:
		if (!adopt_object(r, ts_word_obj(word),
				  ts_ram_object_bytes(word)))
			return false;
		break;
	case TS_RAW:
	case TS_STAGED:
		if (!adopt_object(r, ts_word_obj(word), 4096))
			return false;
		ts_store_relaxed(ts_pool_page_note(&media->pool,
						   ts_word_obj(word)),
				 slot);
		word = adopt_staged(media, word, slot);
		break;
	case TS_SPILL:
		if (!adopt_spilled(r, word))
			return false;
		break;
	default:
		word = *at;
	}
	if (ts_kind_stored(ts_word_kind(word)))
		ts_dict_ref(&media->codec.dicts, ts_word_codec(word), 1);
	if (word.bits != at->bits)
		ts_store_release(&at->bits, word.bits);
	ts_change_word(&r->change, word, 1);
	return true;
}

/* Returns whether the cluster is whole; one without live slots, which a kill
 * can leave behind, is taken away.
 */
static bool adopt_cluster(struct recovery *r, uint64_t nr, uint32_t *entry)
{
	struct ts_pool *pool = &r->core->media.pool;
	ts_obj page = ts_pool_page(*entry - 1);
	uint64_t live = 0;
	ts_word *words;

	if ((*entry - 1) / TS_BLOCK_PAGES >= pool->blocks->n ||
	    nr >= r->core->clusters.n_clusters)
		return fail(r, "a cluster's words are outside the memory");
	words = ts_cluster_words(&r->core->clusters, page);
	for (unsigned i = 0; i < TS_CLUSTER_SLOTS; i++) {
		if (ts_word_kind(words[i]) == TS_NONE)
			continue;
		if (!adopt_word(r, &words[i], nr * TS_CLUSTER_SLOTS + i))
			return false;
		live++;
	}
	if (!live) {
		ts_store_release(entry, 0);
		return true;
	}
	if (!adopt_object(r, page, 4096))
		return false;
	ts_store_relaxed(ts_pool_page_note(pool, page),
			 TS_NOTE_WORDS | nr << TS_NOTE_CLUSTER_SHIFT | live);
	ts_add_relaxed(&r->core->clusters
				.leaf_live[nr / TS_LEAF_CLUSTERS],
		       1);
	r->clusters++;
	return true;
}

static bool adopt_leaf(struct recovery *r, uint32_t i)
{
	struct ts_clusters *clusters = &r->core->clusters;
	uint32_t *leaf = ts_clusters_adopt_leaf(clusters, i);

	if (!leaf)
		return fail(r, "a leaf of the directory is outside the memory");
	for (unsigned k = 0; k < TS_LEAF_CLUSTERS; k++)
		if (leaf[k] &&
		    !adopt_cluster(r, (uint64_t)i * TS_LEAF_CLUSTERS + k,
				   &leaf[k]))
			return false;
	return true;
}

int ts_recover(struct ts_core *core, char *err, size_t err_bytes)
{
	struct recovery r = { .core = core };
	struct ts_media *media = &core->media;
	bool ok = true;

	for (uint32_t i = 0; i < core->clusters.n_leaves && ok; i++)
		if (core->clusters.root[i])
			ok = adopt_leaf(&r, i);
	if (!ok) {
		snprintf(err, err_bytes, "the kept memory is damaged: %s",
			 r.wrong);
		return -EBADMSG;
	}
	ts_pool_adopted(&media->pool);
	ts_blocks_adopted(&media->blocks);
	if (media->spill)
		ts_segments_adopted(&media->spill->segments);
	ts_change_apply(media, &r.change);
	ts_stats_add(&media->stats, TS_STAT_clusters, (int64_t)r.clusters);
	return 0;
}
