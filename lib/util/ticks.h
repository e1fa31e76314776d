/* SPDX-License-Identifier: BSD-3-Clause */
/* ticks.h - a cheap clock, for durations
 *
 *	uint64_t start = ts_ticks();
 *	...
 *	took_ns = ts_ticks_since_ns(start);
 *
 * Ticks are those of the processor's time stamp counter where the kernel itself
 * goes by it, having found that it is steady and the same on all processors:
 * reading it costs a third of clock_gettime(). Elsewhere, and before
 * ts_ticks_init(), they are nanoseconds of the monotonic clock.
 */
#ifndef TS_UTIL_TICKS_H
#define TS_UTIL_TICKS_H

#include "util/lock.h"

#include <stdbool.h>
#include <stdint.h>
#ifdef __x86_64__
#include <x86intrin.h>
#endif

struct ts_ticks {
	uint64_t scale; /* nanoseconds a tick, times 2^32 */
	bool tsc;
};
extern struct ts_ticks ts_ticks_clock;

/* Choose and measure the clock; before any thread uses it. Takes some ms the
 * first time, and nothing again.
 */
void ts_ticks_init(void);

static inline uint64_t ts_ticks(void)
{
#ifdef __x86_64__
	if (ts_ticks_clock.tsc)
		return __rdtsc();
#endif
	return ts_now_ns();
}

/* How long @ticks are. A thread that was moved to a processor whose counter
 * lags by a hair may see a start in the future: that was no time at all.
 */
static inline uint64_t ts_ticks_ns(uint64_t ticks)
{
	if ((int64_t)ticks < 0)
		return 0;
	return (uint64_t)(((unsigned __int128)ticks * ts_ticks_clock.scale) >>
			  32);
}

static inline uint64_t ts_ticks_since_ns(uint64_t start)
{
	return ts_ticks_ns(ts_ticks() - start);
}

#endif
