/* SPDX-License-Identifier: BSD-3-Clause */
/* backend_word.c - pages that are all in their word: none, zero and fill */
#include "backend.h"

static void restore_zero(struct ts_media *media, struct ts_reading *reading,
			 uint64_t mask)
{
	for (; mask; mask &= mask - 1)
		ts_page_fill(ts_reading_page(reading, ts_batch_first(mask)),
			     0);
}

const struct ts_backend ts_backend_none = {
	.kind = TS_NONE,
	.name = "none",
	.restore = restore_zero,
	.slots = TS_N_STATS,
};

static int place_zero(struct ts_media *media, struct ts_batch *batch)
{
	for (uint64_t m = batch->todo & batch->repeats; m; m &= m - 1) {
		unsigned i = ts_batch_first(m);

		if (!batch->pattern[i])
			ts_batch_place(batch, i, ts_word_zero());
	}
	return 0;
}

const struct ts_backend ts_backend_zero = {
	.kind = TS_ZERO,
	.name = "zero",
	.place = place_zero,
	.restore = restore_zero,
	.slots = TS_STAT_zero_slots,
};

static int place_fill(struct ts_media *media, struct ts_batch *batch)
{
	for (uint64_t m = batch->todo & batch->repeats; m; m &= m - 1) {
		unsigned i = ts_batch_first(m);
		ts_word word;

		if (ts_word_fill(batch->pattern[i], &word))
			ts_batch_place(batch, i, word);
	}
	return 0;
}

static void restore_fill(struct ts_media *media, struct ts_reading *reading,
			 uint64_t mask)
{
	for (; mask; mask &= mask - 1) {
		unsigned i = ts_batch_first(mask);

		ts_page_fill(ts_reading_page(reading, i),
			     ts_word_pattern(reading->word[i]));
	}
}

const struct ts_backend ts_backend_fill = {
	.kind = TS_FILL,
	.name = "fill",
	.place = place_fill,
	.restore = restore_fill,
	.slots = TS_STAT_fill_slots,
};
