/* SPDX-License-Identifier: BSD-3-Clause */
/* pack.h - a segment being filled: records sealed and packed back to back
 *
 *	| record | record | ... | sealed table: the slots of the records | 0 |
 *
 * A pack is filled from memory (the words bear the write mark) or from another
 * segment (cleaning). Data are put where they stay; sealing is done in place
 * and afterwards, by several threads if need be (sealers.h). The segment is
 * written in one transfer, and its records are then published one cluster at a
 * time. A page that was overwritten or discarded meanwhile is simply not
 * published.
 */
#ifndef TS_PACK_H
#define TS_PACK_H

#include "core.h"
#include "spill/spill.h"

#define TS_PACK_RECORDS 8192u
#define TS_PACK_PINNED 8u
/* What a record may take beside its data: its seal, its entry in the table,
 * and what aligns the next one.
 */
#define TS_PACK_EXTRA (TS_RECORD_EXTRA + 8u + TS_WORD_SPILL_ALIGN - 1u)

struct ts_packed {
	uint32_t off, len;
	uint8_t codec;
	ts_word from; /* the spill word it replaces; none: a marked word */
};

struct ts_pack {
	uint8_t *buf;  /* a segment, aligned */
	unsigned mark; /* the write mark of the words it is filled from */
	uint32_t segment;
	uint64_t generation;
	uint32_t used;         /* bytes of the segment */
	uint32_t record_bytes; /* of it, bytes of records */
	uint32_t n;
	uint64_t slot[TS_PACK_RECORDS];
	struct ts_packed record[TS_PACK_RECORDS];
	/* Segments that records were moved from: pinned until published. */
	uint32_t pinned[TS_PACK_PINNED];
	unsigned n_pinned;
	unsigned n_emptied; /* of those, how many will be free then */
	struct ts_transfer transfer;
	uint64_t started; /* ts_stats_start() of its write */
	bool busy;           /* being written */
};

/* Begin to fill a claimed segment. */
void ts_pack_begin(struct ts_pack *pack, uint32_t segment,
		   uint64_t generation);

/* Bytes that further records, each with TS_PACK_EXTRA, may take; 0 when the
 * table is full.
 */
size_t ts_pack_room(const struct ts_pack *pack);

/* Where the data of the next record belongs. What is put there is nothing
 * until it is added.
 */
static inline uint8_t *ts_pack_data(const struct ts_pack *pack)
{
	return pack->buf + pack->used + TS_RECORD_DATA;
}

/* Add a record, the data of which are in place; there must be room. */
void ts_pack_add(struct ts_pack *pack, struct ts_media *media, uint64_t slot,
		 uint8_t codec, unsigned len, ts_word from);

/* Seal the records from @from up to @to. Different ones at once are fine. */
void ts_pack_seal(struct ts_pack *pack, const struct ts_seal *seal,
		  uint32_t from, uint32_t to);

/* Give up a pack to which nothing was added from memory: its segment is free
 * again, and what was to be moved to it stays where it is.
 */
void ts_pack_cancel(struct ts_pack *pack, struct ts_core *core);

/* All records are sealed: seal the table, and make the transfer that writes the
 * segment.
 */
void ts_pack_end(struct ts_pack *pack, const struct ts_spill *spill);

/* The segment is written: publish its records and drop what they replace.
 * Returns how many pages have left memory for it.
 */
unsigned ts_pack_publish(struct ts_pack *pack, struct ts_core *core);

/* Writing failed: take the marks away again, and leave the segment alone. */
void ts_pack_fail(struct ts_pack *pack, struct ts_core *core);

#endif
