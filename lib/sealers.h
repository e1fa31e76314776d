/* SPDX-License-Identifier: BSD-3-Clause */
/* sealers.h - threads that help to seal the records of a pack
 *
 * The cipher is what limits spilling: one thread does not keep up with an SSD.
 * There is one helper for each processor but one, TS_SEALERS_MAX at most; with
 * a single processor there is none. They sleep unless a pack is to be sealed.
 */
#ifndef TS_SEALERS_H
#define TS_SEALERS_H

#include "pack.h"

#define TS_SEALERS_MAX 3u

struct ts_sealers {
	pthread_t thread[TS_SEALERS_MAX];
	unsigned n;
	pthread_mutex_t lock; /* a leaf */
	pthread_cond_t wake, idle;
	/* Under the lock. */
	struct ts_pack *pack; /* to be sealed, or NULL */
	unsigned at_work;
	bool stop;
	/* While there is a pack. */
	const struct ts_seal *seal;
	uint32_t next; /* record that nobody has taken; atomic */
};

/* Start the helpers. Fewer than wanted, or none, will do. */
void ts_sealers_start(struct ts_sealers *sealers);

/* End them. A zeroed struct is fine. */
void ts_sealers_stop(struct ts_sealers *sealers);

/* Seal all records of a pack. For one thread at a time, which helps, too. */
void ts_sealers_run(struct ts_sealers *sealers, struct ts_pack *pack,
		    const struct ts_seal *seal);

#endif
