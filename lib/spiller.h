/* SPDX-License-Identifier: BSD-3-Clause */
/* spiller.h - the thread that moves cold pages to the spill file
 *
 * It wakes by itself when memory runs low, and at once for a writer that finds
 * the budget used up. Several segments are in flight at a time.
 */
#ifndef TS_SPILLER_H
#define TS_SPILLER_H

#include "clean.h"
#include "core.h"
#include "pack.h"
#include "sealers.h"
#include "tier.h"
#include "wear.h"

#define TS_PACKS TS_WORD_MARK_MAX

struct ts_spiller {
	struct ts_core *core;
	struct ts_tier tier;
	struct ts_io io;
	struct ts_sealers sealers;
	uint8_t *memory; /* of the packs and of cleaning */
	struct ts_cleaner cleaner;
	struct ts_pack *pack; /* TS_PACKS of them */

	pthread_t thread;
	bool running;
	pthread_mutex_t busy; /* held while it works: hold it to have rest */
	pthread_mutex_t lock; /* a leaf */
	pthread_cond_t wake, served_some;
	/* Under the lock. */
	bool stop, kicked;
	uint64_t asked;  /* the last ticket that a writer drew */
	uint64_t served; /* of those, the last that need not wait any more */
	uint64_t roomy;  /* the last served after room was made */

	/* Both tiers are full, and were when ts_segments_eased() gave this. */
	bool full;
	uint64_t full_eased;
	bool blocked; /* the last round did nothing: no use in kicking */

	/* Device errors: after three in a row nothing is spilled but one
	 * segment now and then, until one has arrived.
	 */
	unsigned failures;
	int last_error;
	uint64_t retry_ns, pause_ns;
	bool degraded;

	struct ts_wear wear;
	bool wear_waits; /* when it is spent, writers wait */
	bool wear_spent;
};

/* Make the spiller of a core that has a spill tier. Returns 0 or -ENOMEM. */
int ts_spiller_init(struct ts_spiller *spiller, struct ts_core *core,
		    const struct ts_params *params);
void ts_spiller_fini(struct ts_spiller *spiller);

/* Start and end the thread. Returns 0 or -errno. */
int ts_spiller_start(struct ts_spiller *spiller);
void ts_spiller_stop(struct ts_spiller *spiller);

/* Wake the spiller if it should look; cheap. For writers, after a write. */
void ts_spiller_kick(struct ts_spiller *spiller);

/* For a writer that found no memory: wait until the spiller has tried to make
 * room. Returns whether it has; if not, both tiers are full, or the spill
 * device fails, or its wear budget is spent. While nothing changes about full
 * tiers, that is said without waiting. Hold no lock.
 */
bool ts_spiller_make_room(struct ts_spiller *spiller);

#endif
