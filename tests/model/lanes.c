// SPDX-License-Identifier: BSD-3-Clause
/* lanes.c - threads that write parts of the same slots (cases 14, 18)
 *
 * Each slot has a lane of 512 bytes for each thread. A lane has one writer,
 * so its writer knows what is in it, whatever happens to the others.
 */
#include "tests/model/run.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define LANE_BYTES 512ull

struct lanes {
	struct run *run;
	unsigned n_slots;
};

static uint64_t lane_off(unsigned slot, unsigned thread)
{
	return slot * 4096ull + thread * LANE_BYTES;
}

static void check_lane(struct lanes *l, unsigned slot, unsigned thread,
		       const uint8_t *expected)
{
	uint8_t now[LANE_BYTES];
	int err = ts_store_read(l->run->store, now, sizeof(now),
				lane_off(slot, thread));

	if (err)
		rig_die("read: %s", strerror(-err));
	if (memcmp(now, expected, sizeof(now)))
		rig_die("slot %u: the lane of %u was undone", slot, thread);
}

static void thread_main(void *opaque, unsigned thread)
{
	struct lanes *l = opaque;
	struct rng rng = run_rng(l->run, thread);
	uint8_t(*lane)[LANE_BYTES] = calloc(l->n_slots, LANE_BYTES);
	int err;

	if (!lane)
		rig_die("no memory for the test");
	for (uint64_t op = 0; op < l->run->n_ops; op++) {
		unsigned slot = (unsigned)rng_below(&rng, l->n_slots);
		uint8_t page[PAGE_BYTES];

		run_pause(l->run, thread, op);
		check_lane(l, slot, thread, lane[slot]);
		page_make(page, (enum page_kind)rng_below(&rng, PAGE_KINDS),
			  rng_next(&rng));
		if (rng_below(&rng, 4)) {
			err = ts_store_write(l->run->store, page, LANE_BYTES,
					     lane_off(slot, thread));
			memcpy(lane[slot], page, LANE_BYTES);
		} else {
			err = ts_store_zero(l->run->store, LANE_BYTES,
					    lane_off(slot, thread));
			memset(lane[slot], 0, LANE_BYTES);
		}
		if (err)
			rig_die("write: %s", strerror(-err));
	}
	for (unsigned slot = 0; slot < l->n_slots; slot++)
		check_lane(l, slot, thread, lane[slot]);
	free(lane);
}

void run_lanes(struct run *run)
{
	struct lanes l = {
		.run = run,
		.n_slots = (unsigned)(run->size_bytes / 4096),
	};

	run_threads(run, thread_main, &l);
}
