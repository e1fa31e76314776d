/* SPDX-License-Identifier: BSD-3-Clause */
/* core.h - what a store is made of
 *
 * Locks, outermost first; hold one of a kind at a time:
 *	compaction -> leaf -> cluster stripe -> pool class -> block list
 * None is held over compression, I/O or a system call.
 */
#ifndef TS_CORE_H
#define TS_CORE_H

#include "backend.h"
#include "cluster.h"
#include "event.h"
#include "kept.h"

/* What taking over took. */
struct ts_took_over {
	uint64_t pages;
	uint64_t words_ns;  /* to walk the words */
	uint64_t blocks_ns; /* to put blocks in order */
	uint64_t map_ns;    /* to map what is in memory */
};

struct ts_core {
	uint64_t n_slots;
	struct ts_took_over took_over;
	struct ts_kept kept; /* the shared segment */
	struct ts_media media;
	struct ts_clusters clusters;
	pthread_mutex_t compaction;
	struct ts_events events;
};

#endif
