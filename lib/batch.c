/* SPDX-License-Identifier: BSD-3-Clause */
/* batch.c - up to 64 pages at a time: prepare outside, publish, drop after
 *
 * New data is complete before a word changes, and old data is freed after the
 * cluster is unlocked: a reader sees the old page or the new one, and a write
 * that fails has changed nothing.
 */
#include "batch.h"
#include "account.h"
#include "fault.h"
#include "stage.h"
#include "util/lock.h"

#include <errno.h>
#include <string.h>

_Static_assert(TS_CLUSTER_SLOTS % TS_BATCH_PAGES == 0,
	       "batches of a long write meet cluster borders");
_Static_assert(TS_CLUSTER_SLOTS <= TS_POOL_BULK,
	       "a cluster is dropped in one go");

void ts_batch_init(struct ts_batch *batch, uint64_t slot, unsigned n,
		   const void *data)
{
	assert(n >= 1 && n <= TS_BATCH_PAGES);
	batch->n = n;
	batch->slot = slot;
	batch->encoder = NULL;
	batch->repeats = 0;
	batch->staged = 0;
	batch->todo = n < 64 ? (1ull << n) - 1 : ~0ull;
	for (unsigned i = 0; i < n; i++) {
		batch->page[i] = (const uint8_t *)data + (size_t)i * 4096;
		batch->word[i] = ts_word_none();
		if (ts_page_repeats(batch->page[i], &batch->pattern[i]))
			batch->repeats |= 1ull << i;
	}
}

int ts_batch_prepare(struct ts_core *core, struct ts_batch *batch)
{
	struct ts_lend *encoders = &core->media.codec.encoders;
	int err = 0;

	for (unsigned i = 0; ts_backends[i] && batch->todo && !err; i++) {
		if (!ts_backends[i]->place)
			continue;
		/* The cheap kinds come first; most batches go on. */
		if (ts_backends[i]->encodes && !batch->encoder)
			batch->encoder =
				ts_codec_encoder(&core->media.codec);
		err = ts_backends[i]->place(&core->media, batch);
	}
	if (batch->encoder)
		ts_return(encoders, batch->encoder);
	batch->encoder = NULL;
	if (err)
		ts_batch_abandon(core, batch);
	else
		assert(!batch->todo);
	return err;
}

void ts_batch_abandon(struct ts_core *core, struct ts_batch *batch)
{
	ts_media_drop(&core->media, batch->n, batch->word);
	if (batch->staged)
		ts_stage_abandon(&core->media, batch);
	batch->staged = 0;
}

static void free_words(struct ts_core *core, ts_obj page)
{
	ts_pool_free(&core->media.pool, 1, &page);
	ts_stats_add(&core->media.stats, TS_STAT_clusters, -1);
}

/* Close a cluster; one whose last slot died goes away. */
static void close_cluster(struct ts_core *core, struct ts_cluster *cluster)
{
	bool dead = cluster->words && !ts_cluster_live(cluster);
	ts_obj page;

	if (dead)
		page = ts_cluster_detach(&core->clusters, cluster);
	ts_cluster_close(cluster);
	if (dead)
		free_words(core, page);
}

/* Open a cluster that has words or can be given some. */
static int open_with_leaf(struct ts_core *core, uint64_t nr,
			  struct ts_cluster *ret_cluster)
{
	for (;;) {
		int err = ts_cluster_prepare(&core->clusters, nr);

		if (err)
			return err;
		ts_cluster_open(&core->clusters, nr, ret_cluster);
		if (ret_cluster->words ||
		    (ret_cluster->entry && !ret_cluster->closing))
			return 0;
		ts_cluster_close(ret_cluster);
	}
}

/* Open a cluster that has words; make them if it has none. */
static int open_for_write(struct ts_core *core, uint64_t nr,
			  struct ts_cluster *ret_cluster)
{
	uint16_t page_bytes = 4096;
	ts_obj page;
	int err;

	err = open_with_leaf(core, nr, ret_cluster);
	if (err || ret_cluster->words)
		return err;

	/* Allocating may wait, so not under the lock. */
	ts_cluster_close(ret_cluster);
	err = ts_media_alloc(&core->media, 1, &page_bytes, &page);
	if (err)
		return err;
	err = open_with_leaf(core, nr, ret_cluster);
	if (!err && !ret_cluster->words) {
		ts_cluster_attach(&core->clusters, ret_cluster, page);
		ts_stats_add(&core->media.stats, TS_STAT_clusters, 1);
	} else {
		ts_pool_free(&core->media.pool, 1, &page);
	}
	return err;
}

int ts_batch_publish(struct ts_core *core, struct ts_batch *batch,
		     const uint64_t *seq)
{
	unsigned first = batch->slot % TS_CLUSTER_SLOTS;
	struct ts_change change = { 0 };
	ts_word old[TS_BATCH_PAGES];
	struct ts_cluster cluster;
	int err;

	assert(first + batch->n <= TS_CLUSTER_SLOTS);
	TS_FAULT_POINT("batch: prepared");
	err = open_for_write(core, batch->slot / TS_CLUSTER_SLOTS, &cluster);
	if (err)
		return err;
	if (seq && cluster.stripe->seq != *seq) {
		err = -EAGAIN;
	} else {
		for (unsigned i = 0; i < batch->n; i++) {
			old[i] = ts_cluster_publish(&cluster, first + i,
						    batch->word[i]);
			ts_change_word(&change, old[i], -1);
			ts_change_word(&change, batch->word[i], 1);
		}
	}
	close_cluster(core, &cluster);
	if (err)
		return err;
	TS_FAULT_POINT("batch: published");
	ts_change_apply(&core->media, &change);
	if (batch->staged)
		ts_stage_submit(core->media.stage, batch);
	ts_media_drop(&core->media, batch->n, old);
	TS_FAULT_POINT("batch: old pages dropped");
	return 0;
}

static void count_dropped(struct ts_core *core, unsigned n,
			  const ts_word *word)
{
	struct ts_change change = { 0 };

	for (unsigned i = 0; i < n; i++)
		ts_change_word(&change, word[i], -1);
	ts_change_apply(&core->media, &change);
	ts_stats_add(&core->media.stats, TS_STAT_discarded_pages,
		     (int64_t)n + change.slots[TS_NONE]);
}

/* The whole cluster: its page of words is taken away and read at leisure. */
static void discard_cluster(struct ts_core *core, struct ts_cluster *cluster)
{
	ts_obj page = ts_cluster_detach(&core->clusters, cluster);
	const ts_word *words = ts_cluster_words(&core->clusters, page);

	ts_cluster_close(cluster);
	count_dropped(core, TS_CLUSTER_SLOTS, words);
	ts_media_drop(&core->media, TS_CLUSTER_SLOTS, words);
	TS_FAULT_POINT("batch: discarded cluster dropped");
	free_words(core, page);
}

static void discard_slots(struct ts_core *core, struct ts_cluster *cluster,
			  unsigned first, unsigned n)
{
	ts_word old[TS_CLUSTER_SLOTS];

	for (unsigned i = 0; i < n; i++) {
		old[i] = cluster->words[first + i];
		if (ts_word_kind(old[i]) != TS_NONE)
			ts_cluster_publish(cluster, first + i, ts_word_none());
	}
	close_cluster(core, cluster);
	count_dropped(core, n, old);
	ts_media_drop(&core->media, n, old);
	TS_FAULT_POINT("batch: discarded slots dropped");
}

void ts_batch_discard(struct ts_core *core, uint64_t nr, unsigned first,
		      unsigned n)
{
	struct ts_cluster cluster;

	assert(first + n <= TS_CLUSTER_SLOTS);
	ts_cluster_open(&core->clusters, nr, &cluster);
	if (!cluster.words)
		ts_cluster_close(&cluster);
	else if (n == TS_CLUSTER_SLOTS)
		discard_cluster(core, &cluster);
	else
		discard_slots(core, &cluster, first, n);
}
