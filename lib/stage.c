/* SPDX-License-Identifier: BSD-3-Clause */
/* stage.c - pages that were accepted and wait to be compressed */
#include "stage.h"
#include "cluster.h"
#include "fault.h"
#include "util/atomic.h"
#include "util/lock.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* How long a worker waits for more than a few pages to come. */
#define LINGER_NS 1000000u

int ts_stage_init(struct ts_stage *stage, uint32_t n_frames)
{
	stage->queue = calloc(n_frames, sizeof(*stage->queue));
	if (!stage->queue)
		return -ENOMEM;
	/* Not sparse: the request path must not fault here. */
	memset(stage->queue, 1, n_frames * sizeof(*stage->queue));
	stage->n_frames = stage->n_free = n_frames;
	ts_mutex_init(&stage->lock);
	ts_cond_init(&stage->bell);
	return 0;
}

void ts_stage_fini(struct ts_stage *stage)
{
	if (!stage->queue)
		return;
	free(stage->queue);
	stage->queue = NULL;
	pthread_mutex_destroy(&stage->lock);
	pthread_cond_destroy(&stage->bell);
}

bool ts_stage_may_take(const struct ts_media *media, uint64_t n)
{
	const struct ts_stage *stage = media->stage;

	return stage && ts_load_relaxed(&stage->n_free) >= n &&
	       ts_blocks_headroom(&media->blocks) >
		       2 * (stage->n_frames / TS_BLOCK_PAGES);
}

bool ts_stage_reserve(struct ts_stage *stage, unsigned n)
{
	bool enough;

	ts_lock(&stage->lock);
	enough = stage->n_free >= n;
	if (enough)
		ts_store_relaxed(&stage->n_free, stage->n_free - n);
	ts_unlock(&stage->lock);
	return enough;
}

void ts_stage_release(struct ts_stage *stage, unsigned n)
{
	ts_lock(&stage->lock);
	ts_store_relaxed(&stage->n_free, stage->n_free + n);
	ts_unlock(&stage->lock);
}

static void append(struct ts_stage *stage, uint64_t slot, ts_obj frame)
{
	uint32_t at = stage->first + stage->n++;

	stage->queue[at % stage->n_frames] = (struct ts_staged){slot, frame};
}

void ts_stage_submit(struct ts_stage *stage, const struct ts_batch *batch)
{
	uint32_t before;

	TS_FAULT_POINT("stage: published, not queued");
	ts_lock(&stage->lock);
	before = stage->n;
	for (uint64_t m = batch->staged; m; m &= m - 1) {
		unsigned i = ts_batch_first(m);

		append(stage, batch->slot + i, ts_word_obj(batch->word[i]));
	}
	TS_FAULT_POINT("stage: batch queued");
	if (stage->n_waiting &&
	    (!before || before / TS_STAGE_RUN != stage->n / TS_STAGE_RUN))
		pthread_cond_signal(&stage->bell);
	ts_unlock(&stage->lock);
}

bool ts_stage_adopt(struct ts_stage *stage, struct ts_staged staged)
{
	if (!ts_stage_reserve(stage, 1))
		return false;
	ts_lock(&stage->lock);
	append(stage, staged.slot, staged.frame);
	ts_unlock(&stage->lock);
	return true;
}

void ts_stage_abandon(struct ts_media *media, const struct ts_batch *batch)
{
	ts_obj frame[TS_BATCH_PAGES];
	unsigned n = 0;

	for (uint64_t m = batch->staged; m; m &= m - 1)
		frame[n++] = ts_word_obj(batch->word[ts_batch_first(m)]);
	ts_pool_free(&media->pool, n, frame);
	ts_stage_release(media->stage, n);
}

/* Whether a staged page comes right behind another and shares its cluster. */
static bool follows(const struct ts_staged *next, const struct ts_staged *s)
{
	return next->slot == s->slot + 1 && next->slot % TS_CLUSTER_SLOTS;
}

bool ts_stage_wait(struct ts_stage *stage)
{
	uint64_t until = 0;
	bool go_on;

	ts_lock(&stage->lock);
	stage->n_waiting++;
	while (!stage->stop && stage->n < TS_STAGE_RUN) {
		if (!stage->n) {
			until = 0;
			pthread_cond_wait(&stage->bell, &stage->lock);
		} else if (!until) {
			until = ts_now_ns() + LINGER_NS;
		} else if (ts_cond_wait_until(&stage->bell, &stage->lock,
					      until)) {
			break;
		}
	}
	stage->n_waiting--;
	go_on = !stage->stop;
	ts_unlock(&stage->lock);
	return go_on;
}

unsigned ts_stage_take(struct ts_stage *stage, struct ts_staged *ret_run)
{
	unsigned n = 0;

	ts_lock(&stage->lock);
	while (stage->n && n < TS_STAGE_RUN) {
		ret_run[n] = stage->queue[stage->first];
		if (n && !follows(&ret_run[n], &ret_run[n - 1]))
			break;
		stage->first = (stage->first + 1) % stage->n_frames;
		stage->n--;
		n++;
	}
	TS_FAULT_POINT("stage: run taken");
	ts_unlock(&stage->lock);
	return n;
}

void ts_stage_stop(struct ts_stage *stage)
{
	ts_lock(&stage->lock);
	stage->stop = true;
	pthread_cond_broadcast(&stage->bell);
	ts_unlock(&stage->lock);
}
