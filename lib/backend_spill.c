/* SPDX-License-Identifier: BSD-3-Clause */
/* backend_spill.c - pages in the spill file, as seen by a request
 *
 * While the cluster is locked, the segment is pinned and its generation
 * noted; then the records are read without any lock. Pages get here by the
 * spiller, never by a batch.
 */
#include "backend.h"
#include "spill/spill.h"

#include <errno.h>
#include <string.h>

static void copy(struct ts_media *media, struct ts_reading *reading,
		 unsigned i)
{
	uint64_t generation = ts_segment_pin(
		&media->spill->segments, ts_word_segment(reading->word[i]));

	memcpy(ts_reading_scratch(reading, i), &generation,
	       sizeof(generation));
}

static void begin(struct ts_reading *reading, unsigned i,
		  struct ts_fetch *ret_fetch)
{
	ts_word word = reading->word[i];

	*ret_fetch = (struct ts_fetch){
		.segment = ts_word_segment(word),
		.off = ts_word_spill_off(word),
		.len = ts_word_len(word),
		.slot = reading->slot + i,
		.ret_data = ts_reading_scratch(reading, i),
	};
	memcpy(&ret_fetch->generation, ts_reading_scratch(reading, i),
	       sizeof(ret_fetch->generation));
}

static int finish(struct ts_media *media, struct ts_reading *reading,
		  unsigned i, const struct ts_fetch *fetch)
{
	ts_segment_unpin(&media->spill->segments, fetch->segment);
	if (fetch->ret_error && fetch->ret_error != -EBADMSG)
		ts_stats_add(&media->stats, TS_STAT_spill_errors, 1);
	if (fetch->ret_error)
		return fetch->ret_error;
	return ts_codec_restore(reading->decoder, fetch->ret_codec,
				fetch->ret_data, fetch->len,
				ts_reading_page(reading, i));
}

static void restore(struct ts_media *media, struct ts_reading *reading,
		    uint64_t mask)
{
	ts_stats_add(&media->stats, TS_STAT_spill_read_pages,
		     __builtin_popcountll(mask));
	while (mask) {
		struct ts_fetch fetch[TS_IO_DEPTH];
		uint64_t start = ts_stats_start();
		unsigned which[TS_IO_DEPTH], n = 0;

		for (; mask && n < TS_IO_DEPTH; mask &= mask - 1) {
			which[n] = ts_batch_first(mask);
			begin(reading, which[n], &fetch[n]);
			n++;
		}
		ts_spill_fetch(media->spill, n, fetch);
		ts_stats_took(&media->stats, TS_HIST_spill_read, start, 1);
		for (unsigned k = 0; k < n; k++)
			if (finish(media, reading, which[k], &fetch[k]))
				reading->bad |= 1ull << which[k];
	}
}

static void drop(struct ts_media *media, unsigned n, const ts_word *word)
{
	for (unsigned i = 0; i < n; i++) {
		ts_segment_died(&media->spill->segments,
				ts_word_segment(word[i]),
				ts_word_len(word[i]) + TS_RECORD_EXTRA);
		ts_dict_ref(&media->codec.dicts, ts_word_codec(word[i]), -1);
	}
}

const struct ts_backend ts_backend_spill = {
	.kind = TS_SPILL,
	.name = "spill",
	.copy = copy,
	.restore = restore,
	.drop = drop,
	.slots = TS_STAT_spill_slots,
};
