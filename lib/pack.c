/* SPDX-License-Identifier: BSD-3-Clause */
/* pack.c - a segment being filled: records sealed and packed back to back */
#include "pack.h"
#include "account.h"
#include "fault.h"

#include <string.h>

/* The table is sealed like a record of no slot. */
#define TABLE_SLOT UINT64_MAX
#define TABLE_BYTES(n) ((n) * 8u + TS_RECORD_EXTRA)

void ts_pack_begin(struct ts_pack *pack, uint32_t segment,
		   uint64_t generation)
{
	pack->segment = segment;
	pack->generation = generation;
	pack->used = 0;
	pack->record_bytes = 0;
	pack->n = 0;
	pack->n_pinned = 0;
	pack->n_emptied = 0;
}

static void end_pack(struct ts_pack *pack, struct ts_segments *segments)
{
	for (unsigned i = 0; i < pack->n_pinned; i++)
		ts_segment_unpin(segments, pack->pinned[i]);
	pack->n_pinned = 0;
	pack->n_emptied = 0;
	pack->busy = false;
}

void ts_pack_cancel(struct ts_pack *pack, struct ts_core *core)
{
	struct ts_segments *segments = &core->media.spill->segments;

	for (unsigned i = 0; i < pack->n; i++)
		assert(ts_word_kind(pack->record[i].from) == TS_SPILL);
	/* Nothing lives in it, so this frees it. */
	ts_segment_seal(segments, pack->segment, 0, 0);
	end_pack(pack, segments);
}

size_t ts_pack_room(const struct ts_pack *pack)
{
	if (pack->n == TS_PACK_RECORDS)
		return 0;
	return TS_SEGMENT_BYTES - pack->used - TABLE_BYTES(pack->n);
}

void ts_pack_add(struct ts_pack *pack, struct ts_media *media, uint64_t slot,
		 uint8_t codec, unsigned len, ts_word from)
{
	uint32_t end = pack->used + len + TS_RECORD_EXTRA;
	uint32_t next = (end + TS_WORD_SPILL_ALIGN - 1) / TS_WORD_SPILL_ALIGN *
			TS_WORD_SPILL_ALIGN;

	assert(len + TS_PACK_EXTRA <= ts_pack_room(pack));
	memset(pack->buf + end, 0, next - end);
	pack->slot[pack->n] = slot;
	pack->record[pack->n] = (struct ts_packed){
		.off = pack->used,
		.len = len,
		.codec = codec,
		.from = from,
	};
	/* While the word that it comes from still holds the generation. */
	ts_dict_ref(&media->codec.dicts, codec, 1);
	pack->record_bytes += len + TS_RECORD_EXTRA;
	pack->used = next;
	pack->n++;
	TS_FAULT_POINT("pack: record added");
}

void ts_pack_seal(struct ts_pack *pack, const struct ts_seal *seal,
		  uint32_t from, uint32_t to)
{
	for (uint32_t i = from; i < to; i++) {
		const struct ts_packed *r = &pack->record[i];
		struct ts_place place = { pack->generation, pack->slot[i],
					  r->off };
		uint8_t *record = pack->buf + r->off;

		ts_seal_record(seal, &place, r->codec, record + TS_RECORD_DATA,
			       r->len, record);
	}
}

void ts_pack_end(struct ts_pack *pack, const struct ts_spill *spill)
{
	struct ts_place place = { pack->generation, TABLE_SLOT, pack->used };
	uint32_t end = pack->used + TABLE_BYTES(pack->n);
	uint32_t align = spill->file.align;
	uint32_t bytes = (end + align - 1) / align * align;

	ts_seal_record(&spill->seal, &place, 0, pack->slot, pack->n * 8,
		       pack->buf + pack->used);
	memset(pack->buf + end, 0, bytes - end);
	pack->transfer = (struct ts_transfer){
		.buf = pack->buf,
		.bytes = bytes,
		.off = ts_segment_off(pack->segment),
		.write = true,
	};
	pack->busy = true;
	TS_FAULT_POINT("pack: table sealed");
}

/* Where the run of records of one cluster that ends before @end begins. */
static uint32_t run_start(const struct ts_pack *pack, uint32_t end)
{
	uint64_t nr = pack->slot[end - 1] / TS_CLUSTER_SLOTS;
	uint32_t i = end - 1;

	while (i && end - i < TS_POOL_BULK &&
	       pack->slot[i - 1] / TS_CLUSTER_SLOTS == nr)
		i--;
	return i;
}

/* Whether the word is still what the record was made from. */
static bool still_there(const struct ts_pack *pack, ts_word word,
			const struct ts_packed *record)
{
	if (ts_word_kind(record->from) == TS_SPILL)
		return ts_word_set_hot(word).bits ==
		       ts_word_set_hot(record->from).bits;
	return (ts_word_kind(word) == TS_RAM || ts_word_kind(word) == TS_RAW) &&
	       ts_word_mark(word) == pack->mark;
}

/* Publish records [from, to) of one cluster; the bytes of those that are not
 * wanted any more are added to @dead_bytes. Returns how many left memory.
 */
static unsigned publish_some(struct ts_pack *pack, struct ts_core *core,
			     uint32_t from, uint32_t to, uint32_t *dead_bytes)
{
	struct ts_change change = { 0 };
	ts_word old[TS_POOL_BULK];
	struct ts_cluster cluster;
	unsigned n = 0, n_left = 0;

	ts_cluster_open(&core->clusters, pack->slot[from] / TS_CLUSTER_SLOTS,
			&cluster);
	for (uint32_t k = to; k-- > from;) {
		const struct ts_packed *r = &pack->record[k];
		unsigned i = pack->slot[k] % TS_CLUSTER_SLOTS;
		ts_word word = ts_word_spill(pack->segment, r->off, r->len,
					     r->codec);

		if (!cluster.words || !still_there(pack, cluster.words[i], r)) {
			*dead_bytes += r->len + TS_RECORD_EXTRA;
			ts_dict_ref(&core->media.codec.dicts, r->codec, -1);
			continue;
		}
		old[n] = ts_cluster_publish(&cluster, i, word);
		ts_change_word(&change, old[n], -1);
		ts_change_word(&change, word, 1);
		n_left += ts_word_kind(old[n]) != TS_SPILL;
		n++;
	}
	ts_cluster_close(&cluster);
	TS_FAULT_POINT("pack: records of a cluster published");
	ts_change_apply(&core->media, &change);
	ts_media_drop(&core->media, n, old);
	TS_FAULT_POINT("pack: their old pages dropped");
	return n_left;
}

unsigned ts_pack_publish(struct ts_pack *pack, struct ts_core *core)
{
	struct ts_segments *segments = &core->media.spill->segments;
	uint32_t dead_bytes = 0, i;
	unsigned n = 0;

	/* All count as born before the first is published, because it can die
	 * at once.
	 */
	TS_FAULT_POINT("pack: written");
	ts_segment_born(segments, pack->segment, pack->record_bytes);
	/* Backwards: a page that was overwritten and marked again while the
	 * pack was being filled has two records, and the last one is right.
	 */
	for (uint32_t end = pack->n; end; end = i) {
		i = run_start(pack, end);
		n += publish_some(pack, core, i, end, &dead_bytes);
	}
	ts_segment_died(segments, pack->segment, dead_bytes);
	ts_segment_seal(segments, pack->segment, pack->used, pack->n);
	TS_FAULT_POINT("pack: segment sealed");
	end_pack(pack, segments);
	TS_FAULT_POINT("pack: cleaned segments let go");
	return n;
}

void ts_pack_fail(struct ts_pack *pack, struct ts_core *core)
{
	struct ts_cluster cluster;
	uint32_t i;

	for (uint32_t end = pack->n; end; end = i) {
		i = run_start(pack, end);
		ts_cluster_open(&core->clusters,
				pack->slot[i] / TS_CLUSTER_SLOTS, &cluster);
		for (uint32_t k = i; cluster.words && k < end; k++) {
			unsigned slot = pack->slot[k] % TS_CLUSTER_SLOTS;
			ts_word word = cluster.words[slot];

			if (ts_word_kind(pack->record[k].from) == TS_NONE &&
			    still_there(pack, word, &pack->record[k]))
				ts_cluster_flag(&cluster, slot,
						ts_word_set_mark(word, 0));
		}
		ts_cluster_close(&cluster);
	}
	TS_FAULT_POINT("pack: not written, marks taken back");
	for (uint32_t k = 0; k < pack->n; k++)
		ts_dict_ref(&core->media.codec.dicts, pack->record[k].codec,
			    -1);
	ts_segment_fail(&core->media.spill->segments, pack->segment);
	TS_FAULT_POINT("pack: not written, segment given up");
	end_pack(pack, &core->media.spill->segments);
}
