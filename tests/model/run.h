/* SPDX-License-Identifier: BSD-3-Clause */
/* run.h - one run of the model test: its options, threads and pauses */
#ifndef TS_TESTS_MODEL_RUN_H
#define TS_TESTS_MODEL_RUN_H

#include "tests/common/model.h"

#include <pthread.h>

#define MAX_THREADS 8u

struct run {
	unsigned n_threads;
	uint64_t n_ops; /* of each thread */
	uint64_t seed;
	uint64_t size_bytes, ram_bytes;
	uint64_t spill_bytes; /* 0: no spill file */
	uint64_t write_behind_bytes;
	bool no_uring, plain;
	bool expect_full; /* refusals and compaction must have happened */
	bool expect_cleaned;

	struct ts_store *store;
	pthread_barrier_t pause;
};

/* Operations between two pauses at which the store is checked. */
#define OPS_TO_PAUSE 250u

/* To be called by every thread before each of its operations: now and then
 * all threads stop, and one walks the store.
 */
void run_pause(struct run *run, unsigned thread, uint64_t op);

/* Run fn(opaque, thread) in @run->n_threads threads. */
void run_threads(struct run *run, void (*fn)(void *opaque, unsigned thread),
		 void *opaque);

/* A generator for a thread. */
struct rng run_rng(const struct run *run, unsigned thread);

/* The variants. */
void run_exact(struct run *run);
void run_shared(struct run *run);
void run_lanes(struct run *run);

#endif
