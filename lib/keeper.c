/* SPDX-License-Identifier: BSD-3-Clause */
/* keeper.c - the thread that keeps memory ready for the request path
 *
 * It is woken when a quarter of the reserve is gone, and otherwise looks around
 * ever more seldom while nothing happens: four times a second after work,
 * then doubling up to a second.
 *
 * Free memory goes back to the system with hysteresis. Up to twice the
 * reserve is kept for good; what is beyond goes in halves, a half each
 * quarter of a second, so that discarding and filling again at once finds its
 * memory still there, and a program that ended has its swap memory returned
 * within a few seconds.
 */
#include "keeper.h"
#include "compact.h"
#include "train.h"
#include "util/atomic.h"
#include "util/lock.h"

#include <errno.h>

#define TICK_MIN_NS 250000000ull
#define TICK_MAX_NS 1000000000ull
#define TRAIN_TICK_NS 50000000ull
#define NO_MEMORY_PAUSE_NS 10000000ull
#define COMPACT_BLOCKS 64u
#define SHRINK_MIN_BLOCKS 64u

/* Returns whether the reserve asked for more, false when time is up. */
static bool wait_for_work(struct ts_keeper *keeper, uint64_t deadline_ns)
{
	struct ts_blocks *blocks = &keeper->core->media.blocks;
	bool wanted = false;
	int timeout = 0;

	ts_lock(&blocks->lock);
	while (!keeper->stop && !wanted && !timeout) {
		wanted = ts_blocks_wants_refill(blocks);
		if (!wanted)
			timeout = ts_cond_wait_until(&blocks->wake_keeper,
						     &blocks->lock,
						     deadline_ns);
	}
	ts_unlock(&blocks->lock);
	return wanted;
}

static bool shrink(struct ts_blocks *blocks)
{
	uint32_t have = ts_blocks_free_touched(blocks);
	uint32_t room = ts_blocks_room(blocks);
	uint32_t keep = 2 * blocks->reserve;
	uint32_t excess, give;

	/* A budget that was lowered leaves less than that. */
	if (keep > room)
		keep = room;
	excess = have > keep ? have - keep : 0;
	give = excess / 2 > SHRINK_MIN_BLOCKS ? excess / 2 : excess;

	return ts_blocks_shrink(blocks, have - give, give) > 0;
}

/* What is done at leisure. Returns whether there was anything to do. */
static bool tidy(struct ts_core *core)
{
	unsigned done = ts_compact(core, TS_SLACK_SOME, COMPACT_BLOCKS);

	done += ts_clusters_reclaim(&core->clusters);
	return shrink(&core->media.blocks) || done;
}

static void refill(struct ts_keeper *keeper)
{
	struct ts_blocks *blocks = &keeper->core->media.blocks;
	unsigned done;

	ts_lock(&keeper->busy);
	done = ts_blocks_refill(blocks, blocks->reserve);
	ts_unlock(&keeper->busy);
	/* No memory to be had: do not spin on it. */
	if (!done)
		ts_sleep_ns(NO_MEMORY_PAUSE_NS);
}

/* Returns when to look again: soon while a dictionary is being made. */
static uint64_t train(struct ts_core *core, uint64_t tick)
{
	struct ts_train *training = core->media.train;

	if (!training)
		return tick;
	ts_codec_retire(&core->media.codec);
	return ts_train_step(training) ? TRAIN_TICK_NS : tick;
}

static void *run(void *arg)
{
	struct ts_keeper *keeper = arg;
	uint64_t tick = TICK_MIN_NS, next = ts_now_ns() + tick;

	pthread_setname_np(pthread_self(), "ts-keeper");
	while (!ts_load_relaxed(&keeper->stop)) {
		if (wait_for_work(keeper, next)) {
			refill(keeper);
			tick = TICK_MIN_NS;
			if (next > ts_now_ns() + tick)
				next = ts_now_ns() + tick;
		}
		if (ts_now_ns() < next)
			continue;
		ts_lock(&keeper->busy);
		tick = tidy(keeper->core) ? TICK_MIN_NS : 2 * tick;
		if (keeper->look)
			keeper->look(keeper->look_opaque);
		ts_unlock(&keeper->busy);
		tick = train(keeper->core, tick);
		if (tick > TICK_MAX_NS)
			tick = TICK_MAX_NS;
		next = ts_now_ns() + tick;
	}
	return NULL;
}

void ts_keeper_init(struct ts_keeper *keeper, struct ts_core *core)
{
	*keeper = (struct ts_keeper){ .core = core };
	ts_mutex_init(&keeper->busy);
}

void ts_keeper_fini(struct ts_keeper *keeper)
{
	if (!keeper->core)
		return;
	ts_keeper_stop(keeper);
	pthread_mutex_destroy(&keeper->busy);
}

int ts_keeper_start(struct ts_keeper *keeper)
{
	struct ts_blocks *blocks = &keeper->core->media.blocks;
	bool short_of;
	int err;

	keeper->stop = false;
	ts_blocks_refill(blocks, blocks->reserve);
	ts_lock(&blocks->lock);
	short_of = ts_blocks_wants_refill(blocks);
	ts_unlock(&blocks->lock);
	if (short_of)
		return -ENOMEM;
	err = pthread_create(&keeper->thread, NULL, run, keeper);
	keeper->running = !err;
	return -err;
}

void ts_keeper_stop(struct ts_keeper *keeper)
{
	struct ts_blocks *blocks;

	if (!keeper->running)
		return;
	blocks = &keeper->core->media.blocks;
	ts_lock(&blocks->lock);
	ts_store_relaxed(&keeper->stop, true);
	pthread_cond_signal(&blocks->wake_keeper);
	ts_unlock(&blocks->lock);
	pthread_join(keeper->thread, NULL);
	keeper->running = false;
}
