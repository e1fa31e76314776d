/* SPDX-License-Identifier: BSD-3-Clause */
/* store.c - set a store up, start it, and take it down
 *
 * In the order of what needs what: the spill file's size, the memory, what
 * works on it, and where the memory was there before, what the words in it
 * say. Threads come with the start, because they do not cross a fork.
 */
#include "store.h"
#include "build.h"
#include "publish.h"
#include "recover.h"
#include "util/lock.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* Coders: no more encoders than processors, since compressing is all they do;
 * more decoders, so that a read seldom queues behind another; and those that
 * the readers of the spill file hold meanwhile.
 */
static int init_codec(struct ts_core *core, int level)
{
	unsigned n = ts_n_cpus();
	unsigned n_reading = core->media.spill ? TS_READERS : 0;

	return ts_codec_init(&core->media.codec, level, n, 2 * n + n_reading);
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
		.n_budget = (uint32_t)(params->ram_bytes >> TS_BLOCK_SHIFT),
		.root_bytes = ts_clusters_root_bytes(core->n_slots),
	};
	int error;

	error = ts_kept_open(kept, &size, params->keep_path, err, err_bytes);
	if (error)
		return error;
	error = ts_shm_touch(kept->shm.base, (size_t)((uint8_t *)kept->blocks -
						      kept->shm.base));
	if (!error)
		error = ts_blocks_init(&core->media.blocks, kept->blocks,
				       kept->head->n_blocks,
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
	struct stat st;
	int error;

	if (fstat(spill->file.fd, &st))
		return -errno;
	error = ts_kept_bind_spill(&core->kept, params->spill_path, &st,
				   spill->encrypt, err, err_bytes);
	if (error)
		return error;
	ts_segments_keep(&spill->segments, core->kept.segment,
			 &head->generation);
	spill->key = (struct ts_kept_key){head->key, &head->has_key};
	error = ts_spiller_init(&store->spiller, core, params);
	if (error)
		snprintf(err, err_bytes, "cannot set up the spiller: %s",
			 strerror(-error));
	return error;
}

static int init_workers(struct ts_store *store, const struct ts_params *params,
			char *err, size_t err_bytes)
{
	int error = ts_workers_init(&store->workers, &store->core,
				    (unsigned)params->workers,
				    params->write_behind_bytes);

	if (error)
		snprintf(err, err_bytes, "cannot set up the workers: %s",
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

	ts_ticks_init();
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
	if (!error && params->write_behind_bytes)
		error = init_workers(store, params, err, err_bytes);
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
	ts_shm_touch(
		core->kept.shm.base,
		(size_t)((uint8_t *)core->kept.blocks - core->kept.shm.base));
	ts_shm_touch(core->clusters.stripes,
		     TS_STRIPES * sizeof(*core->clusters.stripes));
	ts_shm_touch(core->clusters.leaf_live,
		     core->clusters.n_leaves * sizeof(uint32_t));
	ts_codec_touch(&core->media.codec);
	if (core->media.stage)
		ts_shm_touch(core->media.stage->queue,
			     core->media.stage->n_frames *
				     sizeof(struct ts_staged));
	ts_stats_touch(&core->media.stats);
}

/* What was taken over is in memory, and not yet mapped by this process. */
static void map_again(struct ts_core *core)
{
	struct ts_took_over *took = &core->took_over;
	uint64_t start_ns = ts_now_ns();

	ts_blocks_map(&core->media.blocks);
	took->map_ns = ts_now_ns() - start_ns;
	ts_event(&core->events, TS_EVENT_INFO,
		 "took over %" PRIu64 " pages: words %" PRIu64
		 " us, blocks %" PRIu64 " us, mapping %" PRIu64 " us",
		 took->pages, took->words_ns / 1000, took->blocks_ns / 1000,
		 took->map_ns / 1000);
}

int ts_store_start(struct ts_store *store)
{
	int err;

	touch_again(store);
	ts_shm_unpin(&store->core.kept.shm);
	store->core.kept.served = true;
	if (store->core.kept.adopted)
		map_again(&store->core);
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
	if (!err)
		err = ts_workers_start(&store->workers);
	return err;
}

void ts_store_free(struct ts_store *store)
{
	if (!store)
		return;
	ts_workers_fini(&store->workers);
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
