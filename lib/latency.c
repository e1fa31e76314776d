/* SPDX-License-Identifier: BSD-3-Clause */
/* latency.c - which bucket a duration belongs to, and percentiles of buckets */
#include "latency.h"

uint64_t ts_latency_end_ns(unsigned bucket)
{
	unsigned octave, part;

	if (bucket >= TS_LATENCY_BUCKETS - 1)
		return UINT64_MAX;
	octave = bucket ? (bucket - 1) / TS_LATENCY_SUB : 0;
	part = bucket ? (bucket - 1) % TS_LATENCY_SUB + 1 : 0;
	return (uint64_t)(TS_LATENCY_SUB + part)
	       << (octave + TS_LATENCY_MIN_SHIFT - TS_LATENCY_SUB_SHIFT);
}

uint64_t ts_latency_count(const struct ts_latency *hist)
{
	uint64_t n = 0;

	for (unsigned i = 0; i < TS_LATENCY_BUCKETS; i++)
		n += hist->bucket[i];
	return n;
}

uint64_t ts_latency_quantile_ns(const struct ts_latency *hist,
				unsigned permille)
{
	uint64_t n = ts_latency_count(hist), seen = 0, want;

	if (!n)
		return 0;
	/* The rank, rounded up: p99 of one measurement is that one. */
	want = n / 1000 * permille + (n % 1000 * permille + 999) / 1000;
	if (!want)
		want = 1;
	for (unsigned i = 0; i < TS_LATENCY_BUCKETS; i++) {
		seen += hist->bucket[i];
		if (seen >= want)
			return ts_latency_end_ns(i);
	}
	return UINT64_MAX;
}

void ts_latency_minus(const struct ts_latency *now,
		      const struct ts_latency *before, struct ts_latency *ret)
{
	ret->sum_ns = now->sum_ns - before->sum_ns;
	for (unsigned i = 0; i < TS_LATENCY_BUCKETS; i++)
		ret->bucket[i] = now->bucket[i] > before->bucket[i]
					 ? now->bucket[i] - before->bucket[i]
					 : 0;
}
