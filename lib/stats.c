/* SPDX-License-Identifier: BSD-3-Clause */
/* stats.c - counters and gauges of the engine */
#include "stats.h"

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
