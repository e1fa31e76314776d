/* SPDX-License-Identifier: BSD-3-Clause */
/* keeping.h - a kept store, and the journal of what it was told
 *
 * A child process serves and changes the store; a journal in shared memory
 * says for each slot what was tried and what was acknowledged. When the child
 * has died, the next one takes over: each slot must then hold what was
 * acknowledged last, or something later that was on its way; and everything
 * must be sound, seen from inside and from outside.
 *
 * The slots lie in two parts of the device that have leaves of their own.
 * Include it in programs that are linked with the library of fault points.
 */
#ifndef TS_TESTS_KEEPING_H
#define TS_TESTS_KEEPING_H

#include "fault.h"
#include "store.h"
#include "tests/common/rng.h"

#include <sys/types.h>

#define NEAR_SLOTS 1024u
#define FAR_SLOTS  128u
#define SLOTS	   (NEAR_SLOTS + FAR_SLOTS)
#define RUN_MAX	   48u
#define POINTS_MAX 256u

struct journal {
	uint32_t tried[SLOTS], acked[SLOTS];
	uint32_t ready;    /* the child has taken over and looked at all */
	uint32_t failed;
	uint32_t stopping; /* the child stops cleanly: pages may be gone */
	int segment;       /* that the pages are in */
	uint64_t segment_bytes;
	uint32_t no_stage; /* the child writes nothing behind */
	uint64_t verified, operations;

	/* Of fault points, by their number. */
	uint64_t hits[POINTS_MAX];
	uint32_t armed;    /* number + 1 of the one to die at; 0: none */
	uint64_t armed_hit; /* the how manieth time */
	uint32_t died;
	uint32_t last; /* number + 1 of the last one that was passed */
};

extern struct journal *journal;

/* In the parent: paths and the journal; and the end, which leaves nothing. */
void keeping_begin(bool with_spill);
void keeping_end(void);

/* Start a child that runs @fn. */
pid_t keeping_fork(void (*fn)(uint64_t seed), uint64_t seed);

/* How many segments of children of ours are left. */
unsigned keeping_leaks(void);

/* In a child: take over or begin anew, and check that all is well. */
struct ts_store *keeping_open(void);

/* Change the slots [first, first + n), up to RUN_MAX, in one request: write
 * them, discard them, or one of the two.
 */
void keeping_write(struct ts_store *store, uint32_t first, uint32_t n);
void keeping_change(struct ts_store *store, struct rng *rng, uint32_t first,
		    uint32_t n);
void keeping_discard(struct ts_store *store, uint32_t first, uint32_t n);

/* Change the dictionary; give up those that no page uses. */
void keeping_new_dictionary(struct ts_store *store);

/* Stop cleanly. */
void keeping_close(struct ts_store *store);

unsigned keeping_points(void);
const char *keeping_point_name(unsigned i);

/* Say what went wrong; the test fails. */
__attribute__((format(printf, 1, 2))) void keeping_wrong(const char *format,
							 ...);

#endif
