/* SPDX-License-Identifier: BSD-3-Clause */
/* store.c - requests of any offset and length, in terms of batches
 *
 * A request is cut at cluster borders and into batches of up to 64 slots.
 * Whole slots go straight to and from the request's buffer. A slot that is
 * covered in part is read, changed and written; if its cluster changed in
 * between, that starts again, so that concurrent writers of one slot never
 * undo each other.
 */
#include "store.h"
#include "batch.h"
#include "compact.h"
#include "config.h"
#include "publish.h"
#include "recover.h"
#include "util/lock.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* When the budget is used up, a writer empties this many sparse blocks and
 * tries again, at most this often. As long as the spiller makes room, it goes
 * on trying: there is room in the other tier.
 */
#define ROOM_BLOCKS 16u
#define ROOM_TRIES 64u

/* Coders: no more encoders than processors, since compressing is all they do;
 * more decoders, so that a read seldom queues behind another.
 */
static int init_codec(struct ts_core *core, int level)
{
	long n_cpus = sysconf(_SC_NPROCESSORS_ONLN);
	unsigned n = n_cpus < 1 ? 1 : n_cpus > 64 ? 64 : (unsigned)n_cpus;

	return ts_codec_init(&core->media.codec, level, n, 2 * n);
}

static size_t round_up(size_t n, size_t to)
{
	return (n + to - 1) / to * to;
}

/* Map the memory, new or kept, and set up what works on it. */
static int init_core(struct ts_core *core, const struct ts_params *params,
		     char *err, size_t err_bytes)
{
	struct ts_kept *kept = &core->kept;
	struct ts_spill *spill = core->media.spill;
	struct ts_kept_size size = {
		.n_slots = core->n_slots,
		.n_blocks = (uint32_t)(params->ram_max_bytes >> TS_BLOCK_SHIFT),
		.n_segments = spill ? spill->segments.n : 0,
		.root_bytes = ts_clusters_root_bytes(core->n_slots),
	};
	int error;

	error = ts_kept_open(kept, &size, params->keep_path, err, err_bytes);
	if (error)
		return error;
	error = ts_shm_touch(kept->shm.base,
			     (size_t)((uint8_t *)kept->blocks -
				      kept->shm.base));
	if (!error)
		error = ts_blocks_init(&core->media.blocks, kept->blocks,
				       size.n_blocks,
				       (uint32_t)(params->reserve_bytes >>
						  TS_BLOCK_SHIFT));
	if (!error) {
		ts_blocks_set_budget(&core->media.blocks,
				     params->ram_bytes >> TS_BLOCK_SHIFT);
		ts_pool_init(&core->media.pool, &core->media.blocks);
		error = ts_clusters_init(&core->clusters, &core->media.pool,
					 kept->root, core->n_slots);
	}
	if (!error)
		error = init_codec(core, params->level);
	if (!error)
		error = ts_dicts_keep(&core->media.codec.dicts, kept->head,
				      kept->dict);
	if (error)
		snprintf(err, err_bytes, "cannot set up the memory: %s",
			 strerror(-error));
	return error;
}

static int open_spill(struct ts_core *core, const struct ts_params *params,
		      char *err, size_t err_bytes)
{
	struct ts_spill_params spill = {
		.path = params->spill_path,
		.size_bytes = params->spill_bytes,
		.encrypt = params->encrypt,
		.force = params->spill_force,
		.use_uring = params->use_uring,
	};

	return ts_spill_new(&spill, &core->media.spill, err, err_bytes);
}

static int init_spiller(struct ts_store *store, const struct ts_params *params,
			char *err, size_t err_bytes)
{
	struct ts_core *core = &store->core;
	struct ts_spill *spill = core->media.spill;
	struct ts_kept_head *head = core->kept.head;
	int error;

	ts_segments_keep(&spill->segments, core->kept.segment,
			 &head->generation);
	spill->key = (struct ts_kept_key){ head->key, &head->has_key };
	error = ts_spiller_init(&store->spiller, core, params);
	if (error)
		snprintf(err, err_bytes, "cannot set up the spiller: %s",
			 strerror(-error));
	return error;
}

static void init_train(struct ts_store *store, const struct ts_params *params)
{
	struct ts_media *media = &store->core.media;

	ts_train_init(&store->train, params->trainer, &media->codec,
		      &media->stats);
	media->train = &store->train;
}

/* The shards: private, or in the statistics file. */
static int init_stats(struct ts_store *store, const char *path, char *err,
		      size_t err_bytes)
{
	struct ts_statsfile *file = &store->statsfile;
	struct ts_stats *stats = &store->core.media.stats;
	int error = 0;

	if (path)
		error = ts_statsfile_new(file, path, TS_VERSION, err,
					 err_bytes);
	if (error)
		return error;
	if (path && file->shares) {
		stats->shard = file->map->shard;
		return 0;
	}
	error = ts_stats_init(stats);
	if (error)
		snprintf(err, err_bytes, "%s", strerror(-error));
	return error;
}

static int init_store(struct ts_store *store, const struct ts_params *params,
		      char *err, size_t err_bytes)
{
	struct ts_core *core = &store->core;
	int error;

	core->n_slots = params->size_bytes >> TS_SLOT_SHIFT;
	ts_mutex_init(&core->compaction);
	ts_keeper_init(&store->keeper, core);
	error = init_stats(store, params->stats_path, err, err_bytes);
	if (!error && params->spill_path)
		error = open_spill(core, params, err, err_bytes);
	if (!error)
		error = init_core(core, params, err, err_bytes);
	if (!error && core->media.spill)
		error = init_spiller(store, params, err, err_bytes);
	if (!error && params->trainer)
		init_train(store, params);
	if (!error && core->kept.adopted)
		error = ts_recover(core, err, err_bytes);
	return error;
}

int ts_store_new(const struct ts_params *params, struct ts_store **ret_store,
		 char *err, size_t err_bytes)
{
	struct ts_store *store;
	int error;

	store = aligned_alloc(64, round_up(sizeof(*store), 64));
	if (!store)
		return -ENOMEM;
	memset(store, 0, sizeof(*store));
	store->core.kept.fd = -1;
	store->core.events = (struct ts_events){
		.fn = params->event,
		.opaque = params->event_opaque,
	};
	error = init_store(store, params, err, err_bytes);
	if (error)
		ts_store_free(store);
	else
		*ret_store = store;
	return error;
}

/* After a fork, memory that was touched before it has to be copied, or mapped
 * anew, at its next use. That is done here, not in the request path.
 */
static void touch_again(struct ts_store *store)
{
	struct ts_core *core = &store->core;

	ts_shm_touch(store, sizeof(*store));
	ts_shm_touch(core->kept.shm.base,
		     (size_t)((uint8_t *)core->kept.blocks -
			      core->kept.shm.base));
	ts_shm_touch(core->clusters.stripes,
		     TS_STRIPES * sizeof(*core->clusters.stripes));
	ts_shm_touch(core->clusters.leaf_live,
		     core->clusters.n_leaves * sizeof(uint32_t));
	ts_codec_touch(&core->media.codec);
	ts_stats_touch(&core->media.stats);
}

int ts_store_start(struct ts_store *store)
{
	int err;

	touch_again(store);
	ts_shm_unpin(&store->core.kept.shm);
	store->core.kept.served = true;
	if (store->core.media.train)
		ts_train_step(store->core.media.train);
	ts_statsfile_start(&store->statsfile);
	if (store->statsfile.map) {
		store->keeper.look = ts_publish;
		store->keeper.look_opaque = store;
		ts_publish(store);
	}
	err = ts_keeper_start(&store->keeper);
	if (!err && store->core.media.spill)
		err = ts_spill_start(store->core.media.spill,
				     &store->core.events);
	if (!err && store->core.media.spill)
		err = ts_spiller_start(&store->spiller);
	return err;
}

void ts_store_free(struct ts_store *store)
{
	if (!store)
		return;
	ts_spiller_fini(&store->spiller);
	ts_keeper_fini(&store->keeper);
	ts_train_fini(&store->train);
	ts_spill_free(store->core.media.spill);
	ts_codec_fini(&store->core.media.codec);
	ts_clusters_fini(&store->core.clusters);
	ts_pool_fini(&store->core.media.pool);
	ts_blocks_fini(&store->core.media.blocks);
	ts_kept_close(&store->core.kept);
	if (!store->statsfile.shares)
		ts_stats_fini(&store->core.media.stats);
	ts_statsfile_fini(&store->statsfile);
	pthread_mutex_destroy(&store->core.compaction);
	free(store);
}

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
 * number that a publication can be tied to.
 */
static int read_words(struct ts_core *core, uint64_t slot, unsigned n,
		      uint8_t *ret_data, struct ts_reading *ret_reading,
		      uint64_t *ret_seq)
{
	struct ts_lend *decoders = &core->media.codec.decoders;
	struct ts_reading *r = ret_reading;
	struct ts_cluster cluster;
	int err;

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
	err = restore(core, r);
	ts_return(decoders, r->decoder);
	return err;
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
	struct ts_core *core = &store->core;
	unsigned n = 0;

	for (unsigned i = 0; i < reading->n; i++) {
		ts_word word = reading->word[i];

		if (ts_word_kind(word) != TS_SPILL || !ts_word_hot(word))
			continue;
		if (write_batch(core, reading->slot + i, 1,
				ts_reading_page(reading, i), &seq))
			break;
		seq++;
		n++;
	}
	if (!n)
		return;
	ts_stats_add(&core->media.stats, TS_STAT_promoted_pages, n);
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

	if (!err && store->core.media.spill &&
	    ts_tier_may_promote(&store->spiller.tier, &store->core))
		promote(store, &reading, seq);
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
	uint64_t start_ns = ts_now_ns();
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
	ts_stats_took(&core->media.stats, TS_HIST_read, start_ns, 1);
	return err;
}

int ts_store_write(struct ts_store *store, const void *buf, uint64_t len,
		   uint64_t off)
{
	struct ts_core *core = &store->core;
	uint64_t start_ns = ts_now_ns();
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
	ts_stats_took(&core->media.stats, TS_HIST_write, start_ns, 1);
	return err;
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
	uint64_t start_ns = ts_now_ns();
	int err = ts_store_range(store, len, off);

	if (!err)
		discard_slots(&store->core,
			      (off + TS_SLOT_BYTES - 1) >> TS_SLOT_SHIFT,
			      (off + len) >> TS_SLOT_SHIFT);
	ts_stats_took(&store->core.media.stats, TS_HIST_discard, start_ns, 1);
	return err;
}

int ts_store_zero(struct ts_store *store, uint64_t len, uint64_t off)
{
	struct ts_core *core = &store->core;
	uint64_t start_ns = ts_now_ns();
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
	ts_stats_took(&core->media.stats, TS_HIST_discard, start_ns, 1);
	return err;
}
