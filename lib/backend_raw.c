/* SPDX-License-Identifier: BSD-3-Clause */
/* backend_raw.c - pages that do not compress, kept as they are in the pool
 *
 * A raw page costs exactly 4 KiB: its check is in its word, and its owner in
 * the note that the pool keeps on every page.
 */
#include "backend.h"
#include "fault.h"
#include "util/atomic.h"

#include <errno.h>
#include <string.h>

uint32_t ts_raw_store(struct ts_pool *pool, ts_obj obj, const void *page,
		      uint64_t slot)
{
	memcpy(ts_pool_addr(pool, obj), page, 4096);
	TS_FAULT_POINT("object: raw page written");
	ts_store_relaxed(ts_pool_page_note(pool, obj), slot);
	return ts_codec_check(page, 4096, slot);
}

static int place(struct ts_media *media, struct ts_batch *batch)
{
	unsigned n = (unsigned)__builtin_popcountll(batch->todo), k = 0;
	uint16_t bytes[TS_BATCH_PAGES];
	ts_obj obj[TS_BATCH_PAGES];
	int err;

	for (unsigned i = 0; i < n; i++)
		bytes[i] = 4096;
	err = ts_media_alloc(media, n, bytes, obj);
	if (err)
		return err;
	for (uint64_t m = batch->todo; m; m &= m - 1) {
		unsigned i = ts_batch_first(m);
		uint32_t check = ts_raw_store(&media->pool, obj[k],
					      batch->page[i], batch->slot + i);

		ts_batch_place(batch, i, ts_word_raw(obj[k], check));
		k++;
	}
	return 0;
}

int ts_raw_put(struct ts_media *media, struct ts_batch *batch, unsigned i,
	       const void *page)
{
	uint16_t bytes = 4096;
	ts_obj obj;
	int err = ts_pool_alloc(&media->pool, 1, &bytes, &obj);

	if (err)
		return err;
	ts_batch_place(batch, i,
		       ts_word_raw(obj, ts_raw_store(&media->pool, obj, page,
						     batch->slot + i)));
	return 0;
}

void ts_raw_copy(struct ts_media *media, struct ts_reading *reading,
		 unsigned i)
{
	memcpy(ts_reading_page(reading, i),
	       ts_pool_addr(&media->pool, ts_word_obj(reading->word[i])), 4096);
}

void ts_raw_restore(struct ts_media *media, struct ts_reading *reading,
		    uint64_t mask)
{
	for (; mask; mask &= mask - 1) {
		unsigned i = ts_batch_first(mask);

		if (ts_codec_check(ts_reading_page(reading, i), 4096,
				   reading->slot + i) !=
		    ts_word_check(reading->word[i]))
			reading->bad |= 1ull << i;
	}
}

uint64_t ts_raw_owner(struct ts_pool *pool, ts_obj obj)
{
	return ts_load_relaxed(ts_pool_page_note(pool, obj));
}

static void move(struct ts_media *media, ts_word word, ts_obj to)
{
	ts_obj from = ts_word_obj(word);

	memcpy(ts_pool_addr(&media->pool, to),
	       ts_pool_addr(&media->pool, from), 4096);
	ts_store_relaxed(ts_pool_page_note(&media->pool, to),
			 ts_load_relaxed(
				 ts_pool_page_note(&media->pool, from)));
}

const struct ts_backend ts_backend_raw = {
	.kind = TS_RAW,
	.name = "raw",
	.place = place,
	.copy = ts_raw_copy,
	.restore = ts_raw_restore,
	.drop = ts_ram_drop,
	.move = move,
	.slots = TS_STAT_raw_slots,
};
