/* SPDX-License-Identifier: BSD-3-Clause */
/* rig.h - a store with a spill file, and slots whose contents are known
 *
 * The file is on disk (in $TMPDIR, else /var/tmp) and has no name any more
 * once the store runs, so that nothing is left behind however a test ends.
 *
 * What a slot holds follows from its number and a generation. Threads may
 * share a rig as long as no two use one slot at a time.
 */
#ifndef TS_TESTS_SPILL_RIG_H
#define TS_TESTS_SPILL_RIG_H

#include "store.h"
#include "tests/common/pages.h"
#include "tests/common/rig.h"
#include "tests/common/rng.h"

struct spill_rig {
	struct ts_params params; /* to be changed before the start */
	struct ts_store *store;
	int fd;     /* of the spill file, buffered */
	char *said; /* all events, a line each */
	unsigned n_slots;
	uint32_t *generation; /* 0: discarded */
};

/* Parameters: @size_bytes of device, @ram_bytes, a spill file of
 * @spill_bytes.
 */
void spill_rig_init(struct spill_rig *rig, uint64_t size_bytes,
		    uint64_t ram_bytes, uint64_t spill_bytes);
void spill_rig_start(struct spill_rig *rig);
void spill_rig_end(struct spill_rig *rig);

/* Write the next generation. After -ENOSPC the slot is as it was. */
int slot_write(struct spill_rig *rig, unsigned slot);
void slot_discard(struct spill_rig *rig, unsigned slot);

/* Whether the slot can be read. It dies if that gives anything but what was
 * written, or an error but EIO.
 */
bool slot_reads(struct spill_rig *rig, unsigned slot);

/* All slots must be readable. */
void slots_verify(struct spill_rig *rig);

/* Slots that are in the spill file now. */
bool slot_is_spilled(struct spill_rig *rig, unsigned slot, ts_word *ret_word);

/* Wait until the spiller has nothing in flight; then walk everything. */
void spill_rig_check(struct spill_rig *rig);

struct ts_counters spill_rig_counters(struct spill_rig *rig);

/* Wait, at most a minute, until a condition holds; die naming it if not. */
#define WAIT_FOR(condition)                                                    \
	do {                                                                   \
		int tries_ = 6000;                                             \
		while (!(condition) && tries_--)                               \
			ts_sleep_ns(10000000);                                 \
		if (!(condition))                                              \
			rig_die("in vain for a minute: " #condition);          \
	} while (0)

#endif
