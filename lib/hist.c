/* SPDX-License-Identifier: BSD-3-Clause */
/* hist.c - which bucket a duration belongs to, and percentiles of buckets */
#include "hist.h"

uint64_t ts_hist_end_ns(unsigned bucket)
{
	unsigned octave, part;

	if (bucket >= TS_HIST_BUCKETS - 1)
		return UINT64_MAX;
	octave = bucket ? (bucket - 1) / TS_HIST_SUB : 0;
	part = bucket ? (bucket - 1) % TS_HIST_SUB + 1 : 0;
	return (uint64_t)(TS_HIST_SUB + part)
	       << (octave + TS_HIST_MIN_SHIFT - TS_HIST_SUB_SHIFT);
}

uint64_t ts_hist_count(const struct ts_hist *hist)
{
	uint64_t n = 0;

	for (unsigned i = 0; i < TS_HIST_BUCKETS; i++)
		n += hist->bucket[i];
	return n;
}

uint64_t ts_hist_quantile_ns(const struct ts_hist *hist, unsigned permille)
{
	uint64_t n = ts_hist_count(hist), seen = 0, want;

	if (!n)
		return 0;
	/* The rank, rounded up: p99 of one measurement is that one. */
	want = n / 1000 * permille + (n % 1000 * permille + 999) / 1000;
	if (!want)
		want = 1;
	for (unsigned i = 0; i < TS_HIST_BUCKETS; i++) {
		seen += hist->bucket[i];
		if (seen >= want)
			return ts_hist_end_ns(i);
	}
	return UINT64_MAX;
}

void ts_hist_minus(const struct ts_hist *now, const struct ts_hist *before,
		   struct ts_hist *ret)
{
	ret->sum_ns = now->sum_ns - before->sum_ns;
	for (unsigned i = 0; i < TS_HIST_BUCKETS; i++)
		ret->bucket[i] = now->bucket[i] > before->bucket[i] ?
					 now->bucket[i] - before->bucket[i] :
					 0;
}
