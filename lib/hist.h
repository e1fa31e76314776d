/* SPDX-License-Identifier: BSD-3-Clause */
/* hist.h - which bucket a duration belongs to, and percentiles of buckets
 *
 * Log-linear: every power of two is cut in TS_HIST_SUB equal parts, so a
 * bucket is at most 1/8 wide of its value, whatever the value.
 *
 *	bucket 0                   below 2^TS_HIST_MIN_SHIFT ns (256 ns)
 *	1 + 8 o + s                octave o, part s of it
 *	TS_HIST_BUCKETS - 1        2^TS_HIST_MAX_SHIFT ns (69 s) and more
 */
#ifndef TS_HIST_H
#define TS_HIST_H

#include <stdint.h>

#define TS_HIST_MIN_SHIFT 8u
#define TS_HIST_MAX_SHIFT 36u
#define TS_HIST_SUB_SHIFT 3u
#define TS_HIST_SUB (1u << TS_HIST_SUB_SHIFT)
#define TS_HIST_BUCKETS                                                        \
	(2 + (TS_HIST_MAX_SHIFT - TS_HIST_MIN_SHIFT) * TS_HIST_SUB)

struct ts_hist {
	uint64_t sum_ns;
	uint64_t bucket[TS_HIST_BUCKETS];
};

static inline unsigned ts_hist_bucket(uint64_t ns)
{
	unsigned shift, octave, part;

	if (ns < 1u << TS_HIST_MIN_SHIFT)
		return 0;
	shift = 63 - (unsigned)__builtin_clzll(ns);
	if (shift >= TS_HIST_MAX_SHIFT)
		return TS_HIST_BUCKETS - 1;
	octave = shift - TS_HIST_MIN_SHIFT;
	part = (unsigned)(ns >> (shift - TS_HIST_SUB_SHIFT)) % TS_HIST_SUB;
	return 1 + octave * TS_HIST_SUB + part;
}

/* The upper end of a bucket, which is not part of it; UINT64_MAX for the
 * last one.
 */
uint64_t ts_hist_end_ns(unsigned bucket);

uint64_t ts_hist_count(const struct ts_hist *hist);

/* A duration that @permille of the recorded ones do not exceed: the upper end
 * of the bucket that it lies in. 0 when nothing was recorded.
 */
uint64_t ts_hist_quantile_ns(const struct ts_hist *hist, unsigned permille);

/* What @now has that @before had not. */
void ts_hist_minus(const struct ts_hist *now, const struct ts_hist *before,
		   struct ts_hist *ret);

#endif
