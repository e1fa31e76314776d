/* SPDX-License-Identifier: BSD-3-Clause */
/* stats.h - counters and gauges of the engine
 *
 * Each thread adds to a shard of its own with relaxed atomics, so the request
 * path shares no cache line. Reading sums the shards: sums are exact when
 * nothing is running, and at most some requests off otherwise.
 */
#ifndef TS_STATS_H
#define TS_STATS_H

#include "util/atomic.h"

#include <stdint.h>

enum ts_stat {
#define TS_STAT(name, kind, unit, text) TS_STAT_##name,
#include "stats.def"
#undef TS_STAT
	TS_N_STATS
};

#define TS_STAT_SHARDS 16u

struct ts_stats {
	struct {
		_Alignas(64) int64_t value[TS_N_STATS];
	} shard[TS_STAT_SHARDS];
};

/* The calling thread's shard number, given out in turn at first use. */
unsigned ts_stats_shard(void);

static inline void ts_stats_add(struct ts_stats *stats, enum ts_stat which,
				int64_t by)
{
	if (by)
		ts_add_relaxed(&stats->shard[ts_stats_shard()].value[which],
			       by);
}

int64_t ts_stats_sum(const struct ts_stats *stats, enum ts_stat which);

#endif
