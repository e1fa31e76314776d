/* SPDX-License-Identifier: BSD-3-Clause */
/* hist.h - log-linear histogram of latencies
 *
 * Values are nanoseconds. Each power of two is cut into 64 equal parts, so a
 * percentile is at most 1.6 % above the true one, from 64 ns to 2^40 ns (18
 * minutes; what is longer counts as that long). Recording is a few
 * instructions and never allocates. Not thread safe: one a thread, then
 * merge.
 */
#ifndef TS_BENCH_HIST_H
#define TS_BENCH_HIST_H

#include <stdint.h>

#define TS_HIST_SUB_BITS 6
#define TS_HIST_MAX_BITS 40
#define TS_HIST_BUCKETS                                                        \
	((TS_HIST_MAX_BITS - TS_HIST_SUB_BITS + 1) << TS_HIST_SUB_BITS)

struct ts_hist {
	uint64_t count;
	uint64_t max_ns;
	uint64_t sum_ns;
	uint64_t bucket[TS_HIST_BUCKETS];
};

void ts_hist_add(struct ts_hist *hist, uint64_t value_ns);
void ts_hist_merge(struct ts_hist *into, const struct ts_hist *from);

/* The smallest bucket border that at least @share (0 .. 1) of the values do
 * not exceed; 0 for an empty histogram.
 */
uint64_t ts_hist_percentile(const struct ts_hist *hist, double share);

#endif
