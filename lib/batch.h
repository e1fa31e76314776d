/* SPDX-License-Identifier: BSD-3-Clause */
/* batch.h - up to 64 pages at a time: prepare outside, publish, drop after */
#ifndef TS_BATCH_H
#define TS_BATCH_H

#include "core.h"

/* Start a batch of n pages (1..TS_BATCH_PAGES, all of one cluster) at @data,
 * and classify them.
 */
void ts_batch_init(struct ts_batch *batch, uint64_t slot, unsigned n,
		   const void *data);

/* Store the pages; their words are ready to be published. Returns 0, or
 * -ENOSPC with nothing stored. May wait for an encoder and for the keeper.
 */
int ts_batch_prepare(struct ts_core *core, struct ts_batch *batch);

/* Free what a prepared batch stored, instead of publishing it. */
void ts_batch_abandon(struct ts_core *core, struct ts_batch *batch);

/* Publish a prepared batch and drop what it replaces.
 *
 * @seq  if not NULL, the cluster's stripe must still have that sequence number
 * Returns 0, -EAGAIN (the sequence has moved on) or -ENOSPC (no room for the
 * words); after an error the batch is still prepared.
 */
int ts_batch_publish(struct ts_core *core, struct ts_batch *batch,
		     const uint64_t *seq);

/* Make the slots [first, first + n) of one cluster none, and drop what they
 * held. Never fails.
 */
void ts_batch_discard(struct ts_core *core, uint64_t cluster, unsigned first,
		      unsigned n);

#endif
