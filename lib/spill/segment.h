/* SPDX-License-Identifier: BSD-3-Clause */
/* segment.h - the segments of the spill file: which are free, who lives where
 *
 *	free --claim--> filling --sealed--> full --last record dies--> free
 *	                   |                 `--clean--> (emptied) ------^
 *	                   `--write failed--> bad --later--> free
 *
 * Live     bytes of records that a word names. A record dies when its word is
 *          replaced; the segment that loses its last is free at once.
 * Pins     a reader pins a segment while its cluster is locked and reads
 *          afterwards; a pinned segment is not filled again.
 * Locks    One, a leaf; may be taken under a cluster's.
 */
#ifndef TS_SPILL_SEGMENT_H
#define TS_SPILL_SEGMENT_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

struct ts_kept_segment;

enum ts_segment_state {
	TS_SEGMENT_FREE,
	TS_SEGMENT_FILLING,
	TS_SEGMENT_FULL,
	TS_SEGMENT_BAD,
};

struct ts_segment {
	uint64_t generation; /* of what is in it; see seal.h */
	uint32_t live_bytes;
	uint32_t table_off; /* of the sealed table of slots */
	uint32_t n_records; /* entries of the table */
	uint32_t pins;
	uint8_t state;
	bool skip;  /* cleaning was not able to empty it */
	bool dirty; /* freed since the device was told so */
};

struct ts_segments {
	pthread_mutex_t lock;
	struct ts_segment *segment;
	struct ts_kept_segment *kept; /* or NULL */
	uint64_t *kept_generation;
	uint32_t n;
	/* Under the lock. */
	uint64_t generation; /* the last one given out */
	uint32_t n_free, n_bad;
	uint32_t hand; /* where to look for a free one */
	uint32_t n_dirty;
	uint32_t dirty_hand; /* where to look for one */
	uint64_t live_bytes;
	uint64_t eased; /* counts what may have made room; read anywhere */
};

/* Returns 0 or -ENOMEM. */
int ts_segments_init(struct ts_segments *segments, uint32_t n);
void ts_segments_fini(struct ts_segments *segments);

/* Keep what is needed to read and clean segments in memory that outlives the
 * process. Call before anything else uses them.
 */
void ts_segments_keep(struct ts_segments *segments,
		      struct ts_kept_segment *kept, uint64_t *generation);

/* For recovery: a record of @bytes lives in a segment, said by several threads
 * at a time; and all have been noted.
 */
void ts_segment_adopt(struct ts_segments *segments, uint32_t segment,
		      unsigned bytes);
void ts_segments_adopted(struct ts_segments *segments);

/* Take a free segment, the next one in the order of the file, and give it a
 * new generation. Returns 0 or -ENOSPC.
 */
int ts_segment_claim(struct ts_segments *segments, uint32_t *ret_segment,
		     uint64_t *ret_generation);

/* The segment has been written and its records published. One in which
 * nothing lives any more is free.
 */
void ts_segment_seal(struct ts_segments *segments, uint32_t segment,
		     uint32_t table_off, uint32_t n_records);

/* Writing it failed, nothing was published. Not used again until
 * ts_segments_retry(), after which cleaning may try again as well.
 */
void ts_segment_fail(struct ts_segments *segments, uint32_t segment);
void ts_segments_retry(struct ts_segments *segments);

/* A record was published, or died. */
void ts_segment_born(struct ts_segments *segments, uint32_t segment,
		     unsigned bytes);
void ts_segment_died(struct ts_segments *segments, uint32_t segment,
		     unsigned bytes);

/* Keep a segment as it is while it is read. Returns its generation. */
uint64_t ts_segment_pin(struct ts_segments *segments, uint32_t segment);
void ts_segment_unpin(struct ts_segments *segments, uint32_t segment);

/* The full segment with the fewest live bytes, if fewer than @max_live; it is
 * pinned. Returns whether there is one.
 */
bool ts_segment_emptiest(struct ts_segments *segments, uint32_t max_live,
			 uint32_t *ret_segment, struct ts_segment *ret_copy);

/* Cleaning was not able to empty the segment; do not try again. */
void ts_segment_skip(struct ts_segments *segments, uint32_t segment);

/* Take a run of free segments that the device still thinks are in use, at most
 * @max, to tell it, and put them back. Returns how many; 0: there are none.
 */
uint32_t ts_segment_claim_dirty(struct ts_segments *segments, uint32_t max,
				uint32_t *ret_first);
void ts_segment_release(struct ts_segments *segments, uint32_t first,
			uint32_t n);

uint32_t ts_segments_free(struct ts_segments *segments);

/* Changes whenever room may have been made: a record died, a reader went. So
 * whoever found no room need not look again before it does. Without locks.
 */
uint64_t ts_segments_eased(const struct ts_segments *segments);

/* Walk the segments. Returns NULL or what is wrong. */
const char *ts_segments_check(struct ts_segments *segments);

#endif
