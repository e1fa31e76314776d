/* SPDX-License-Identifier: BSD-3-Clause */
/* stage.h - pages that were accepted and wait to be compressed
 *
 * A staged page is a raw page of the pool, the frame, that somebody is still
 * to compress: its check is in its word and its slot in the note, so one that
 * does not compress becomes raw by a change of its word alone, and a fresh
 * process finds it like any other page.
 *
 * Owner    A frame belongs to its place in the queue, not to its word: who
 *          overwrites or discards a staged page frees nothing. The worker
 *          that takes the frame out of the queue looks whether the word still
 *          names it, and frees it. So a worker reads frames without a lock.
 * Room     At most n_frames are out at a time. A write that finds too few is
 *          compressed by its own thread: that is the back-pressure.
 * Doorbell Workers that find nothing sleep. The first page in an empty queue
 *          wakes one, which then waits some time for more to come; later
 *          pages wake one for every TS_STAGE_RUN. So there are few system
 *          calls, and what a wait needs of the kernel is a futex, which
 *          allocates nothing.
 */
#ifndef TS_STAGE_H
#define TS_STAGE_H

#include "backend.h"

/* Pages that a worker takes in one go: enough that doorbells and locks cost
 * little, few enough that all workers get some.
 */
#define TS_STAGE_RUN 16u

struct ts_staged {
	uint64_t slot;
	ts_obj frame;
};

struct ts_stage {
	pthread_mutex_t lock; /* a leaf: nothing is taken under it */
	pthread_cond_t bell;
	struct ts_staged *queue; /* a ring of n_frames */
	uint32_t n_frames;
	/* Under the lock: */
	uint32_t n_free; /* frames that nobody has; read without it, too */
	uint32_t first, n;
	unsigned n_waiting;
	bool stop;
};

/* Returns 0 or -ENOMEM. */
int ts_stage_init(struct ts_stage *stage, uint32_t n_frames);
void ts_stage_fini(struct ts_stage *stage);

/* Whether so many frames could be had just now: there are enough, and room in
 * the budget for all frames and as much again.
 */
bool ts_stage_may_take(const struct ts_media *media, uint64_t n);

/* Reserve frames, all or none; and give them back. */
bool ts_stage_reserve(struct ts_stage *stage, unsigned n);
void ts_stage_release(struct ts_stage *stage, unsigned n);

/* Queue the frames of a batch; its words are published. */
void ts_stage_submit(struct ts_stage *stage, const struct ts_batch *batch);

/* Queue one frame that is there already. For recovery. Returns false when
 * there is no room for it.
 */
bool ts_stage_adopt(struct ts_stage *stage, struct ts_staged staged);

/* Free the frames of a batch that is not to be published. */
void ts_stage_abandon(struct ts_media *media, const struct ts_batch *batch);

/* Wait until there is something to take. Returns false after
 * ts_stage_stop().
 */
bool ts_stage_wait(struct ts_stage *stage);

/* Take up to TS_STAGE_RUN pages of consecutive slots of one cluster out of
 * the queue. Returns how many; 0 when others were faster.
 */
unsigned ts_stage_take(struct ts_stage *stage, struct ts_staged *ret_run);

/* Let no worker wait any more. What is queued stays so. */
void ts_stage_stop(struct ts_stage *stage);

#endif
