/* SPDX-License-Identifier: BSD-3-Clause */
/* worker.h - the threads that compress staged pages
 *
 * They are not in the request path: a worker may wait for memory and for the
 * spiller. If none runs, pages stay staged, which is a place like any other.
 */
#ifndef TS_WORKER_H
#define TS_WORKER_H

#include "core.h"
#include "stage.h"

#define TS_WORKERS_MAX 64u

/* One a processor is the default: compressing is all that they do. */
unsigned ts_n_cpus(void);

struct ts_worker {
	struct ts_workers *all;
	pthread_t thread;
	pthread_mutex_t busy; /* held while it has pages: see rest below */
};

struct ts_workers {
	struct ts_core *core;
	struct ts_stage stage;
	unsigned n, n_running;
	struct ts_worker *worker;
};

/* @n workers with stage frames of @stage_bytes in all; 0 of these: nothing is
 * ever staged. Returns 0 or -ENOMEM.
 */
int ts_workers_init(struct ts_workers *workers, struct ts_core *core,
		    unsigned n, uint64_t stage_bytes);
void ts_workers_fini(struct ts_workers *workers);

/* Returns 0 or -errno; what did start runs until ts_workers_fini(). */
int ts_workers_start(struct ts_workers *workers);

/* Keep all workers from touching anything, until ts_workers_go_on(). */
void ts_workers_rest(struct ts_workers *workers);
void ts_workers_go_on(struct ts_workers *workers);

#endif
