/* SPDX-License-Identifier: BSD-3-Clause */
/* wear.c - how much may be written to the spill device: a token bucket */
#include "wear.h"

#define DAY_NS (86400ull * 1000000000)
#define HOURS 24

static int64_t most(const struct ts_wear *wear)
{
	return (int64_t)(wear->bytes_day / HOURS);
}

void ts_wear_init(struct ts_wear *wear, uint64_t bytes_day, uint64_t now_ns)
{
	*wear = (struct ts_wear){
		.bytes_day = bytes_day,
		.filled_ns = now_ns,
	};
	wear->tokens = most(wear);
}

bool ts_wear_allows(struct ts_wear *wear, uint64_t now_ns)
{
	int64_t more;

	if (!wear->bytes_day)
		return true;
	more = (int64_t)((unsigned __int128)(now_ns - wear->filled_ns) *
			 wear->bytes_day / DAY_NS);
	/* Less than a byte is not thrown away, but waits for the next call. */
	if (more > 0) {
		wear->tokens += more;
		wear->filled_ns = now_ns;
	}
	if (wear->tokens > most(wear))
		wear->tokens = most(wear);
	return wear->tokens >= 0;
}
