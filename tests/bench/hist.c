/* SPDX-License-Identifier: BSD-3-Clause */
/* hist.c - log-linear histogram of latencies
 *
 * Values below 2^6 have a bucket each. Above, the top set bit chooses the
 * group, and the six bits below it the bucket inside the group.
 */
#include "hist.h"

#include <string.h>

static unsigned bucket_of(uint64_t value)
{
	if (value >= 1ull << TS_HIST_MAX_BITS)
		value = (1ull << TS_HIST_MAX_BITS) - 1;
	if (value < 1u << TS_HIST_SUB_BITS)
		return value;

	unsigned shift = 63 - __builtin_clzll(value) - TS_HIST_SUB_BITS;

	/* value >> shift is 64..127: its top bit counts for the group. */
	return (shift << TS_HIST_SUB_BITS) + (value >> shift);
}

/* The largest value that falls into the bucket. */
static uint64_t upper_end(unsigned bucket)
{
	if (bucket < 2u << TS_HIST_SUB_BITS)
		return bucket;

	unsigned shift = (bucket >> TS_HIST_SUB_BITS) - 1;
	uint64_t top = bucket - (shift << TS_HIST_SUB_BITS);

	return ((top + 1) << shift) - 1;
}

void ts_hist_add(struct ts_hist *hist, uint64_t value_ns)
{
	hist->count++;
	hist->sum_ns += value_ns;
	if (value_ns > hist->max_ns)
		hist->max_ns = value_ns;
	hist->bucket[bucket_of(value_ns)]++;
}

void ts_hist_merge(struct ts_hist *into, const struct ts_hist *from)
{
	into->count += from->count;
	into->sum_ns += from->sum_ns;
	if (from->max_ns > into->max_ns)
		into->max_ns = from->max_ns;
	for (unsigned i = 0; i < TS_HIST_BUCKETS; i++)
		into->bucket[i] += from->bucket[i];
}

uint64_t ts_hist_percentile(const struct ts_hist *hist, double share)
{
	uint64_t below = 0;

	if (!hist->count)
		return 0;
	for (unsigned i = 0; i < TS_HIST_BUCKETS; i++) {
		below += hist->bucket[i];
		if (below >= share * hist->count) {
			uint64_t end = upper_end(i);

			return end < hist->max_ns ? end : hist->max_ns;
		}
	}
	return hist->max_ns;
}
