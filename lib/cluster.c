/* SPDX-License-Identifier: BSD-3-Clause */
/* cluster.c - the map: words of slots, 512 to a cluster
 *
 * Entries of root and leaves are written under a lock and read without one,
 * so they are atomic: a release store pairs with the acquire load of whoever
 * follows it into the leaf. A leaf entry is written only under its cluster's
 * stripe.
 */
#include "cluster.h"
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
	if (!clusters->stripes)
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
	if (!clusters->stripes)
		return;
	for (unsigned i = 0; i < TS_STRIPES; i++)
		pthread_mutex_destroy(&clusters->stripes[i].lock);
	pthread_mutex_destroy(&clusters->leaf_lock);
	free(clusters->stripes);
	clusters->stripes = NULL;
}

static uint32_t *leaf_at(const struct ts_clusters *clusters, uint64_t i)
{
	uint32_t block = ts_load_acquire(&clusters->root[i]);

	return block ? ts_block_addr(clusters->pool->blocks, block - 1) : NULL;
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
	ts_store_release(&clusters->root[i], block + 1);
	return 0;
}

int ts_cluster_prepare(struct ts_clusters *clusters, uint64_t nr)
{
	uint64_t i = nr / TS_LEAF_CLUSTERS;
	int err = 0;

	assert(nr < clusters->n_clusters);
	if (leaf_at(clusters, i))
		return 0;
	ts_lock(&clusters->leaf_lock);
	if (!leaf_at(clusters, i))
		err = new_leaf(clusters, i);
	ts_unlock(&clusters->leaf_lock);
	return err;
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
	leaf = leaf_at(clusters, nr / TS_LEAF_CLUSTERS);
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
	assert(cluster->entry && !cluster->words);
	set_words(clusters, cluster, page);
	memset(cluster->words, 0, TS_CLUSTER_SLOTS * sizeof(ts_word));
	ts_store_relaxed(cluster->note,
			 TS_NOTE_WORDS | cluster->nr << TS_NOTE_CLUSTER_SHIFT);
	ts_store_release(cluster->entry, ts_pool_page_index(page) + 1);
}

ts_obj ts_cluster_detach(struct ts_clusters *clusters,
			 struct ts_cluster *cluster)
{
	ts_obj page = ts_pool_page(ts_load_relaxed(cluster->entry) - 1);

	assert(cluster->words == ts_pool_addr(clusters->pool, page));
	ts_store_release(cluster->entry, 0);
	cluster->words = NULL;
	cluster->note = NULL;
	cluster->stripe->seq++;
	return page;
}

ts_obj ts_cluster_move(struct ts_clusters *clusters,
		       struct ts_cluster *cluster, ts_obj page)
{
	ts_obj old = ts_pool_page(ts_load_relaxed(cluster->entry) - 1);
	uint64_t note = *cluster->note;

	memcpy(ts_pool_addr(clusters->pool, page), cluster->words,
	       TS_CLUSTER_SLOTS * sizeof(ts_word));
	set_words(clusters, cluster, page);
	ts_store_relaxed(cluster->note, note);
	ts_store_release(cluster->entry, ts_pool_page_index(page) + 1);
	return old;
}

ts_word ts_cluster_read(struct ts_cluster *cluster, unsigned slot)
{
	ts_word *at, hot;

	if (!cluster->words)
		return ts_word_none();
	at = &cluster->words[slot];
	hot = ts_word_set_hot(*at);
	/* Only what is stored has a place to lose. */
	if (ts_kind_stored(ts_word_kind(hot)) && hot.bits != at->bits)
		ts_store_relaxed(&at->bits, hot.bits);
	return hot;
}

ts_word ts_cluster_publish(struct ts_cluster *cluster, unsigned slot,
			   ts_word word)
{
	ts_word *at = &cluster->words[slot], old = *at;

	/* Release: another process that maps the segment after a kill must
	 * not find a word before what it names.
	 */
	ts_store_release(&at->bits, word.bits);
	ts_store_relaxed(cluster->note,
			 *cluster->note + (ts_word_kind(word) != TS_NONE) -
				 (ts_word_kind(old) != TS_NONE));
	cluster->stripe->seq++;
	return old;
}

uint64_t ts_cluster_next(const struct ts_clusters *clusters, uint64_t nr,
			 uint64_t end)
{
	while (nr < end) {
		uint64_t i = nr / TS_LEAF_CLUSTERS;
		const uint32_t *leaf = leaf_at(clusters, i);
		uint64_t leaf_end = (i + 1) * TS_LEAF_CLUSTERS;

		if (leaf_end > end)
			leaf_end = end;
		for (; leaf && nr < leaf_end; nr++)
			if (ts_load_acquire(&leaf[nr % TS_LEAF_CLUSTERS]))
				return nr;
		nr = leaf_end;
	}
	return end;
}
