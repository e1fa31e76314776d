/* SPDX-License-Identifier: BSD-3-Clause */
/* cluster.h - the map: words of slots, 512 to a cluster
 *
 * A cluster's words are one page of the pool. A directory of two levels finds
 * it: a root of 32-bit entries for 32 GiB of device each, leaves of 32-bit
 * page numbers for 2 MiB each. 8 PiB take a root of 1 MiB; leaves and word
 * pages appear with the first write. No tree, no hash: the cost does not grow
 * with the size of the device, nor with what it holds.
 *
 * Lifetime  A cluster is there only while one of its slots is. Its lock lives
 *           outside it, in a table of stripes, and is taken before the
 *           directory is read: nobody can hold words that a concurrent
 *           discard frees. A leaf goes away some time after its last
 *           cluster did; see ts_clusters_reclaim().
 * Truth     The root, leaves and words live in the shared segment, and every
 *           change is one atomic store. Live counts can be rebuilt.
 * Locks     Stripes are the outermost lock of the engine; hold one at a time.
 */
#ifndef TS_CLUSTER_H
#define TS_CLUSTER_H

#include "pool.h"

#define TS_CLUSTER_SLOTS 512u
#define TS_LEAF_CLUSTERS (TS_BLOCK_BYTES / 4)
#define TS_STRIPES 1024u
#define TS_CLASS_LEAF UINT16_MAX /* of a block, beside the pool's classes */
#define TS_ROOT_CLOSING (1u << 31) /* flag of a root entry; see cluster.c */

struct ts_stripe {
	_Alignas(64) pthread_mutex_t lock;
	uint64_t seq; /* changes of words, under the lock */
};

struct ts_clusters {
	struct ts_pool *pool;
	uint32_t *root; /* block of the leaf + 1, or 0; and a flag */
	uint64_t n_clusters;
	uint32_t n_leaves;
	uint32_t *leaf_live; /* clusters in each leaf, relaxed */
	uint32_t n_empty;    /* leaves that may be empty: a hint, relaxed */
	pthread_mutex_t leaf_lock; /* making a leaf; a leaf lock otherwise */
	struct ts_stripe *stripes;
};

/* An open cluster: its stripe is locked until ts_cluster_close(). */
struct ts_cluster {
	uint64_t nr;
	struct ts_stripe *stripe;
	uint32_t *entry; /* in the leaf, or NULL */
	bool closing;    /* the leaf may be going away: attach nothing */
	ts_word *words;  /* or NULL: all none */
	uint64_t *note;  /* of the page of words; if words */
};

/* The note on a page of words: its cluster, and how many slots are not none.
 * Bit 63 tells it from the note on a raw page, which is a slot.
 */
#define TS_NOTE_WORDS (1ull << 63)
#define TS_NOTE_LIVE 1023u
#define TS_NOTE_CLUSTER_SHIFT 10

/* Bytes of the root for a device of @n_slots. */
size_t ts_clusters_root_bytes(uint64_t n_slots);

/* @root is zeroed shared memory. Returns 0 or -ENOMEM. */
int ts_clusters_init(struct ts_clusters *clusters, struct ts_pool *pool,
		     void *root, uint64_t n_slots);
void ts_clusters_fini(struct ts_clusters *clusters);

/* Make sure that cluster @nr can be given words: its leaf exists. Call before
 * opening it; and again, should the leaf be gone or closing by then. May wait
 * for the keeper. Returns 0 or -ENOSPC.
 */
int ts_cluster_prepare(struct ts_clusters *clusters, uint64_t nr);

void ts_cluster_open(struct ts_clusters *clusters, uint64_t nr,
		     struct ts_cluster *ret_cluster);
void ts_cluster_close(struct ts_cluster *cluster);

/* Give an open cluster without words a page for them; the page then belongs
 * to the cluster. Needs ts_cluster_prepare().
 */
void ts_cluster_attach(struct ts_clusters *clusters,
		       struct ts_cluster *cluster, ts_obj page);

/* Slots of an open cluster that are not none. */
static inline unsigned ts_cluster_live(const struct ts_cluster *cluster)
{
	return cluster->words ? *cluster->note & TS_NOTE_LIVE : 0;
}

/* Move an open cluster's words to another page. Returns the old one, which
 * the caller frees after closing.
 */
ts_obj ts_cluster_move(struct ts_clusters *clusters,
		       struct ts_cluster *cluster, ts_obj page);

/* Take the page of words away from an open cluster: all its slots are none
 * from now on. The caller drops what the words name and frees the page, both
 * after closing.
 */
ts_obj ts_cluster_detach(struct ts_clusters *clusters,
			 struct ts_cluster *cluster);

/* Read one word of an open cluster, and set it hot. Returns it as it was. */
ts_word ts_cluster_read(struct ts_cluster *cluster, unsigned slot);

/* Set or clear hot and mark of one word of an open cluster: the page stays. */
void ts_cluster_flag(struct ts_cluster *cluster, unsigned slot, ts_word word);

/* Replace one word of an open cluster. Returns the old one. */
ts_word ts_cluster_publish(struct ts_cluster *cluster, unsigned slot,
			   ts_word word);

/* Number of the first cluster from @nr on that may have words, or @end:
 * whoever wrote before the call is seen. Takes stripes, one at a time.
 */
uint64_t ts_cluster_next(struct ts_clusters *clusters, uint64_t nr,
			 uint64_t end);

/* For recovery: take leaf @i of the root over. Returns its entries, or NULL
 * when there can be none.
 */
uint32_t *ts_clusters_adopt_leaf(struct ts_clusters *clusters, uint32_t i);

/* Give the blocks of empty leaves back. Takes the stripes one after the other;
 * hold none. Returns how many.
 */
unsigned ts_clusters_reclaim(struct ts_clusters *clusters);

/* The words of a detached page. */
static inline ts_word *ts_cluster_words(const struct ts_clusters *clusters,
					ts_obj page)
{
	return ts_pool_addr(clusters->pool, page);
}

#endif
