/* SPDX-License-Identifier: BSD-3-Clause */
/* wear.h - how much may be written to the spill device: a token bucket
 *
 * The bucket holds an hour's share of the day's bytes and starts full. A write
 * is allowed while it is not overdrawn, so a large one is never cut; what was
 * overdrawn comes back before the next. Nothing of it survives a restart.
 * For one thread.
 */
#ifndef TS_WEAR_H
#define TS_WEAR_H

#include <stdbool.h>
#include <stdint.h>

struct ts_wear {
	uint64_t bytes_day; /* 0: no limit */
	int64_t tokens;     /* bytes */
	uint64_t filled_ns; /* when some were last added */
};

void ts_wear_init(struct ts_wear *wear, uint64_t bytes_day, uint64_t now_ns);

/* Whether something may be written now. */
bool ts_wear_allows(struct ts_wear *wear, uint64_t now_ns);

static inline void ts_wear_spend(struct ts_wear *wear, uint64_t bytes)
{
	wear->tokens -= (int64_t)bytes;
}

#endif
