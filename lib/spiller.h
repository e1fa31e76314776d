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
#include "tier.h"

#define TS_PACKS TS_WORD_MARK_MAX

struct ts_spiller {
	struct ts_core *core;
	struct ts_tier tier;
	struct ts_io io;
	uint8_t *memory; /* of the packs, of cleaning, and for copies */
	uint8_t *copy_buf;
	struct ts_cleaner cleaner;
	struct ts_pack *pack; /* TS_PACKS of them */

	pthread_t thread;
	bool running;
	pthread_mutex_t busy; /* held while it works: hold it to have rest */
	pthread_mutex_t lock; /* a leaf */
	pthread_cond_t wake, served_some;
	/* Under the lock. */
	bool stop, kicked;
	uint64_t asked, served; /* rounds that writers wait for */
	bool made_room;         /* by the last round served */

	/* Device errors: after three in a row, or when every segment is bad,
	 * nothing is spilled until @retry_ns.
	 */
	unsigned failures;
	uint64_t retry_ns;
	bool degraded;

	/* The wear budget: a token bucket that starts full. */
	uint64_t wear_bytes_day; /* 0: none; changed at any time */
	bool wear_spent;         /* as of the last look */
	int64_t wear_tokens;
	uint64_t wear_ns; /* when tokens were last added */
};

/* Make the spiller of a core that has a spill tier. Returns 0 or -ENOMEM. */
int ts_spiller_init(struct ts_spiller *spiller, struct ts_core *core,
		    uint64_t wear_bytes_day, unsigned high_percent,
		    unsigned low_percent);
void ts_spiller_fini(struct ts_spiller *spiller);

/* Start and end the thread. Returns 0 or -errno. */
int ts_spiller_start(struct ts_spiller *spiller);
void ts_spiller_stop(struct ts_spiller *spiller);

/* Wake the spiller if it should look; cheap. For writers, after a write. */
void ts_spiller_kick(struct ts_spiller *spiller);

/* For a writer that found no memory: wait until the spiller has tried to make
 * room. Returns whether it has; if not, both tiers are full. Hold no lock.
 */
bool ts_spiller_make_room(struct ts_spiller *spiller);

#endif
