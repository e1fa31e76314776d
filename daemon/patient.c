// SPDX-License-Identifier: BSD-3-Clause
/* patient.c - a call that may never return, waited for with a limit
 *
 * A thread makes it. Caller and thread share what the last of them frees.
 */
#include "patient.h"

#include <errno.h>
#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "util/lock.h"

#define STEP_NS     20000000ull
#define STACK_BYTES (64u << 10)

struct call {
	pthread_mutex_t lock; /* for the three below */
	pthread_cond_t ended;
	bool has_ended, is_given_up;
	int result;
	int (*call)(void *arg);
	void (*undo)(void *arg);
	_Alignas(16) uint8_t arg[];
};

static void free_call(struct call *call)
{
	pthread_cond_destroy(&call->ended);
	pthread_mutex_destroy(&call->lock);
	free(call);
}

static void *make_call(void *opaque)
{
	struct call *call = opaque;
	bool is_given_up;
	int result = call->call(call->arg);

	ts_lock(&call->lock);
	call->result = result;
	call->has_ended = true;
	is_given_up = call->is_given_up;
	pthread_cond_signal(&call->ended);
	ts_unlock(&call->lock);
	if (!is_given_up)
		return NULL;
	if (call->undo)
		call->undo(call->arg);
	free_call(call);
	return NULL;
}

static int start_thread(struct call *call)
{
	pthread_attr_t attr;
	pthread_t thread;
	int err;

	pthread_attr_init(&attr);
	pthread_attr_setstacksize(&attr, STACK_BYTES);
	pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
	err = pthread_create(&thread, &attr, make_call, call);
	pthread_attr_destroy(&attr);
	return -err;
}

/* 0 when it has ended; the lock is held. */
static int wait_for(struct call *call, const struct ts_patient *how)
{
	uint64_t now = ts_now_ns(), end = UINT64_MAX;

	if (how->timeout_ms >= 0)
		end = now + how->timeout_ms * 1000000ull;
	while (!call->has_ended) {
		if (how->must_stop(how->opaque))
			return -ECANCELED;
		if (now >= end)
			return -ETIMEDOUT;
		ts_cond_wait_until(&call->ended, &call->lock, now + STEP_NS);
		now = ts_now_ns();
	}
	return 0;
}

int ts_patient_call(const struct ts_patient *how, void *arg,
		    size_t arg_bytes)
{
	struct call *call = calloc(1, sizeof(*call) + arg_bytes);
	int err;

	if (!call)
		return -ENOMEM;
	ts_mutex_init(&call->lock);
	ts_cond_init(&call->ended);
	call->call = how->call;
	call->undo = how->undo;
	memcpy(call->arg, arg, arg_bytes);
	err = start_thread(call);
	if (err < 0) {
		free_call(call);
		return err;
	}
	ts_lock(&call->lock);
	err = wait_for(call, how);
	call->is_given_up = err < 0;
	ts_unlock(&call->lock);
	if (err < 0)
		return err;
	memcpy(arg, call->arg, arg_bytes);
	err = call->result;
	free_call(call);
	return err;
}
