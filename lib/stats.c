/* SPDX-License-Identifier: BSD-3-Clause */
/* stats.c - counters, gauges and latency histograms of the engine
 *
 * Each change is complete within one shard. So a sum of shards that were each
 * read between two changes is consistent, although they were read one after
 * the other.
 */
#include "stats.h"
#include "shm.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define READ_TRIES 1000u

int ts_stats_init(struct ts_stats *stats)
{
	const size_t bytes = TS_STAT_SHARDS * sizeof(*stats->shard);

	stats->shard = aligned_alloc(64, bytes);
	if (!stats->shard)
		return -ENOMEM;
	memset(stats->shard, 0, bytes);
	return 0;
}

void ts_stats_fini(struct ts_stats *stats)
{
	free(stats->shard);
	stats->shard = NULL;
}

void ts_stats_touch(struct ts_stats *stats)
{
	ts_shm_touch(stats->shard, TS_STAT_SHARDS * sizeof(*stats->shard));
}

unsigned ts_stats_shard(void)
{
	static unsigned next;
	/* Initial-exec: the first use in a thread must not allocate. */
	static _Thread_local unsigned mine
		__attribute__((tls_model("initial-exec"))); /* plus one */

	if (!mine)
		mine = ts_add_relaxed(&next, 1) % TS_STAT_SHARDS + 1;
	return mine - 1;
}

int64_t ts_stats_sum(const struct ts_stats *stats, enum ts_stat which)
{
	int64_t sum = 0;

	for (unsigned i = 0; i < TS_STAT_SHARDS; i++)
		sum += ts_load_relaxed(&stats->shard[i].value[which]);
	return sum;
}

/* Read the values of one shard between two changes. */
static bool read_values(const struct ts_stats_shard *shard,
			int64_t ret[TS_N_STATS])
{
	for (unsigned try = 0; try < READ_TRIES; try++) {
		/* Pairs with ts_stats_end(): what has ended is seen. */
		uint64_t ended = ts_load_acquire(&shard->ended);

		/* Pairs with ts_stats_move(): what is seen has begun. */
		for (unsigned i = 0; i < TS_N_STATS; i++)
			ret[i] = ts_load_acquire(&shard->value[i]);
		if (ts_load_relaxed(&shard->begun) == ended)
			return true;
	}
	return false;
}

static void add_hist(struct ts_latency *sum, const struct ts_latency *hist)
{
	sum->sum_ns += ts_load_relaxed(&hist->sum_ns);
	for (unsigned i = 0; i < TS_LATENCY_BUCKETS; i++)
		sum->bucket[i] += ts_load_relaxed(&hist->bucket[i]);
}

void ts_stats_sum_all(const struct ts_stats *stats, struct ts_stats_sums *ret)
{
	memset(ret, 0, sizeof(*ret));
	ret->consistent = true;
	for (unsigned i = 0; i < TS_STAT_SHARDS; i++) {
		const struct ts_stats_shard *shard = &stats->shard[i];
		int64_t value[TS_N_STATS];

		ret->consistent &= read_values(shard, value);
		for (unsigned k = 0; k < TS_N_STATS; k++)
			ret->value[k] += value[k];
		for (unsigned k = 0; k < TS_N_HISTS; k++)
			add_hist(&ret->hist[k], &shard->hist[k]);
	}
}
