/* SPDX-License-Identifier: BSD-3-Clause */
/* segment.c - the segments of the spill file: which are free, who lives where
 *
 * Free segments are claimed in the order of the file, so that writing is
 * sequential as long as the file is not crowded. A segment becomes free by
 * three conditions at once: full, nothing live, no pins; free_if_dead() looks
 * at them after each change.
 */
#include "spill/segment.h"
#include "fault.h"
#include "kept.h"
#include "util/atomic.h"
#include "util/lock.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>

int ts_segments_init(struct ts_segments *segments, uint32_t n)
{
	*segments = (struct ts_segments){ .n = n, .n_free = n };
	segments->segment = calloc(n, sizeof(*segments->segment));
	if (!segments->segment)
		return -ENOMEM;
	ts_mutex_init(&segments->lock);
	return 0;
}

void ts_segments_fini(struct ts_segments *segments)
{
	if (!segments->segment)
		return;
	pthread_mutex_destroy(&segments->lock);
	free(segments->segment);
	segments->segment = NULL;
}

void ts_segments_keep(struct ts_segments *segments,
		      struct ts_kept_segment *kept, uint64_t *generation)
{
	segments->kept = kept;
	segments->kept_generation = generation;
	segments->generation = *generation;
}

void ts_segment_adopt(struct ts_segments *segments, uint32_t segment,
		      unsigned bytes)
{
	ts_add_relaxed(&segments->segment[segment].live_bytes, bytes);
	ts_add_relaxed(&segments->live_bytes, bytes);
}

void ts_segments_adopted(struct ts_segments *segments)
{
	for (uint32_t i = 0; i < segments->n; i++) {
		struct ts_segment *s = &segments->segment[i];

		s->generation = segments->kept[i].generation;
		s->table_off = segments->kept[i].table_off;
		s->n_records = segments->kept[i].n_records;
		if (!s->live_bytes)
			continue;
		s->state = TS_SEGMENT_FULL;
		segments->n_free--;
	}
}

/* What a reader after a kill needs must be there before a word says so. */
static void keep(struct ts_segments *segments, const struct ts_segment *s)
{
	size_t i = (size_t)(s - segments->segment);

	if (!segments->kept)
		return;
	segments->kept[i] = (struct ts_kept_segment){
		.generation = s->generation,
		.table_off = s->table_off,
		.n_records = s->n_records,
	};
	TS_FAULT_POINT("segment: generation kept");
	ts_store_release(segments->kept_generation, segments->generation);
	TS_FAULT_POINT("segment: last generation kept");
}

int ts_segment_claim(struct ts_segments *segments, uint32_t *ret_segment,
		     uint64_t *ret_generation)
{
	struct ts_segment *s;
	int err = -ENOSPC;

	ts_lock(&segments->lock);
	if (segments->n_free) {
		while (segments->segment[segments->hand].state !=
		       TS_SEGMENT_FREE)
			segments->hand = (segments->hand + 1) % segments->n;
		s = &segments->segment[segments->hand];
		segments->n_dirty -= s->dirty;
		*s = (struct ts_segment){
			.state = TS_SEGMENT_FILLING,
			.generation = ++segments->generation,
		};
		keep(segments, s);
		segments->n_free--;
		*ret_segment = segments->hand;
		*ret_generation = s->generation;
		segments->hand = (segments->hand + 1) % segments->n;
		err = 0;
	}
	ts_unlock(&segments->lock);
	return err;
}

static void ease(struct ts_segments *segments)
{
	ts_store_relaxed(&segments->eased, segments->eased + 1);
}

static void free_if_dead(struct ts_segments *segments, struct ts_segment *s)
{
	if (s->state != TS_SEGMENT_FULL || s->live_bytes || s->pins)
		return;
	s->state = TS_SEGMENT_FREE;
	TS_FAULT_POINT("segment: free again");
	s->dirty = true;
	segments->n_free++;
	segments->n_dirty++;
}

void ts_segment_seal(struct ts_segments *segments, uint32_t segment,
		     uint32_t table_off, uint32_t n_records)
{
	struct ts_segment *s = &segments->segment[segment];

	ts_lock(&segments->lock);
	assert(s->state == TS_SEGMENT_FILLING);
	s->state = TS_SEGMENT_FULL;
	s->table_off = table_off;
	s->n_records = n_records;
	keep(segments, s);
	free_if_dead(segments, s);
	ts_unlock(&segments->lock);
}

void ts_segment_fail(struct ts_segments *segments, uint32_t segment)
{
	struct ts_segment *s = &segments->segment[segment];

	ts_lock(&segments->lock);
	assert(s->state == TS_SEGMENT_FILLING && !s->live_bytes);
	s->state = TS_SEGMENT_BAD;
	segments->n_bad++;
	ts_unlock(&segments->lock);
}

void ts_segments_retry(struct ts_segments *segments)
{
	ts_lock(&segments->lock);
	for (uint32_t i = 0; i < segments->n; i++) {
		segments->segment[i].skip = false;
		if (segments->segment[i].state != TS_SEGMENT_BAD)
			continue;
		segments->segment[i].state = TS_SEGMENT_FREE;
		segments->n_bad--;
		segments->n_free++;
	}
	ease(segments);
	ts_unlock(&segments->lock);
}

void ts_segment_born(struct ts_segments *segments, uint32_t segment,
		     unsigned bytes)
{
	ts_lock(&segments->lock);
	segments->segment[segment].live_bytes += bytes;
	segments->live_bytes += bytes;
	ts_unlock(&segments->lock);
}

void ts_segment_died(struct ts_segments *segments, uint32_t segment,
		     unsigned bytes)
{
	struct ts_segment *s = &segments->segment[segment];

	ts_lock(&segments->lock);
	assert(s->live_bytes >= bytes);
	s->live_bytes -= bytes;
	segments->live_bytes -= bytes;
	ease(segments);
	free_if_dead(segments, s);
	ts_unlock(&segments->lock);
}

uint64_t ts_segment_pin(struct ts_segments *segments, uint32_t segment)
{
	uint64_t generation;

	ts_lock(&segments->lock);
	segments->segment[segment].pins++;
	generation = segments->segment[segment].generation;
	ts_unlock(&segments->lock);
	return generation;
}

void ts_segment_unpin(struct ts_segments *segments, uint32_t segment)
{
	struct ts_segment *s = &segments->segment[segment];

	ts_lock(&segments->lock);
	assert(s->pins);
	s->pins--;
	ease(segments);
	free_if_dead(segments, s);
	ts_unlock(&segments->lock);
}

bool ts_segment_emptiest(struct ts_segments *segments, uint32_t max_live,
			 uint32_t *ret_segment, struct ts_segment *ret_copy)
{
	uint32_t best = segments->n;

	ts_lock(&segments->lock);
	for (uint32_t i = 0; i < segments->n; i++) {
		const struct ts_segment *s = &segments->segment[i];

		if (s->state != TS_SEGMENT_FULL || s->skip || s->pins ||
		    s->live_bytes >= max_live)
			continue;
		max_live = s->live_bytes;
		best = i;
	}
	if (best < segments->n) {
		segments->segment[best].pins++;
		*ret_copy = segments->segment[best];
		*ret_segment = best;
	}
	ts_unlock(&segments->lock);
	return best < segments->n;
}

uint32_t ts_segment_claim_dirty(struct ts_segments *segments, uint32_t max,
				uint32_t *ret_first)
{
	uint32_t i, n = 0;

	ts_lock(&segments->lock);
	if (segments->n_dirty) {
		for (i = segments->dirty_hand; !segments->segment[i].dirty;)
			i = (i + 1) % segments->n;
		*ret_first = i;
		for (; n < max && i < segments->n && segments->segment[i].dirty;
		     i++, n++) {
			segments->segment[i].state = TS_SEGMENT_FILLING;
			segments->segment[i].dirty = false;
		}
		segments->n_dirty -= n;
		segments->n_free -= n;
		segments->dirty_hand = i % segments->n;
	}
	ts_unlock(&segments->lock);
	return n;
}

void ts_segment_release(struct ts_segments *segments, uint32_t first,
			uint32_t n)
{
	ts_lock(&segments->lock);
	for (uint32_t i = first; i < first + n; i++)
		segments->segment[i].state = TS_SEGMENT_FREE;
	segments->n_free += n;
	ts_unlock(&segments->lock);
}

void ts_segment_skip(struct ts_segments *segments, uint32_t segment)
{
	ts_lock(&segments->lock);
	segments->segment[segment].skip = true;
	ts_unlock(&segments->lock);
}

uint64_t ts_segments_eased(const struct ts_segments *segments)
{
	return ts_load_relaxed(&segments->eased);
}

uint32_t ts_segments_free(struct ts_segments *segments)
{
	uint32_t n;

	ts_lock(&segments->lock);
	n = segments->n_free;
	ts_unlock(&segments->lock);
	return n;
}

const char *ts_segments_check(struct ts_segments *segments)
{
	uint32_t n_free = 0, n_bad = 0, n_dirty = 0;
	const char *wrong = NULL;
	uint64_t live = 0;

	ts_lock(&segments->lock);
	for (uint32_t i = 0; i < segments->n; i++) {
		const struct ts_segment *s = &segments->segment[i];

		n_free += s->state == TS_SEGMENT_FREE;
		n_bad += s->state == TS_SEGMENT_BAD;
		n_dirty += s->dirty;
		if (s->dirty && s->state != TS_SEGMENT_FREE)
			wrong = "a segment in use is to be discarded";
		live += s->live_bytes;
		if (s->state != TS_SEGMENT_FULL &&
		    s->state != TS_SEGMENT_FILLING && s->live_bytes)
			wrong = "a segment that is not full has live records";
	}
	if (n_free != segments->n_free || n_bad != segments->n_bad ||
	    n_dirty != segments->n_dirty)
		wrong = "segments: states and counts disagree";
	if (live != segments->live_bytes)
		wrong = "segments: live bytes do not add up";
	ts_unlock(&segments->lock);
	return wrong;
}
