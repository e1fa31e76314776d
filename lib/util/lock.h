/* SPDX-License-Identifier: BSD-3-Clause */
/* lock.h - mutexes and conditions that cannot fail
 *
 * A pthread call on a well-formed default mutex fails only by a programming
 * error, so that is asserted here once. Waits use the monotonic clock.
 */
#ifndef TS_UTIL_LOCK_H
#define TS_UTIL_LOCK_H

#include <assert.h>
#include <pthread.h>
#include <stdint.h>
#include <time.h>

static inline void ts_mutex_init(pthread_mutex_t *m)
{
	int err = pthread_mutex_init(m, NULL);

	assert(!err);
	(void)err;
}

static inline void ts_lock(pthread_mutex_t *m)
{
	int err = pthread_mutex_lock(m);

	assert(!err);
	(void)err;
}

static inline void ts_unlock(pthread_mutex_t *m)
{
	int err = pthread_mutex_unlock(m);

	assert(!err);
	(void)err;
}

static inline void ts_cond_init(pthread_cond_t *c)
{
	pthread_condattr_t attr;

	pthread_condattr_init(&attr);
	pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
	pthread_cond_init(c, &attr);
	pthread_condattr_destroy(&attr);
}

static inline uint64_t ts_now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static inline void ts_sleep_ns(uint64_t ns)
{
	struct timespec t = {
		.tv_sec = (time_t)(ns / 1000000000u),
		.tv_nsec = (long)(ns % 1000000000u),
	};

	nanosleep(&t, NULL);
}

/* Wait for a signal, at most until @deadline_ns of ts_now_ns(). Returns 0 or
 * ETIMEDOUT; as ever, the caller looks at its condition again.
 */
static inline int ts_cond_wait_until(pthread_cond_t *c, pthread_mutex_t *m,
				     uint64_t deadline_ns)
{
	struct timespec t = {
		.tv_sec = (time_t)(deadline_ns / 1000000000u),
		.tv_nsec = (long)(deadline_ns % 1000000000u),
	};

	return pthread_cond_timedwait(c, m, &t);
}

#endif
