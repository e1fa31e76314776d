/* SPDX-License-Identifier: BSD-3-Clause */
/* request.c - requests of any offset and length, in terms of batches
 *
 * A request is cut at cluster borders and into batches of up to 64 slots.
 * Whole slots go straight to and from the request's buffer. A slot that is
 * covered in part is read, changed and written; if its cluster changed in
 * between, that starts again, so that concurrent writers of one slot never
 * undo each other.
 */
#include "batch.h"
#include "compact.h"
#include "store.h"
#include "util/lock.h"

#include <errno.h>
#include <string.h>

/* When the budget is used up, a writer empties this many sparse blocks and
 * tries again, at most this often. As long as the spiller makes room, it goes
 * on trying: there is room in the other tier.
 */
#define ROOM_BLOCKS 16u
#define ROOM_TRIES 64u

int ts_store_range(const struct ts_store *store, uint64_t len,
		       uint64_t off)
{
	uint64_t size = store->core.n_slots << TS_SLOT_SHIFT;

	return off > size || len > size - off ? -EINVAL : 0;
}

/* The slots from @slot on that share its cluster and fit in a batch. */
static unsigned batch_len(uint64_t slot, uint64_t n)
{
	uint64_t in_cluster = TS_CLUSTER_SLOTS - slot % TS_CLUSTER_SLOTS;

	if (n > in_cluster)
		n = in_cluster;
	return n > TS_BATCH_PAGES ? TS_BATCH_PAGES : (unsigned)n;
}

static void count_refusal(struct ts_core *core, int err)
{
	if (err == -ENOSPC)
		ts_stats_add(&core->media.stats, TS_STAT_nospace, 1);
}

/* Let each backend make the pages that it has, in one go. Returns 0 or -EIO. */
static int restore(struct ts_core *core, struct ts_reading *reading)
{
	uint64_t mask[TS_KINDS] = { 0 };

	for (unsigned i = 0; i < reading->n; i++)
		mask[ts_word_kind(reading->word[i])] |= 1ull << i;
	for (unsigned kind = 0; kind < TS_KINDS; kind++)
		if (mask[kind])
			ts_backend_of[kind]->restore(&core->media, reading,
						     mask[kind]);
	if (!reading->bad)
		return 0;
	ts_stats_add(&core->media.stats, TS_STAT_damaged,
		     __builtin_popcountll(reading->bad));
	return -EIO;
}

/* Read n slots of one cluster, n <= TS_BATCH_PAGES. @ret_seq is the sequence
 * number that a publication can be tied to. To be ended by end_reading(), also
 * after an error.
 */
static int read_words(struct ts_core *core, uint64_t slot, unsigned n,
		      uint8_t *ret_data, struct ts_reading *ret_reading,
		      uint64_t *ret_seq)
{
	struct ts_lend *decoders = &core->media.codec.decoders;
	struct ts_reading *r = ret_reading;
	struct ts_cluster cluster;

	r->n = n;
	r->slot = slot;
	r->data = ret_data;
	r->bad = 0;
	r->decoder = ts_borrow(decoders);
	ts_cluster_open(&core->clusters, slot / TS_CLUSTER_SLOTS, &cluster);
	for (unsigned i = 0; i < n; i++) {
		const struct ts_backend *backend;

		r->word[i] = ts_cluster_read(
			&cluster, (unsigned)(slot % TS_CLUSTER_SLOTS) + i);
		backend = ts_backend_of[ts_word_kind(r->word[i])];
		if (backend->copy)
			backend->copy(&core->media, r, i);
	}
	*ret_seq = cluster.stripe->seq;
	ts_cluster_close(&cluster);
	return restore(core, r);
}

static void end_reading(struct ts_core *core, struct ts_reading *reading)
{
	ts_return(&core->media.codec.decoders, reading->decoder);
}

/* After -ENOSPC: make room, by giving up leaves, compaction or spilling. */
static bool make_room(struct ts_store *store, unsigned *tries)
{
	if ((*tries)++ < ROOM_TRIES &&
	    (ts_clusters_reclaim(&store->core.clusters) ||
	     ts_compact(&store->core, TS_SLACK_NONE, ROOM_BLOCKS)))
		return true;
	return store->core.media.spill &&
	       ts_spiller_make_room(&store->spiller);
}

/* Prepare and publish one batch; @seq as for ts_batch_publish(). */
static int write_batch(struct ts_core *core, uint64_t slot, unsigned n,
		       const void *data, const uint64_t *seq)
{
	struct ts_batch batch;
	int err;

	ts_batch_init(&batch, slot, n, data);
	err = ts_batch_prepare(core, &batch);
	if (err)
		return err;
	err = ts_batch_publish(core, &batch, seq);
	if (err)
		ts_batch_abandon(core, &batch);
	return err;
}

/* Write n slots of one cluster, n <= TS_BATCH_PAGES. */
static int write_slots(struct ts_store *store, uint64_t slot, unsigned n,
		       const void *data, const uint64_t *seq)
{
	unsigned tries = 0;
	int err;

	do {
		err = write_batch(&store->core, slot, n, data, seq);
	} while (err == -ENOSPC && make_room(store, &tries));
	if (store->core.media.spill)
		ts_spiller_kick(&store->spiller);
	return err;
}

/* Bring pages that were read from spill before back to memory, where nothing
 * of their cluster has changed since they were read.
 */
static void promote(struct ts_store *store, const struct ts_reading *reading,
		    uint64_t seq)
{
	if (ts_tier_promote(&store->spiller.tier, &store->core, reading, seq))
		/* Colder ones make room for the next. */
		ts_spiller_kick(&store->spiller);
}

/* Read n slots of one cluster, n <= TS_BATCH_PAGES; those that are read from
 * spill again come back to memory.
 */
static int read_slots(struct ts_store *store, uint64_t slot, unsigned n,
		      uint8_t *ret_data)
{
	struct ts_reading reading;
	uint64_t seq;
	int err = read_words(&store->core, slot, n, ret_data, &reading, &seq);

	if (!err && store->core.media.spill)
		promote(store, &reading, seq);
	end_reading(&store->core, &reading);
	return err;
}

static bool is_zero(const uint8_t *p, unsigned len)
{
	return !p[0] && !memcmp(p, p + 1, len - 1);
}

/* Change bytes [from, from + len) of one slot; @data NULL means zeroes, and
 * what is zero already is left alone, for it may be a hole.
 */
static int change_slot(struct ts_store *store, uint64_t slot, unsigned from,
		       unsigned len, const uint8_t *data)
{
	uint8_t page[TS_SLOT_BYTES];
	struct ts_reading reading;
	uint64_t seq;
	int err;

	do {
		err = read_words(&store->core, slot, 1, page, &reading, &seq);
		end_reading(&store->core, &reading);
		if (err)
			break;
		if (data)
			memcpy(page + from, data, len);
		else if (is_zero(page + from, len))
			break;
		else
			memset(page + from, 0, len);
		err = write_slots(store, slot, 1, page, &seq);
	} while (err == -EAGAIN);
	return err;
}

static int read_part(struct ts_store *store, uint64_t slot, unsigned from,
		     unsigned len, uint8_t *ret_data)
{
	uint8_t page[TS_SLOT_BYTES];
	int err = read_slots(store, slot, 1, page);

	if (!err)
		memcpy(ret_data, page + from, len);
	return err;
}

/* The part of a request that lies at @off: a piece of one slot, or a run of
 * whole slots that makes a batch.
 */
struct piece {
	uint64_t slot;
	unsigned from, len; /* in bytes; the whole run if not partial */
	unsigned n_slots;
	bool partial;
};

static struct piece next_piece(uint64_t len, uint64_t off)
{
	struct piece p = {
		.slot = off >> TS_SLOT_SHIFT,
		.from = off % TS_SLOT_BYTES,
		.n_slots = 1,
	};

	p.partial = p.from || len < TS_SLOT_BYTES;
	if (p.partial) {
		p.len = TS_SLOT_BYTES - p.from;
		if (p.len > len)
			p.len = (unsigned)len;
	} else {
		p.n_slots = batch_len(p.slot, len >> TS_SLOT_SHIFT);
		p.len = p.n_slots << TS_SLOT_SHIFT;
	}
	return p;
}

int ts_store_read(struct ts_store *store, void *buf, uint64_t len,
		  uint64_t off)
{
	struct ts_core *core = &store->core;
	uint64_t start = ts_stats_start();
	uint8_t *data = buf;
	int err = ts_store_range(store, len, off);

	while (len && !err) {
		struct piece p = next_piece(len, off);

		if (p.partial)
			err = read_part(store, p.slot, p.from, p.len, data);
		else
			err = read_slots(store, p.slot, p.n_slots, data);
		ts_stats_add(&core->media.stats, TS_STAT_read_pages,
			     p.n_slots);
		data += p.len;
		off += p.len;
		len -= p.len;
	}
	ts_stats_took(&core->media.stats, TS_HIST_read, start, 1);
	return err;
}

int ts_store_write(struct ts_store *store, const void *buf, uint64_t len,
		   uint64_t off)
{
	struct ts_core *core = &store->core;
	uint64_t start = ts_stats_start();
	const uint8_t *data = buf;
	int err = ts_store_range(store, len, off);

	while (len && !err) {
		struct piece p = next_piece(len, off);

		if (p.partial)
			err = change_slot(store, p.slot, p.from, p.len, data);
		else
			err = write_slots(store, p.slot, p.n_slots, data, NULL);
		if (!err)
			ts_stats_add(&core->media.stats, TS_STAT_written_pages,
				     p.n_slots);
		data += p.len;
		off += p.len;
		len -= p.len;
	}
	count_refusal(core, err);
	ts_stats_took(&core->media.stats, TS_HIST_write, start, 1);
	return err;
}

bool ts_store_would_stage(const struct ts_store *store, uint64_t len)
{
	return ts_stage_may_take(&store->core.media, len >> TS_SLOT_SHIFT);
}

/* Drop slots [slot, end), cluster by cluster; clusters that are not there
 * cost next to nothing.
 */
static void discard_slots(struct ts_core *core, uint64_t slot, uint64_t end)
{
	uint64_t last = (end + TS_CLUSTER_SLOTS - 1) / TS_CLUSTER_SLOTS;
	uint64_t nr = slot / TS_CLUSTER_SLOTS;

	if (slot >= end)
		return;
	while ((nr = ts_cluster_next(&core->clusters, nr, last)) < last) {
		uint64_t base = nr * TS_CLUSTER_SLOTS;
		uint64_t from = slot > base ? slot : base;
		uint64_t to = base + TS_CLUSTER_SLOTS;

		if (to > end)
			to = end;
		ts_batch_discard(core, nr, (unsigned)(from - base),
				 (unsigned)(to - from));
		nr++;
	}
}

int ts_store_discard(struct ts_store *store, uint64_t len, uint64_t off)
{
	uint64_t start = ts_stats_start();
	int err = ts_store_range(store, len, off);

	if (!err)
		discard_slots(&store->core,
			      (off + TS_SLOT_BYTES - 1) >> TS_SLOT_SHIFT,
			      (off + len) >> TS_SLOT_SHIFT);
	ts_stats_took(&store->core.media.stats, TS_HIST_discard, start, 1);
	return err;
}

int ts_store_zero(struct ts_store *store, uint64_t len, uint64_t off)
{
	struct ts_core *core = &store->core;
	uint64_t start = ts_stats_start();
	int err = ts_store_range(store, len, off);

	while (len && !err) {
		struct piece p = next_piece(len, off);

		if (p.partial) {
			err = change_slot(store, p.slot, p.from, p.len, NULL);
			off += p.len;
			len -= p.len;
		} else {
			uint64_t n = len >> TS_SLOT_SHIFT;

			discard_slots(core, p.slot, p.slot + n);
			off += n << TS_SLOT_SHIFT;
			len -= n << TS_SLOT_SHIFT;
		}
	}
	count_refusal(core, err);
	ts_stats_took(&core->media.stats, TS_HIST_discard, start, 1);
	return err;
}
