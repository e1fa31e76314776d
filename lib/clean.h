/* SPDX-License-Identifier: BSD-3-Clause */
/* clean.h - make free segments out of those with few live records */
#ifndef TS_CLEAN_H
#define TS_CLEAN_H

#include "pack.h"

/* What cleaning works with: the spiller's engine and memory. */
struct ts_cleaner {
	struct ts_core *core;
	struct ts_io *io;
	uint8_t *segment_buf; /* a segment, aligned */
	uint64_t *slot; /* TS_PACK_RECORDS of them */
};

/* Move what lives in the emptiest segments into an empty pack, until that is full
 * or each one left is more than 15/16 live. Those that were moved whole become
 * free when the pack is published. Returns how many, also in the pack's
 * n_emptied.
 */
unsigned ts_clean_into(struct ts_cleaner *cleaner, struct ts_pack *pack);

/* Tell the device which segments have become free. */
void ts_trim_free_segments(struct ts_spill *spill);

#endif
