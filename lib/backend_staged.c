/* SPDX-License-Identifier: BSD-3-Clause */
/* backend_staged.c - accept pages as they are, to be compressed later
 *
 * Only while that gains something and can harm nobody: there are frames, and
 * there is room in the budget for all of them. Otherwise the next backend
 * takes the page, and compresses it now.
 */
#include "stage.h"
#include "fault.h"

static int place(struct ts_media *media, struct ts_batch *batch)
{
	/* Wide patterns cost less to store than to copy. */
	uint64_t which = batch->todo & ~batch->repeats;
	unsigned n = (unsigned)__builtin_popcountll(which), k = 0;
	uint16_t bytes[TS_BATCH_PAGES];
	ts_obj frame[TS_BATCH_PAGES];

	if (!n || !ts_stage_may_take(media, n) ||
	    !ts_stage_reserve(media->stage, n))
		return 0;
	for (unsigned i = 0; i < n; i++)
		bytes[i] = 4096;
	/* Not waiting for the keeper: compressed, they may need none. */
	if (ts_pool_alloc(&media->pool, n, bytes, frame)) {
		ts_stage_release(media->stage, n);
		return 0;
	}
	batch->staged = which;
	for (; which; which &= which - 1) {
		unsigned i = ts_batch_first(which);
		uint32_t check = ts_raw_store(&media->pool, frame[k],
					      batch->page[i], batch->slot + i);

		ts_batch_place(batch, i, ts_word_staged(frame[k], check));
		k++;
	}
	TS_FAULT_POINT("stage: frames filled");
	ts_stats_add(&media->stats, TS_STAT_staged_pages, n);
	return 0;
}

const struct ts_backend ts_backend_staged = {
	.kind = TS_STAGED,
	.name = "staged",
	.place = place,
	.copy = ts_raw_copy,
	.restore = ts_raw_restore,
	.slots = TS_STAT_staged_slots,
};
