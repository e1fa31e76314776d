/* SPDX-License-Identifier: BSD-3-Clause */
/* rehearse.c - be ready to take kept memory over while its server lives
 *
 * What a store takes from malloc is found out by making one: with the same
 * sizes, empty, and freed again. The allocator keeps what it got, and that is
 * touched, so that the real one finds it. What an empty store does not have
 * (dictionaries, the spill tier's buffers) is estimated. The same for threads:
 * the C library keeps the stacks of some that were there.
 *
 * That works as far as the allocator gives nothing back: thinswapd sets its
 * thresholds, and memory that is locked cannot be dropped.
 */
#include "kept.h"
#include "cluster.h"
#include "shm.h"
#include "thinswap.h"
#include "util/harden.h"

#include <errno.h>
#include <malloc.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define DICT_ROOM_BYTES	 (1u << 20)
#define SPILL_ROOM_BYTES (6u << 20)
#define N_STACKS	 6u

static void *stand_by(void *opaque)
{
	ts_harden_touch_stack();
	pthread_barrier_wait(opaque);
	return NULL;
}

/* All at the same time, so that each has a stack of its own. */
static int make_stacks(void)
{
	pthread_t threads[N_STACKS];
	pthread_barrier_t all;
	unsigned n = 0;
	int err = 0;

	pthread_barrier_init(&all, NULL, N_STACKS + 1);
	while (n < N_STACKS && !err) {
		err = pthread_create(&threads[n], NULL, stand_by, &all);
		if (!err)
			n++;
	}
	/* Those that wait cannot be let go without the rest. */
	if (err)
		return -err;
	pthread_barrier_wait(&all);
	while (n--)
		pthread_join(threads[n], NULL);
	pthread_barrier_destroy(&all);
	return 0;
}

/* Freed together at the end, so that they lie behind each other. */
static int make_room(size_t bytes)
{
	void *room = malloc(bytes);
	int err;

	if (!room)
		return -ENOMEM;
	err = ts_shm_touch(room, bytes);
	free(room);
	return err;
}

static int play_store(const struct ts_params *params, char *err,
		      size_t err_bytes)
{
	struct ts_params empty = *params;
	struct ts_store *store;
	int error;

	empty.keep_path = empty.spill_path = empty.stats_path = NULL;
	empty.trainer = NULL;
	error = ts_store_new(&empty, &store, err, err_bytes);
	if (!error)
		ts_store_free(store);
	return error;
}

int ts_store_rehearse(const struct ts_params *params, char *err,
		      size_t err_bytes)
{
	struct ts_kept_size size = {
		.n_slots = params->size_bytes >> TS_SLOT_SHIFT,
		.n_blocks = (uint32_t)(params->ram_max_bytes >> TS_BLOCK_SHIFT),
	};
	int error;

	if (!params->keep_path) {
		snprintf(err, err_bytes, "nothing is kept without keep=");
		return -EINVAL;
	}
	error = ts_kept_prepare(&size, params->keep_path, err, err_bytes);
	if (!error)
		error = play_store(params, err, err_bytes);
	if (error)
		return error;
	error = make_room(DICT_ROOM_BYTES +
			  (params->spill_path ? SPILL_ROOM_BYTES : 0));
	if (!error)
		error = make_stacks();
	if (!error)
		error = ts_harden_touch_heap();
	if (error)
		snprintf(err, err_bytes, "no memory to stand by with: %s",
			 strerror(-error));
	return error;
}
