/* SPDX-License-Identifier: BSD-3-Clause */
/* compact.c - empty sparse blocks into full ones
 *
 * An isolated block gets no new objects, but those in it can be freed at any
 * moment, and some may belong to a batch that is not published yet. So what
 * an object says of its owner is only a hint: under the owner's cluster lock
 * the word decides. If the word names the object, it is live and complete,
 * and stays so until the lock is released; if not, the object is left alone.
 */
#include "compact.h"
#include "fault.h"
#include "util/atomic.h"
#include "util/lock.h"

static uint64_t note_of(struct ts_core *core, ts_obj page)
{
	return ts_load_relaxed(ts_pool_page_note(&core->media.pool, page));
}

/* Move an object that belongs to a slot. Returns the one to be freed: the old
 * one, or @to if the object was not live.
 */
static ts_obj move_object(struct ts_core *core, uint64_t slot, ts_obj from,
			  ts_obj to)
{
	unsigned i = slot % TS_CLUSTER_SLOTS;
	struct ts_cluster cluster;
	ts_obj unused = to;
	ts_word word;

	if (slot >= core->n_slots)
		return to;
	ts_cluster_open(&core->clusters, slot / TS_CLUSTER_SLOTS, &cluster);
	word = cluster.words ? cluster.words[i] : ts_word_none();
	if (ts_backend_of[ts_word_kind(word)]->move &&
	    ts_word_obj(word).grains == from.grains) {
		ts_backend_of[ts_word_kind(word)]->move(&core->media, word,
							to);
		TS_FAULT_POINT("compaction: object copied");
		ts_cluster_publish(&cluster, i, ts_word_moved(word, to));
		unused = from;
	}
	ts_cluster_close(&cluster);
	return unused;
}

/* The same for a cluster's page of words. */
static ts_obj move_words(struct ts_core *core, uint64_t note, ts_obj from,
			 ts_obj to)
{
	uint64_t nr = (note & ~TS_NOTE_WORDS) >> TS_NOTE_CLUSTER_SHIFT;
	struct ts_cluster cluster;
	ts_obj unused = to;

	if (nr >= core->clusters.n_clusters)
		return to;
	ts_cluster_open(&core->clusters, nr, &cluster);
	if (cluster.words == ts_pool_addr(&core->media.pool, from))
		unused = ts_cluster_move(&core->clusters, &cluster, to);
	ts_cluster_close(&cluster);
	return unused;
}

static void move_one(struct ts_core *core, unsigned size_class, ts_obj from)
{
	struct ts_pool *pool = &core->media.pool;
	uint16_t bytes = pool->classes[size_class].obj_bytes;
	uint64_t note;
	ts_obj to, unused;

	if (ts_pool_alloc(pool, 1, &bytes, &to))
		return;
	if (size_class != TS_CLASS_PAGE) {
		unused = move_object(core, ts_ram_owner(pool, from), from, to);
	} else {
		note = note_of(core, from);
		if (note & TS_NOTE_WORDS)
			unused = move_words(core, note, from, to);
		else
			unused = move_object(core, note, from, to);
	}
	TS_FAULT_POINT("compaction: object moved");
	ts_pool_free(pool, 1, &unused);
	TS_FAULT_POINT("compaction: old place freed");
	if (unused.grains == from.grains)
		ts_stats_add(&core->media.stats, TS_STAT_compacted_objects, 1);
}

/* Returns whether a block became empty. */
static bool empty_one_block(struct ts_core *core, unsigned size_class,
			    enum ts_slack slack)
{
	struct ts_pool *pool = &core->media.pool;
	ts_obj obj[TS_BLOCK_MAX_OBJECTS];
	unsigned n;
	uint32_t block;

	n = ts_pool_isolate(pool, size_class, slack, &block, obj);
	if (!n)
		return false;
	for (unsigned i = 0; i < n; i++)
		move_one(core, size_class, obj[i]);
	return ts_pool_unisolate(pool, block);
}

unsigned ts_compact(struct ts_core *core, enum ts_slack slack,
		    unsigned max_blocks)
{
	unsigned done = 0;

	ts_lock(&core->compaction);
	for (unsigned k = 0; k < TS_POOL_CLASSES; k++)
		while (done < max_blocks && empty_one_block(core, k, slack))
			done++;
	ts_unlock(&core->compaction);
	return done;
}
