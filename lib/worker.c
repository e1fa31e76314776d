/* SPDX-License-Identifier: BSD-3-Clause */
/* worker.c - the threads that compress staged pages
 *
 * A run goes the way of any batch: prepared without a lock, published word by
 * word where the word still names the frame, and what it replaces freed after.
 * A frame cannot come to mean another page meanwhile, because it is freed
 * only here; so the comparison is exact, and pages that were overwritten or
 * discarded are simply dropped.
 *
 * A page that does not compress, or that there is no room for, becomes raw
 * where it is. So a run always comes to an end, and never fails.
 */
#include "worker.h"
#include "account.h"
#include "compact.h"
#include "fault.h"
#include "util/lock.h"

#include <errno.h>
#include <stdlib.h>

/* Sparse blocks that are emptied when there is no room. */
#define ROOM_BLOCKS 16u

struct run {
	struct ts_core *core;
	unsigned n;
	struct ts_staged page[TS_STAGE_RUN];
};

static ts_word *word_of(const struct run *run, struct ts_cluster *cluster,
			unsigned i)
{
	ts_word *word;

	if (!cluster->words)
		return NULL;
	word = &cluster->words[run->page[i].slot % TS_CLUSTER_SLOTS];
	if (ts_word_kind(*word) != TS_STAGED ||
	    ts_word_obj(*word).grains != run->page[i].frame.grains)
		return NULL;
	return word;
}

static void open_cluster(const struct run *run, struct ts_cluster *ret_cluster)
{
	ts_cluster_open(&run->core->clusters,
			run->page[0].slot / TS_CLUSTER_SLOTS, ret_cluster);
}

/* Which pages of a run are still there. */
static uint64_t still_staged(const struct run *run)
{
	struct ts_cluster cluster;
	uint64_t mask = 0;

	open_cluster(run, &cluster);
	for (unsigned i = 0; i < run->n; i++)
		if (word_of(run, &cluster, i))
			mask |= 1ull << i;
	ts_cluster_close(&cluster);
	return mask;
}

static int place(struct ts_media *media, struct ts_batch *batch)
{
	int err;

	batch->encoder = ts_codec_encoder(&media->codec);
	err = ts_backend_ram.place(media, batch);
	ts_return(&media->codec.encoders, batch->encoder);
	return err;
}

/* Compress what compresses and has room. */
static void compress(const struct run *run, struct ts_batch *batch)
{
	struct ts_media *media = &run->core->media;

	if (place(media, batch) &&
	    ts_compact(run->core, TS_SLACK_NONE, ROOM_BLOCKS))
		place(media, batch);
}

/* Replace the words that still name their frames. Returns the frames that
 * became raw pages; those of the words in @batch that were not published are
 * still in it.
 */
static uint64_t publish(const struct run *run, struct ts_batch *batch)
{
	struct ts_change change = { 0 };
	struct ts_cluster cluster;
	uint64_t raw = 0;

	open_cluster(run, &cluster);
	for (unsigned i = 0; i < run->n; i++) {
		ts_word *word = word_of(run, &cluster, i), new, old;

		if (!word)
			continue;
		if (ts_word_kind(batch->word[i]) == TS_NONE) {
			new = ts_word_unstaged(*word);
			raw |= 1ull << i;
		} else {
			new = batch->word[i];
			if (ts_word_hot(*word))
				new = ts_word_set_hot(new);
			batch->word[i] = ts_word_none();
		}
		old = ts_cluster_publish(
			&cluster, run->page[i].slot % TS_CLUSTER_SLOTS, new);
		ts_change_word(&change, old, -1);
		ts_change_word(&change, new, 1);
	}
	ts_cluster_close(&cluster);
	TS_FAULT_POINT("worker: run published");
	ts_change_apply(&run->core->media, &change);
	return raw;
}

static void free_frames(const struct run *run, uint64_t raw)
{
	struct ts_media *media = &run->core->media;
	ts_obj frame[TS_STAGE_RUN];
	unsigned n = 0;

	for (unsigned i = 0; i < run->n; i++)
		if (!(raw >> i & 1))
			frame[n++] = run->page[i].frame;
	ts_pool_free(&media->pool, n, frame);
	TS_FAULT_POINT("worker: frames freed");
	ts_stage_release(media->stage, run->n);
}

static void work_on(const struct run *run)
{
	struct ts_media *media = &run->core->media;
	struct ts_batch batch = {
		.n = run->n,
		.slot = run->page[0].slot,
		.todo = still_staged(run),
	};
	uint64_t raw = 0;

	if (batch.todo != (1ull << run->n) - 1)
		ts_stats_add(&media->stats, TS_STAT_unstaged_pages,
			     run->n - __builtin_popcountll(batch.todo));
	for (unsigned i = 0; i < run->n; i++)
		batch.page[i] = ts_pool_addr(&media->pool, run->page[i].frame);
	if (batch.todo) {
		compress(run, &batch);
		TS_FAULT_POINT("worker: run compressed");
		raw = publish(run, &batch);
		TS_FAULT_POINT("worker: run published");
		ts_media_drop(media, batch.n, batch.word);
	}
	free_frames(run, raw);
	TS_FAULT_POINT("worker: frames freed");
}

static void *run_worker(void *arg)
{
	struct ts_worker *worker = arg;
	struct ts_workers *all = worker->all;
	struct run run = { .core = all->core };

	pthread_setname_np(pthread_self(), "ts-worker");
	while (ts_stage_wait(&all->stage)) {
		ts_lock(&worker->busy);
		run.n = ts_stage_take(&all->stage, run.page);
		if (run.n)
			work_on(&run);
		ts_unlock(&worker->busy);
	}
	return NULL;
}

int ts_workers_init(struct ts_workers *workers, struct ts_core *core,
		    unsigned n, uint64_t stage_bytes)
{
	int err;

	*workers = (struct ts_workers){ .core = core };
	workers->worker = calloc(n, sizeof(*workers->worker));
	if (!workers->worker)
		return -ENOMEM;
	workers->n = n;
	for (unsigned i = 0; i < n; i++) {
		workers->worker[i].all = workers;
		ts_mutex_init(&workers->worker[i].busy);
	}
	err = ts_stage_init(&workers->stage, (uint32_t)(stage_bytes >> 12));
	if (!err)
		core->media.stage = &workers->stage;
	return err;
}

void ts_workers_fini(struct ts_workers *workers)
{
	if (!workers->core)
		return;
	if (workers->n_running)
		ts_stage_stop(&workers->stage);
	for (unsigned i = 0; i < workers->n_running; i++)
		pthread_join(workers->worker[i].thread, NULL);
	for (unsigned i = 0; i < workers->n; i++)
		pthread_mutex_destroy(&workers->worker[i].busy);
	free(workers->worker);
	ts_stage_fini(&workers->stage);
	workers->core = NULL;
}

int ts_workers_start(struct ts_workers *workers)
{
	int err = 0;

	while (!err && workers->n_running < workers->n) {
		struct ts_worker *worker = &workers->worker[workers->n_running];

		err = pthread_create(&worker->thread, NULL, run_worker, worker);
		workers->n_running += !err;
	}
	return -err;
}

void ts_workers_rest(struct ts_workers *workers)
{
	for (unsigned i = 0; i < workers->n; i++)
		ts_lock(&workers->worker[i].busy);
}

void ts_workers_go_on(struct ts_workers *workers)
{
	for (unsigned i = 0; i < workers->n; i++)
		ts_unlock(&workers->worker[i].busy);
}
