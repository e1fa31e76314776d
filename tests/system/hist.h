// SPDX-License-Identifier: BSD-3-Clause
/* hist.h - a log-linear histogram of times in nanoseconds
 *
 * Zero it to start, hist_add() each value, ask for hist_us(h, .99). 64 steps
 * an octave: a value is at most 1.6 % off. Single-threaded, never allocates.
 */
#pragma once
#include <stdint.h>

#define HIST_SUB_BITS 6
#define HIST_SUB (1u << HIST_SUB_BITS)
#define HIST_BUCKETS (HIST_SUB * 40)

struct hist {
	uint64_t count;
	uint64_t bucket[HIST_BUCKETS];
};

static inline unsigned hist_bucket(uint64_t ns)
{
	unsigned shift, b;

	if (ns < HIST_SUB)
		return (unsigned)ns;
	shift = 63u - (unsigned)__builtin_clzll(ns) - HIST_SUB_BITS;
	b = (shift + 1) * HIST_SUB + (unsigned)(ns >> shift) - HIST_SUB;
	return b < HIST_BUCKETS ? b : HIST_BUCKETS - 1;
}

/* The upper end of a bucket, in nanoseconds. */
static inline uint64_t hist_value(unsigned b)
{
	unsigned shift;

	if (b < HIST_SUB)
		return b;
	shift = b / HIST_SUB - 1;
	return (((uint64_t)(b % HIST_SUB) + HIST_SUB + 1) << shift) - 1;
}

static inline void hist_add(struct hist *h, uint64_t ns)
{
	h->count++;
	h->bucket[hist_bucket(ns)]++;
}

static inline double hist_us(const struct hist *h, double fraction)
{
	uint64_t seen = 0, want = (uint64_t)(fraction * (double)h->count);
	unsigned b;

	if (h->count == 0)
		return 0;
	if (want >= h->count)
		want = h->count - 1;
	for (b = 0; b < HIST_BUCKETS; b++) {
		seen += h->bucket[b];
		if (seen > want)
			return (double)hist_value(b) / 1e3;
	}
	return 0;
}
