/* SPDX-License-Identifier: BSD-3-Clause */
/* stats.h - counters, gauges and latency histograms of the engine
 *
 * Each thread adds to a shard of its own with relaxed atomics, so the request
 * path shares no cache line. A change of several gauges that belong together
 * (a page is now of another kind) is put between begin and end: a reader that
 * sums with ts_stats_sum_all() then never sees half of it.
 *
 * The shards are private memory or lie in a statistics file (statsfile.h).
 */
#ifndef TS_STATS_H
#define TS_STATS_H

#include "latency.h"
#include "util/atomic.h"
#include "util/ticks.h"

#include <stdbool.h>
#include <stdint.h>

enum ts_stat {
#define TS_STAT(name, kind, unit, text) TS_STAT_##name,
#include "stats.def"
	TS_N_STATS
};

enum ts_gauge {
#define TS_GAUGE(name, unit, text) TS_GAUGE_##name,
#include "stats.def"
	TS_N_GAUGES
};

enum ts_latency_id {
#define TS_HIST(name, text) TS_HIST_##name,
#include "stats.def"
	TS_N_HISTS
};

#define TS_STAT_SHARDS 16u

/* 0 in one build only, by which tests/bench/statscost.py finds what counting
 * and timing cost: nothing is then counted or timed.
 */
#ifndef TS_STATS_ON
#define TS_STATS_ON 1
#endif

struct ts_stats_shard {
	_Alignas(64) int64_t value[TS_N_STATS];
	uint64_t begun, ended; /* changes that belong together */
	struct ts_latency hist[TS_N_HISTS];
};

struct ts_stats {
	struct ts_stats_shard *shard; /* TS_STAT_SHARDS of them */
};

/* All shards, summed. */
struct ts_stats_sums {
	int64_t value[TS_N_STATS];
	struct ts_latency hist[TS_N_HISTS];
	bool consistent; /* no shard was caught in the middle of a change */
};

/* Make private, touched shards. Returns 0 or -ENOMEM. */
int ts_stats_init(struct ts_stats *stats);
void ts_stats_fini(struct ts_stats *stats);

/* Touch private shards again, after a fork. */
void ts_stats_touch(struct ts_stats *stats);

/* The calling thread's shard number, given out in turn at first use. */
unsigned ts_stats_shard(void);

static inline void ts_stats_add(struct ts_stats *stats, enum ts_stat which,
				int64_t by)
{
	if (TS_STATS_ON && by)
		ts_add_relaxed(&stats->shard[ts_stats_shard()].value[which],
			       by);
}

/* A change: begin, one or more ts_stats_move(), end, all in one thread.
 * Threads may share a shard, so this is a pair of counters instead of an odd
 * and even one: a reader that finds both the same, the one before and the
 * other after its look, knows that nobody was inside.
 */
static inline void ts_stats_begin(struct ts_stats *stats)
{
	if (TS_STATS_ON)
		ts_add_relaxed(&stats->shard[ts_stats_shard()].begun, 1);
}

static inline void ts_stats_move(struct ts_stats *stats, enum ts_stat which,
				 int64_t by)
{
	/* Who sees this sees that the change has begun; see read_values(). */
	if (TS_STATS_ON && by)
		ts_add_release(&stats->shard[ts_stats_shard()].value[which],
			       by);
}

static inline void ts_stats_end(struct ts_stats *stats)
{
	/* Who sees this sees the whole change. */
	if (TS_STATS_ON)
		ts_add_release(&stats->shard[ts_stats_shard()].ended, 1);
}

/* The start of something that is timed. */
static inline uint64_t ts_stats_start(void)
{
	return TS_STATS_ON ? ts_ticks() : 0;
}

/* Record that @n things took @ns each. */
static inline void ts_stats_time(struct ts_stats *stats,
				 enum ts_latency_id which, uint64_t ns,
				 unsigned n)
{
	struct ts_latency *hist = &stats->shard[ts_stats_shard()].hist[which];

	ts_add_relaxed(&hist->bucket[ts_latency_bucket(ns)], n);
	ts_add_relaxed(&hist->sum_ns, ns * n);
}

/* The same for the time since @start, of ts_stats_start(), in which @n things were
 * done.
 */
static inline void ts_stats_took(struct ts_stats *stats,
				 enum ts_latency_id which, uint64_t start,
				 unsigned n)
{
	if (TS_STATS_ON && n)
		ts_stats_time(stats, which, ts_ticks_since_ns(start) / n, n);
}

/* One value; exact when nothing is running. */
int64_t ts_stats_sum(const struct ts_stats *stats, enum ts_stat which);

/* Everything. Never waits: where a shard is changed all the time, or its
 * thread has stopped within a change, what is there is taken and the sums are
 * marked as not consistent.
 */
void ts_stats_sum_all(const struct ts_stats *stats, struct ts_stats_sums *ret);

#endif
