/* SPDX-License-Identifier: BSD-3-Clause */
/* cluster.c - the map: words of slots, 512 to a cluster
 *
 * Entries of the root change under the leaf lock, those of a leaf under their
 * cluster's stripe. Stores are atomic with release order also for the sake of
 * another process, that maps the segment after this one was killed between
 * any two instructions.
 *
 * Whoever follows a root entry into a leaf holds a stripe, any stripe, for as
 * long as it looks at the leaf. So when each stripe has been taken and let go
 * once, everybody has come by who looked before. A leaf is taken away in two
 * such steps: its root entry is flagged, after which nobody attaches clusters
 * to it; if it is then still empty the entry is cleared, after which nobody
 * finds it.
 */
#include "cluster.h"
#include "fault.h"
#include "util/atomic.h"
#include "util/lock.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

_Static_assert(TS_CLUSTER_SLOTS * sizeof(ts_word) == 4096,
	       "a cluster's words are one page");

static uint64_t clusters_for(uint64_t n_slots)
{
	return (n_slots + TS_CLUSTER_SLOTS - 1) / TS_CLUSTER_SLOTS;
}

static uint64_t leaves_for(uint64_t n_slots)
{
	return (clusters_for(n_slots) + TS_LEAF_CLUSTERS - 1) /
	       TS_LEAF_CLUSTERS;
}

size_t ts_clusters_root_bytes(uint64_t n_slots)
{
	return leaves_for(n_slots) * sizeof(uint32_t);
}

int ts_clusters_init(struct ts_clusters *clusters, struct ts_pool *pool,
		     void *root, uint64_t n_slots)
{
	*clusters = (struct ts_clusters){
		.pool = pool,
		.root = root,
		.n_clusters = clusters_for(n_slots),
		.n_leaves = (uint32_t)leaves_for(n_slots),
	};
	clusters->stripes =
		aligned_alloc(_Alignof(struct ts_stripe),
			      TS_STRIPES * sizeof(*clusters->stripes));
	clusters->leaf_live = calloc(clusters->n_leaves, sizeof(uint32_t));
	if (!clusters->stripes || !clusters->leaf_live)
		return -ENOMEM;
	for (unsigned i = 0; i < TS_STRIPES; i++) {
		ts_mutex_init(&clusters->stripes[i].lock);
		clusters->stripes[i].seq = 0;
	}
	ts_mutex_init(&clusters->leaf_lock);
	return 0;
}

void ts_clusters_fini(struct ts_clusters *clusters)
{
	if (clusters->stripes && clusters->leaf_live) {
		for (unsigned i = 0; i < TS_STRIPES; i++)
			pthread_mutex_destroy(&clusters->stripes[i].lock);
		pthread_mutex_destroy(&clusters->leaf_lock);
	}
	free(clusters->stripes);
	free(clusters->leaf_live);
	clusters->stripes = NULL;
	clusters->leaf_live = NULL;
}

/* A leaf; @ret_closing, if not NULL, says that it may be going away. */
static uint32_t *leaf_at(const struct ts_clusters *clusters, uint64_t i,
			 bool *ret_closing)
{
	uint32_t entry = ts_load_acquire(&clusters->root[i]);

	if (ret_closing)
		*ret_closing = entry & TS_ROOT_CLOSING;
	entry &= ~TS_ROOT_CLOSING;
	return entry ? ts_block_addr(clusters->pool->blocks, entry - 1) : NULL;
}

static int new_leaf(struct ts_clusters *clusters, uint64_t i)
{
	struct ts_blocks *blocks = clusters->pool->blocks;
	uint32_t block;
	int err;

	do {
		err = ts_block_take(blocks, &block);
	} while (err == -ENOBUFS && !(err = ts_blocks_wait(blocks)));
	if (err)
		return err;
	memset(ts_block_addr(blocks, block), 0, TS_BLOCK_BYTES);
	TS_FAULT_POINT("map: leaf cleared");
	ts_store_release(&clusters->root[i], block + 1);
	TS_FAULT_POINT("map: leaf published");
	return 0;
}

int ts_cluster_prepare(struct ts_clusters *clusters, uint64_t nr)
{
	uint64_t i = nr / TS_LEAF_CLUSTERS;
	bool closing;
	int err = 0;

	assert(nr < clusters->n_clusters);
	if (leaf_at(clusters, i, &closing) && !closing)
		return 0;
	/* Whoever closes a leaf holds this until it is gone or open again. */
	ts_lock(&clusters->leaf_lock);
	if (!leaf_at(clusters, i, NULL))
		err = new_leaf(clusters, i);
	ts_unlock(&clusters->leaf_lock);
	return err;
}

/* Count a cluster of a leaf in or out. */
static void count_live(struct ts_clusters *clusters, uint64_t nr, int by)
{
	uint32_t *live = &clusters->leaf_live[nr / TS_LEAF_CLUSTERS];

	if (ts_add_relaxed(live, (uint32_t)by) + (uint32_t)by == 0)
		ts_add_relaxed(&clusters->n_empty, 1);
}

static void set_words(const struct ts_clusters *clusters,
		      struct ts_cluster *cluster, ts_obj page)
{
	cluster->words = ts_pool_addr(clusters->pool, page);
	cluster->note = ts_pool_page_note(clusters->pool, page);
}

void ts_cluster_open(struct ts_clusters *clusters, uint64_t nr,
		     struct ts_cluster *ret_cluster)
{
	uint32_t *leaf, page;

	assert(nr < clusters->n_clusters);
	*ret_cluster = (struct ts_cluster){
		.nr = nr,
		.stripe = &clusters->stripes[nr % TS_STRIPES],
	};
	ts_lock(&ret_cluster->stripe->lock);
	leaf = leaf_at(clusters, nr / TS_LEAF_CLUSTERS, &ret_cluster->closing);
	if (!leaf)
		return;
	ret_cluster->entry = &leaf[nr % TS_LEAF_CLUSTERS];
	page = ts_load_relaxed(ret_cluster->entry);
	if (page)
		set_words(clusters, ret_cluster, ts_pool_page(page - 1));
}

void ts_cluster_close(struct ts_cluster *cluster)
{
	ts_unlock(&cluster->stripe->lock);
}

void ts_cluster_attach(struct ts_clusters *clusters,
		       struct ts_cluster *cluster, ts_obj page)
{
	assert(cluster->entry && !cluster->words && !cluster->closing);
	set_words(clusters, cluster, page);
	memset(cluster->words, 0, TS_CLUSTER_SLOTS * sizeof(ts_word));
	TS_FAULT_POINT("map: words cleared");
	ts_store_relaxed(cluster->note,
			 TS_NOTE_WORDS | cluster->nr << TS_NOTE_CLUSTER_SHIFT);
	ts_store_release(cluster->entry, ts_pool_page_index(page) + 1);
	TS_FAULT_POINT("map: words published");
	count_live(clusters, cluster->nr, 1);
}

ts_obj ts_cluster_detach(struct ts_clusters *clusters,
			 struct ts_cluster *cluster)
{
	ts_obj page = ts_pool_page(ts_load_relaxed(cluster->entry) - 1);

	assert(cluster->words == ts_pool_addr(clusters->pool, page));
	ts_store_release(cluster->entry, 0);
	TS_FAULT_POINT("map: words detached");
	cluster->words = NULL;
	cluster->note = NULL;
	cluster->stripe->seq++;
	count_live(clusters, cluster->nr, -1);
	return page;
}

ts_obj ts_cluster_move(struct ts_clusters *clusters,
		       struct ts_cluster *cluster, ts_obj page)
{
	ts_obj old = ts_pool_page(ts_load_relaxed(cluster->entry) - 1);
	uint64_t note = *cluster->note;

	memcpy(ts_pool_addr(clusters->pool, page), cluster->words,
	       TS_CLUSTER_SLOTS * sizeof(ts_word));
	TS_FAULT_POINT("map: words copied");
	set_words(clusters, cluster, page);
	ts_store_relaxed(cluster->note, note);
	ts_store_release(cluster->entry, ts_pool_page_index(page) + 1);
	TS_FAULT_POINT("map: words moved");
	return old;
}

void ts_cluster_flag(struct ts_cluster *cluster, unsigned slot, ts_word word)
{
	ts_store_relaxed(&cluster->words[slot].bits, word.bits);
	TS_FAULT_POINT("word: flags changed");
}

ts_word ts_cluster_read(struct ts_cluster *cluster, unsigned slot)
{
	ts_word word;

	if (!cluster->words)
		return ts_word_none();
	word = cluster->words[slot];
	/* Only what is stored has a place to lose. */
	if (ts_kind_stored(ts_word_kind(word)) && !ts_word_hot(word))
		ts_cluster_flag(cluster, slot, ts_word_set_hot(word));
	return word;
}

ts_word ts_cluster_publish(struct ts_cluster *cluster, unsigned slot,
			   ts_word word)
{
	ts_word *at = &cluster->words[slot], old = *at;

	/* Release: another process that maps the segment after a kill must
	 * not find a word before what it names.
	 */
	TS_FAULT_POINT("word: about to be published");
	ts_store_release(&at->bits, word.bits);
	TS_FAULT_POINT("word: published");
	ts_store_relaxed(cluster->note,
			 *cluster->note + (ts_word_kind(word) != TS_NONE) -
				 (ts_word_kind(old) != TS_NONE));
	cluster->stripe->seq++;
	return old;
}

/* The first entry of a leaf from @nr on that is set, or @end. */
static uint64_t next_in_leaf(struct ts_clusters *clusters, uint64_t nr,
			     uint64_t end)
{
	struct ts_stripe *stripe = &clusters->stripes[nr % TS_STRIPES];
	const uint32_t *leaf;

	ts_lock(&stripe->lock);
	leaf = leaf_at(clusters, nr / TS_LEAF_CLUSTERS, NULL);
	if (!leaf)
		nr = end;
	while (nr < end && !ts_load_acquire(&leaf[nr % TS_LEAF_CLUSTERS]))
		nr++;
	ts_unlock(&stripe->lock);
	return nr;
}

uint64_t ts_cluster_next(struct ts_clusters *clusters, uint64_t nr,
			 uint64_t end)
{
	while (nr < end) {
		uint64_t i = nr / TS_LEAF_CLUSTERS;
		uint64_t leaf_end = (i + 1) * TS_LEAF_CLUSTERS;

		if (leaf_end > end)
			leaf_end = end;
		/* Most of a large device has no leaves. */
		if (ts_load_relaxed(&clusters->root[i])) {
			nr = next_in_leaf(clusters, nr, leaf_end);
			if (nr < leaf_end)
				return nr;
		}
		nr = leaf_end;
	}
	return end;
}

/* Wait until everybody who holds a stripe now has let go of it. */
static void pass_stripes(struct ts_clusters *clusters)
{
	for (unsigned i = 0; i < TS_STRIPES; i++) {
		ts_lock(&clusters->stripes[i].lock);
		ts_unlock(&clusters->stripes[i].lock);
	}
}

/* Under the leaf lock. Returns whether the leaf is gone. */
static bool close_leaf(struct ts_clusters *clusters, uint32_t i)
{
	uint32_t entry = ts_load_relaxed(&clusters->root[i]);

	if (!entry || ts_load_relaxed(&clusters->leaf_live[i]))
		return false;
	ts_store_release(&clusters->root[i], entry | TS_ROOT_CLOSING);
	TS_FAULT_POINT("map: leaf closing");
	pass_stripes(clusters);
	if (ts_load_relaxed(&clusters->leaf_live[i])) {
		ts_store_release(&clusters->root[i], entry);
		return false;
	}
	ts_store_release(&clusters->root[i], 0);
	TS_FAULT_POINT("map: leaf gone");
	pass_stripes(clusters);
	ts_block_give(clusters->pool->blocks, entry - 1);
	return true;
}

uint32_t *ts_clusters_adopt_leaf(struct ts_clusters *clusters, uint32_t i)
{
	struct ts_blocks *blocks = clusters->pool->blocks;
	uint32_t block = (clusters->root[i] & ~TS_ROOT_CLOSING) - 1;

	if (block >= blocks->n || blocks->meta[block].used ||
	    !ts_block_adopt(blocks, block, TS_CLASS_LEAF))
		return NULL;
	ts_store_release(&clusters->root[i], block + 1);
	TS_FAULT_POINT("recovery: leaf opened");
	blocks->meta[block].used = 1;
	/* It may turn out to be empty. */
	ts_add_relaxed(&clusters->n_empty, 1);
	return ts_block_addr(blocks, block);
}

unsigned ts_clusters_reclaim(struct ts_clusters *clusters)
{
	unsigned done = 0;

	if (!ts_load_relaxed(&clusters->n_empty))
		return 0;
	ts_store_relaxed(&clusters->n_empty, 0);
	ts_lock(&clusters->leaf_lock);
	for (uint32_t i = 0; i < clusters->n_leaves; i++)
		done += close_leaf(clusters, i);
	ts_unlock(&clusters->leaf_lock);
	return done;
}
