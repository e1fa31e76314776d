/* SPDX-License-Identifier: BSD-3-Clause */
/* account.c - what a change of words does to the gauges, counted in one go */
#include "account.h"

void ts_change_word(struct ts_change *change, ts_word word, int by)
{
	enum ts_kind kind = ts_word_kind(word);

	change->slots[kind] += by;
	if (ts_kind_stored(kind))
		change->bytes[kind] += by * (int)ts_word_len(word);
}

void ts_change_apply(struct ts_media *media, const struct ts_change *change)
{
	struct ts_stats *stats = &media->stats;

	ts_stats_begin(stats);
	for (unsigned kind = TS_NONE + 1; kind < TS_KINDS; kind++)
		if (ts_backend_of[kind])
			ts_stats_move(stats, ts_backend_of[kind]->slots,
				      change->slots[kind]);
	ts_stats_move(stats, TS_STAT_stored_bytes,
		      change->bytes[TS_RAM] + change->bytes[TS_RAW]);
	ts_stats_move(stats, TS_STAT_spill_bytes, change->bytes[TS_SPILL]);
	ts_stats_end(stats);
}
