/* SPDX-License-Identifier: BSD-3-Clause */
/* latency.h - which bucket a duration belongs to, and percentiles of buckets
 *
 * Log-linear: every power of two is cut in TS_LATENCY_SUB equal parts, so a
 * bucket is at most 1/8 wide of its value, whatever the value.
 *
 *	bucket 0                   below 2^TS_LATENCY_MIN_SHIFT ns (256 ns)
 *	1 + 8 o + s                octave o, part s of it
 *	TS_LATENCY_BUCKETS - 1        2^TS_LATENCY_MAX_SHIFT ns (69 s) and more
 */
#ifndef TS_LATENCY_H
#define TS_LATENCY_H

#include <stdint.h>

#define TS_LATENCY_MIN_SHIFT 8u
#define TS_LATENCY_MAX_SHIFT 36u
#define TS_LATENCY_SUB_SHIFT 3u
#define TS_LATENCY_SUB       (1u << TS_LATENCY_SUB_SHIFT)
#define TS_LATENCY_BUCKETS                                                     \
	(2 + (TS_LATENCY_MAX_SHIFT - TS_LATENCY_MIN_SHIFT) * TS_LATENCY_SUB)

struct ts_latency {
	uint64_t sum_ns;
	uint64_t bucket[TS_LATENCY_BUCKETS];
};

static inline unsigned ts_latency_bucket(uint64_t ns)
{
	unsigned shift, octave, part;

	if (ns < 1u << TS_LATENCY_MIN_SHIFT)
		return 0;
	shift = 63 - (unsigned)__builtin_clzll(ns);
	if (shift >= TS_LATENCY_MAX_SHIFT)
		return TS_LATENCY_BUCKETS - 1;
	octave = shift - TS_LATENCY_MIN_SHIFT;
	part = (unsigned)(ns >> (shift - TS_LATENCY_SUB_SHIFT)) %
	       TS_LATENCY_SUB;
	return 1 + octave * TS_LATENCY_SUB + part;
}

/* The upper end of a bucket, which is not part of it; UINT64_MAX for the
 * last one.
 */
uint64_t ts_latency_end_ns(unsigned bucket);

uint64_t ts_latency_count(const struct ts_latency *hist);

/* A duration that @permille of the recorded ones do not exceed: the upper end
 * of the bucket that it lies in. 0 when nothing was recorded.
 */
uint64_t ts_latency_quantile_ns(const struct ts_latency *hist,
				unsigned permille);

/* What @now has that @before had not. */
void ts_latency_minus(const struct ts_latency *now,
		      const struct ts_latency *before, struct ts_latency *ret);

#endif
