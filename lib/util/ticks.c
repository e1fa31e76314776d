// SPDX-License-Identifier: BSD-3-Clause
/* ticks.c - a cheap clock, for durations
 *
 * The counter's rate is measured against the monotonic clock over some
 * milliseconds. Both ends are pairs of readings; of several, the pair that was
 * read the quickest counts, so that being put to sleep between the two does
 * not spoil it: what is left is below a ten thousandth.
 */
#include "util/ticks.h"

#include <stdio.h>
#include <string.h>

#define CLOCKSOURCE                                                            \
	"/sys/devices/system/clocksource/clocksource0/current_clocksource"
#define MEASURE_NS 2000000u
#define PAIRS      8u

struct ts_ticks ts_ticks_clock = {.scale = 1ull << 32};

#ifdef __x86_64__

struct pair {
	uint64_t ns, tsc;
};

static struct pair read_pair(void)
{
	uint64_t quickest = UINT64_MAX;
	struct pair best = {0};

	for (unsigned i = 0; i < PAIRS; i++) {
		uint64_t before = ts_now_ns();
		uint64_t tsc = __rdtsc();
		uint64_t took = ts_now_ns() - before;

		if (took < quickest) {
			quickest = took;
			best = (struct pair){before + took / 2, tsc};
		}
	}
	return best;
}

static bool kernel_goes_by_tsc(void)
{
	FILE *file = fopen(CLOCKSOURCE, "re");
	char name[32] = "";

	if (!file)
		return false;
	if (!fgets(name, sizeof(name), file))
		name[0] = '\0';
	fclose(file);
	return strcmp(name, "tsc\n") == 0;
}

static void choose(void)
{
	struct pair from, to;

	if (!kernel_goes_by_tsc())
		return;
	from = read_pair();
	ts_sleep_ns(MEASURE_NS);
	to = read_pair();
	if (to.tsc <= from.tsc || to.ns <= from.ns)
		return;
	ts_ticks_clock.scale =
		(uint64_t)(((unsigned __int128)(to.ns - from.ns) << 32) /
			   (to.tsc - from.tsc));
	ts_ticks_clock.tsc = true;
}

#else

static void choose(void)
{
}

#endif

void ts_ticks_init(void)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;

	pthread_once(&once, choose);
}
