/* SPDX-License-Identifier: BSD-3-Clause */
/* clean.c - make free segments out of those with few live records
 *
 * What still lives goes into packs of its own: it has outlived what it was
 * written with, so it is likely to outlive new pages, too, and beside those it
 * would have to be moved again. The last segment that goes into a pack may do so
 * in part; the rest of it follows in the next. So each pack of moved records
 * frees more than it takes, by a sixteenth at least.
 *
 * A segment is read whole; its sealed table says which slots its records
 * belong to, and the words of those slots say which of them still live and
 * where in the segment they are. A damaged table is made up for by looking at
 * every word of the device: slow, but nothing is lost with the table. A record
 * that is itself damaged stays where it is, to be an error when it is read.
 *
 * A segment stays pinned until what was moved is published: its old words
 * cannot come to mean something else meanwhile.
 */
#include "clean.h"
#include "fault.h"

#define LIVE_MAX (TS_SEGMENT_BYTES / 16 * 15)
/* Told in one go: few enough that others still find free ones. */
#define TRIM_SEGMENTS 64u

struct cleaning {
	struct ts_cleaner *with;
	struct ts_pack *pack;
	uint32_t segment;
	uint64_t generation;
	bool bad;  /* a record cannot be opened */
	bool full; /* the pack has no more room */
};

static bool read_segment(struct ts_cleaner *cleaner, uint32_t segment)
{
	struct ts_transfer t = {
		.buf = cleaner->segment_buf,
		.bytes = TS_SEGMENT_BYTES,
		.off = ts_segment_off(segment),
	};

	ts_io_start(cleaner->io, &t);
	while (!t.done)
		ts_io_wait(cleaner->io);
	ts_spill_file_uncache(cleaner->io->file, t.off, t.bytes, false);
	return !t.result;
}

static void move_record(struct cleaning *c, uint64_t slot, ts_word word)
{
	struct ts_media *media = &c->with->core->media;
	unsigned off = ts_word_spill_off(word), len = ts_word_len(word);
	struct ts_place place = { c->generation, slot, off };
	uint8_t codec;

	if (ts_pack_room(c->pack) < len + TS_PACK_EXTRA) {
		c->full = true;
	} else if (ts_unseal_record(&media->spill->seal, &place,
				    c->with->segment_buf + off, len, &codec,
				    ts_pack_data(c->pack))) {
		c->bad = true;
	} else {
		ts_pack_add(c->pack, media, slot, codec, len, word);
		TS_FAULT_POINT("cleaning: record copied");
		ts_stats_add(&media->stats, TS_STAT_cleaned_pages, 1);
	}
}

/* Move one slot's record if it lives in the segment. */
static void move_slot(struct cleaning *c, uint64_t slot)
{
	struct ts_core *core = c->with->core;
	ts_word word = ts_word_none();
	struct ts_cluster cluster;

	if (slot >= core->n_slots || c->full)
		return;
	ts_cluster_open(&core->clusters, slot / TS_CLUSTER_SLOTS, &cluster);
	if (cluster.words)
		word = cluster.words[slot % TS_CLUSTER_SLOTS];
	ts_cluster_close(&cluster);
	if (ts_word_kind(word) == TS_SPILL &&
	    ts_word_segment(word) == c->segment)
		move_record(c, slot, word);
}

/* Without a table: every slot of the device. */
static void move_all(struct cleaning *c)
{
	struct ts_clusters *clusters = &c->with->core->clusters;
	uint64_t nr = 0, end = clusters->n_clusters;

	for (; (nr = ts_cluster_next(clusters, nr, end)) < end; nr++)
		for (unsigned i = 0; i < TS_CLUSTER_SLOTS; i++)
			move_slot(c, nr * TS_CLUSTER_SLOTS + i);
}

static void move_by_table(struct cleaning *c, const struct ts_segment *s)
{
	struct ts_cleaner *with = c->with;
	struct ts_place place = { s->generation, UINT64_MAX, s->table_off };
	uint8_t codec;

	if (ts_unseal_record(&with->core->media.spill->seal, &place,
			     with->segment_buf + s->table_off,
			     s->n_records * 8, &codec, with->slot)) {
		move_all(c);
		return;
	}
	for (uint32_t i = 0; i < s->n_records; i++)
		move_slot(c, with->slot[i]);
}

/* Clean the emptiest segment. Returns whether there was one, and room for all
 * of it.
 */
static bool clean_one(struct ts_cleaner *cleaner, struct ts_pack *pack)
{
	struct ts_segments *segments = &cleaner->core->media.spill->segments;
	struct cleaning c = { .with = cleaner, .pack = pack };
	struct ts_segment copy;

	if (!ts_segment_emptiest(segments, LIVE_MAX, &c.segment, &copy))
		return false;
	pack->pinned[pack->n_pinned++] = c.segment;
	TS_FAULT_POINT("cleaning: segment pinned");
	c.generation = copy.generation;
	if (read_segment(cleaner, c.segment))
		move_by_table(&c, &copy);
	else
		c.bad = true;
	if (c.bad)
		ts_segment_skip(segments, c.segment);
	pack->n_emptied += !c.bad && !c.full;
	return !c.full;
}

unsigned ts_clean_into(struct ts_cleaner *cleaner, struct ts_pack *pack)
{
	while (pack->n_pinned < TS_PACK_PINNED && clean_one(cleaner, pack))
		;
	return pack->n_emptied;
}

void ts_trim_free_segments(struct ts_spill *spill)
{
	uint32_t first, n;

	while (ts_spill_file_can_discard(&spill->file) &&
	       (n = ts_segment_claim_dirty(&spill->segments, TRIM_SEGMENTS,
					   &first))) {
		ts_spill_file_discard(&spill->file, first, n);
		ts_segment_release(&spill->segments, first, n);
	}
}
