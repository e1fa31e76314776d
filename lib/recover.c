/* SPDX-License-Identifier: BSD-3-Clause */
/* recover.c - rebuild what is derived, from the words alone
 *
 * One pass over the directory and its words, by all processors, some clusters
 * at a time; objects are not looked at, so it costs some nanoseconds a slot.
 * Whatever several threads find at once (a block's objects, a segment's bytes)
 * is added up atomically; counts are added up by each thread for itself.
 */
#include "recover.h"
#include "account.h"
#include "fault.h"
#include "parallel.h"
#include "spill/spill.h"
#include "stage.h"
#include "util/atomic.h"
#include "util/lock.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>

#define UNIT_CLUSTERS 32u
#define LEAF_UNITS (TS_LEAF_CLUSTERS / UNIT_CLUSTERS)

/* What the threads share. */
struct recovery {
	struct ts_core *core;
	uint32_t *leaf_nr; /* of the leaves that there are */
	uint32_t n_leaves;
	uint64_t next; /* unit, atomic */
	const char *wrong; /* atomic */
};

/* One thread's. */
struct finder {
	struct recovery *r;
	struct ts_core *core;
	struct ts_change change;
	uint64_t clusters, pages;
};

static bool fail(struct recovery *r, const char *wrong)
{
	ts_store_relaxed(&r->wrong, wrong);
	return false;
}

static bool adopt_object(struct finder *f, ts_obj obj, unsigned bytes)
{
	if (!ts_pool_adopt(&f->core->media.pool, obj, bytes))
		return fail(f->r, "a word names memory that is not an object's");
	return true;
}

static bool adopt_spilled(struct finder *f, ts_word word)
{
	struct ts_spill *spill = f->core->media.spill;
	unsigned bytes = ts_word_len(word) + TS_RECORD_EXTRA;

	if (!spill || ts_word_segment(word) >= spill->segments.n ||
	    ts_word_spill_off(word) + bytes > TS_SEGMENT_BYTES)
		return fail(f->r, "a word names a place outside the spill file");
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
	TS_FAULT_POINT("recovery: staged page to be raw");
	return ts_word_unstaged(word);
}

static bool adopt_word(struct finder *f, ts_word *at, uint64_t slot)
{
	struct ts_media *media = &f->core->media;
	/* No pack is on its way any more. */
	ts_word word = ts_word_set_mark(*at, 0);

	if (!ts_backend_of[ts_word_kind(word)])
		return fail(f->r, "a word of an unknown kind");
	switch (ts_word_kind(word)) {
	case TS_RAM:
		if (!adopt_object(f, ts_word_obj(word),
				  ts_ram_object_bytes(word)))
			return false;
		break;
	case TS_RAW:
	case TS_STAGED:
		if (!adopt_object(f, ts_word_obj(word), 4096))
			return false;
		ts_store_relaxed(ts_pool_page_note(&media->pool,
						   ts_word_obj(word)),
				 slot);
		word = adopt_staged(media, word, slot);
		break;
	case TS_SPILL:
		if (!adopt_spilled(f, word))
			return false;
		break;
	default:
		word = *at;
	}
	if (ts_kind_stored(ts_word_kind(word)))
		ts_dict_ref(&media->codec.dicts, ts_word_codec(word), 1);
	if (word.bits != at->bits)
		ts_store_release(&at->bits, word.bits);
	TS_FAULT_POINT("recovery: word adopted");
	ts_change_word(&f->change, word, 1);
	return true;
}

/* Returns whether the cluster is whole; one without live slots, which a kill
 * can leave behind, is taken away.
 */
static bool adopt_cluster(struct finder *f, uint64_t nr, uint32_t *entry)
{
	struct ts_clusters *clusters = &f->core->clusters;
	struct ts_pool *pool = clusters->pool;
	ts_obj page = ts_pool_page(*entry - 1);
	uint64_t live = 0;
	ts_word *words;

	if ((*entry - 1) / TS_BLOCK_PAGES >= pool->blocks->n ||
	    nr >= clusters->n_clusters)
		return fail(f->r,
			    "a cluster's words are outside the memory");
	words = ts_cluster_words(clusters, page);
	for (unsigned i = 0; i < TS_CLUSTER_SLOTS; i++) {
		if (ts_word_kind(words[i]) == TS_NONE)
			continue;
		if (!adopt_word(f, &words[i], nr * TS_CLUSTER_SLOTS + i))
			return false;
		live++;
	}
	if (!live) {
		ts_store_release(entry, 0);
		TS_FAULT_POINT("recovery: empty cluster taken away");
		return true;
	}
	if (!adopt_object(f, page, 4096))
		return false;
	ts_store_relaxed(ts_pool_page_note(pool, page),
			 TS_NOTE_WORDS | nr << TS_NOTE_CLUSTER_SHIFT | live);
	ts_add_relaxed(&clusters->leaf_live[nr / TS_LEAF_CLUSTERS], 1);
	f->clusters++;
	f->pages += live;
	TS_FAULT_POINT("recovery: cluster adopted");
	return true;
}

static bool adopt_unit(struct finder *f, uint64_t unit)
{
	struct ts_clusters *clusters = &f->core->clusters;
	uint32_t i = f->r->leaf_nr[unit / LEAF_UNITS];
	uint32_t *leaf = ts_block_addr(clusters->pool->blocks,
				       clusters->root[i] - 1);
	unsigned first = unit % LEAF_UNITS * UNIT_CLUSTERS;

	for (unsigned k = first; k < first + UNIT_CLUSTERS; k++)
		if (leaf[k] &&
		    !adopt_cluster(f, (uint64_t)i * TS_LEAF_CLUSTERS + k,
				   &leaf[k]))
			return false;
	return true;
}

static void find(void *arg)
{
	struct recovery *r = arg;
	struct finder f = { .r = r, .core = r->core };
	struct ts_stats *stats = &r->core->media.stats;
	uint64_t unit;

	do {
		unit = ts_add_relaxed(&r->next, 1);
	} while (unit < (uint64_t)r->n_leaves * LEAF_UNITS &&
		 !ts_load_relaxed(&r->wrong) && adopt_unit(&f, unit));
	ts_change_apply(&r->core->media, &f.change);
	ts_stats_add(stats, TS_STAT_clusters, (int64_t)f.clusters);
	ts_add_relaxed(&r->core->took_over.pages, f.pages);
}

static int adopt_leaves(struct recovery *r)
{
	struct ts_clusters *clusters = &r->core->clusters;

	r->leaf_nr = calloc(clusters->n_leaves, sizeof(*r->leaf_nr));
	if (!r->leaf_nr)
		return -ENOMEM;
	for (uint32_t i = 0; i < clusters->n_leaves; i++) {
		if (!clusters->root[i])
			continue;
		if (!ts_clusters_adopt_leaf(clusters, i)) {
			fail(r, "a leaf of the directory is outside the memory");
			return -EBADMSG;
		}
		r->leaf_nr[r->n_leaves++] = i;
	}
	return 0;
}

int ts_recover(struct ts_core *core, char *err, size_t err_bytes)
{
	struct recovery r = { .core = core };
	struct ts_media *media = &core->media;
	struct ts_took_over *took = &core->took_over;
	uint64_t start_ns = ts_now_ns();
	int error = adopt_leaves(&r);

	if (!error && r.n_leaves)
		ts_in_parallel(UINT_MAX, find, &r);
	free(r.leaf_nr);
	if (r.wrong) {
		snprintf(err, err_bytes, "the kept memory is damaged: %s",
			 r.wrong);
		return -EBADMSG;
	}
	if (error)
		return error;
	TS_FAULT_POINT("recovery: all words adopted");
	took->words_ns = ts_now_ns() - start_ns;
	start_ns = ts_now_ns();
	ts_pool_adopted(&media->pool);
	ts_blocks_adopted(&media->blocks);
	if (media->spill)
		ts_segments_adopted(&media->spill->segments);
	took->blocks_ns = ts_now_ns() - start_ns;
	TS_FAULT_POINT("recovery: done");
	return 0;
}
