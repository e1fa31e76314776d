/* SPDX-License-Identifier: BSD-3-Clause */
/* spiller.c - the thread that moves cold pages to the spill file
 *
 * One round: while memory is low, claim a segment, fill a pack from the clock,
 * start its write, and publish packs whose writes are done. When free segments
 * are short, the pack takes what lives in the emptiest ones instead. The last
 * free one is kept back for that, so that cleaning can always go on.
 *
 * A round serves the writers that asked before it began, and whenever a
 * segment has freed memory, all those that wait by then: they do not wait for
 * the whole round.
 */
#include "spiller.h"
#include "compact.h"
#include "event.h"
#include "fault.h"
#include "util/atomic.h"
#include "util/harden.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* The packs' segments, and one for cleaning. */
#define MEMORY_BYTES ((TS_PACKS + 1) * (size_t)TS_SEGMENT_BYTES)
#define IDLE_NS 1000000000ull
#define RETRY_MIN_NS 1000000000ull
#define RETRY_MAX_NS 64000000000ull
#define WEAR_WAIT_NS 100000000ull
#define FAILURES_MAX 3u
#define COMPACT_BLOCKS 64u
#define KEPT_FOR_CLEANING 1u
/* Few: what is kept free makes the rest fuller, and cleaning dearer. */
#define FREE_LOW(n) (KEPT_FOR_CLEANING + TS_PACKS + (n) / 256u)

int ts_spiller_init(struct ts_spiller *spiller, struct ts_core *core,
		    const struct ts_params *params)
{
	const size_t segment = TS_SEGMENT_BYTES;

	*spiller = (struct ts_spiller){
		.core = core,
		.wear_waits = params->write_budget_waits,
	};
	ts_wear_init(&spiller->wear, params->write_budget_bytes, ts_now_ns());
	ts_mutex_init(&spiller->busy);
	ts_mutex_init(&spiller->lock);
	ts_cond_init(&spiller->wake);
	ts_cond_init(&spiller->served_some);
	ts_tier_init(&spiller->tier, (unsigned)params->high_water,
		     (unsigned)params->low_water);
	spiller->memory = ts_spill_buffer(MEMORY_BYTES);
	spiller->cleaner.slot = calloc(TS_PACK_RECORDS, sizeof(uint64_t));
	spiller->pack = calloc(TS_PACKS, sizeof(*spiller->pack));
	if (!spiller->memory || !spiller->cleaner.slot || !spiller->pack)
		return -ENOMEM;
	/* Not sparse: the spiller must not fault while memory is short. */
	memset(spiller->cleaner.slot, 1, TS_PACK_RECORDS * sizeof(uint64_t));
	memset(spiller->pack, 0, TS_PACKS * sizeof(*spiller->pack));
	for (unsigned i = 0; i < TS_PACKS; i++) {
		spiller->pack[i].buf = spiller->memory + i * segment;
		spiller->pack[i].mark = i + 1;
	}
	spiller->cleaner.core = core;
	spiller->cleaner.io = &spiller->io;
	spiller->cleaner.segment_buf = spiller->memory + TS_PACKS * segment;
	return 0;
}

void ts_spiller_fini(struct ts_spiller *spiller)
{
	if (!spiller->core)
		return;
	ts_spiller_stop(spiller);
	ts_io_fini(&spiller->io);
	free(spiller->memory);
	free(spiller->cleaner.slot);
	free(spiller->pack);
	pthread_mutex_destroy(&spiller->busy);
	pthread_mutex_destroy(&spiller->lock);
	pthread_cond_destroy(&spiller->wake);
	pthread_cond_destroy(&spiller->served_some);
	spiller->core = NULL;
}

void ts_spiller_kick(struct ts_spiller *spiller)
{
	if (ts_load_relaxed(&spiller->kicked) ||
	    ts_load_relaxed(&spiller->blocked) ||
	    !ts_tier_low(&spiller->tier, spiller->core))
		return;
	ts_lock(&spiller->lock);
	ts_store_relaxed(&spiller->kicked, true);
	pthread_cond_signal(&spiller->wake);
	ts_unlock(&spiller->lock);
}

static struct ts_segments *segments_of(struct ts_spiller *spiller)
{
	return &spiller->core->media.spill->segments;
}

bool ts_spiller_make_room(struct ts_spiller *spiller)
{
	uint64_t ticket;
	bool room;

	if (ts_load_relaxed(&spiller->full) &&
	    ts_load_relaxed(&spiller->full_eased) ==
		    ts_segments_eased(segments_of(spiller)))
		return false;
	ts_lock(&spiller->lock);
	ticket = ++spiller->asked;
	pthread_cond_signal(&spiller->wake);
	while (spiller->served < ticket && !spiller->stop)
		pthread_cond_wait(&spiller->served_some, &spiller->lock);
	room = spiller->roomy >= ticket;
	ts_unlock(&spiller->lock);
	return room;
}

/* Let go the writers up to a ticket, or with @room all of them. */
static void serve(struct ts_spiller *spiller, uint64_t ticket, bool room)
{
	ts_lock(&spiller->lock);
	if (room)
		ticket = spiller->roomy = spiller->asked;
	if (spiller->served < ticket) {
		spiller->served = ticket;
		pthread_cond_broadcast(&spiller->served_some);
	}
	ts_unlock(&spiller->lock);
}

/* Whether the wear budget allows to write a segment now. */
static bool wear_allows(struct ts_spiller *spiller)
{
	struct ts_events *events = &spiller->core->events;
	bool allowed = ts_wear_allows(&spiller->wear, ts_now_ns());

	if (allowed == !spiller->wear_spent)
		return allowed;
	ts_store_relaxed(&spiller->wear_spent, !allowed);
	if (!allowed)
		ts_event(events, TS_EVENT_WARNING,
			 "spill: the write budget is spent; when memory is full, writes %s",
			 spiller->wear_waits ? "wait" : "fail");
	else
		ts_event(events, TS_EVENT_INFO,
			 "spill: the write budget allows writing again");
	return allowed;
}

static void note_failure(struct ts_spiller *spiller, int error)
{
	ts_stats_add(&spiller->core->media.stats, TS_STAT_spill_errors, 1);
	spiller->last_error = error;
	if (++spiller->failures < FAILURES_MAX || spiller->degraded)
		return;
	spiller->pause_ns = RETRY_MIN_NS;
	spiller->retry_ns = ts_now_ns() + spiller->pause_ns;
	ts_store_relaxed(&spiller->degraded, true);
	ts_event(&spiller->core->events, TS_EVENT_WARNING,
		 "spill: the device fails (%s); nothing is spilled, and it is tried again from time to time",
		 strerror(-error));
}

static void note_success(struct ts_spiller *spiller)
{
	spiller->failures = 0;
	if (!spiller->degraded)
		return;
	ts_store_relaxed(&spiller->degraded, false);
	ts_event(&spiller->core->events, TS_EVENT_INFO,
		 "spill: the device works again");
}

/* Whether a segment may be written just now. A device that failed gets one
 * when its pause is over, and the pause doubles.
 */
static bool device_works(struct ts_spiller *spiller)
{
	struct ts_segments *segments = segments_of(spiller);

	if (!spiller->degraded) {
		if (spiller->failures && !ts_segments_free(segments))
			ts_segments_retry(segments);
		return true;
	}
	if (ts_now_ns() < spiller->retry_ns)
		return false;
	if (spiller->pause_ns < RETRY_MAX_NS)
		spiller->pause_ns *= 2;
	spiller->retry_ns = ts_now_ns() + spiller->pause_ns;
	ts_segments_retry(segments);
	return true;
}

/* Publish or give up the packs whose writes are done. Returns how many pages
 * have left memory.
 */
static unsigned collect(struct ts_spiller *spiller)
{
	struct ts_stats *stats = &spiller->core->media.stats;
	unsigned n = 0;

	for (unsigned i = 0; i < TS_PACKS; i++) {
		struct ts_pack *pack = &spiller->pack[i];

		if (!pack->busy || !pack->transfer.done)
			continue;
		if (pack->transfer.result) {
			ts_pack_fail(pack, spiller->core);
			note_failure(spiller, pack->transfer.result);
			continue;
		}
		note_success(spiller);
		ts_stats_took(stats, TS_HIST_spill_write, pack->started, 1);
		ts_spill_file_uncache(&spiller->core->media.spill->file,
				      pack->transfer.off, TS_SEGMENT_BYTES,
				      true);
		ts_stats_add(stats, TS_STAT_spill_written_bytes,
			     pack->transfer.bytes);
		n += ts_pack_publish(pack, spiller->core);
	}
	return n;
}

static struct ts_pack *free_pack(struct ts_spiller *spiller, unsigned *moved)
{
	for (;;) {
		for (unsigned i = 0; i < TS_PACKS; i++)
			if (!spiller->pack[i].busy)
				return &spiller->pack[i];
		ts_io_wait(&spiller->io);
		*moved += collect(spiller);
	}
}

static void write_pack(struct ts_spiller *spiller, struct ts_pack *pack)
{
	struct ts_spill *spill = spiller->core->media.spill;

	ts_sealers_run(&spiller->sealers, pack, &spill->seal);
	TS_FAULT_POINT("pack: records sealed");
	ts_pack_end(pack, spill);
	ts_wear_spend(&spiller->wear, pack->transfer.bytes);
	pack->started = ts_stats_start();
	ts_io_start(&spiller->io, &pack->transfer);
	ts_io_poll(&spiller->io);
}

static unsigned finish(struct ts_spiller *spiller)
{
	ts_io_drain(&spiller->io);
	return collect(spiller);
}

/* Returns how many pages were added. */
static unsigned fill_from_memory(struct ts_spiller *spiller,
				 struct ts_pack *pack)
{
	unsigned n, sum = 0;

	do {
		n = ts_tier_fill(&spiller->tier, spiller->core, pack);
		sum += n;
	} while (n);
	return sum;
}

/* Segments that are being emptied by packs on their way. */
static unsigned soon_free(const struct ts_spiller *spiller)
{
	unsigned n = 0;

	for (unsigned i = 0; i < TS_PACKS; i++)
		if (spiller->pack[i].busy)
			n += spiller->pack[i].n_emptied;
	return n;
}

/* Write one segment, of pages from memory or of old records. Returns whether
 * there was anything to do and room for it; @moved counts pages that left
 * memory meanwhile.
 */
static bool spill_one(struct ts_spiller *spiller, unsigned *moved)
{
	struct ts_segments *segments = segments_of(spiller);
	struct ts_pack *pack = free_pack(spiller, moved);
	uint32_t n_free = ts_segments_free(segments), segment;
	unsigned cleaned = 0, added = 0;
	uint64_t generation;

	/* Without a page to spill, cleaning would write for nothing. */
	if (!ts_tier_has_victims(spiller->core) ||
	    ts_segment_claim(segments, &segment, &generation))
		return false;
	ts_pack_begin(pack, segment, generation);
	if (n_free + soon_free(spiller) < FREE_LOW(segments->n))
		cleaned = ts_clean_into(&spiller->cleaner, pack);
	/* Room that old records leave is not wasted. */
	if (cleaned || n_free > KEPT_FOR_CLEANING)
		added = fill_from_memory(spiller, pack);
	if (!cleaned && !added) {
		ts_pack_cancel(pack, spiller->core);
		return false;
	}
	ts_stats_add(&spiller->core->media.stats, TS_STAT_spilled_pages,
		     added);
	write_pack(spiller, pack);
	*moved += collect(spiller);
	return true;
}

static bool any_busy(const struct ts_spiller *spiller)
{
	for (unsigned i = 0; i < TS_PACKS; i++)
		if (spiller->pack[i].busy)
			return true;
	return false;
}

/* Returns whether memory was freed. */
static bool run_round(struct ts_spiller *spiller)
{
	struct ts_core *core = spiller->core;
	bool more = true, room = false;

	while (more && !ts_load_relaxed(&spiller->stop) &&
	       device_works(spiller) && wear_allows(spiller)) {
		unsigned moved = 0;

		more = spill_one(spiller, &moved);
		/* What is on its way may make the room that is missing. */
		if (!more) {
			more = any_busy(spiller);
			moved += finish(spiller);
		}
		if (moved) {
			ts_compact(core, TS_SLACK_NONE, COMPACT_BLOCKS);
			serve(spiller, 0, true);
			room = true;
		}
		more = more && ts_tier_wants_spill(&spiller->tier, core);
	}
	return finish(spiller) || room;
}

/* Whether writers have to wait until something may be written again. */
static bool holds_writers(const struct ts_spiller *spiller)
{
	return spiller->wear_spent && spiller->wear_waits;
}

/* Wait until there is something to do. Returns the last ticket drawn. */
static uint64_t wait_for_work(struct ts_spiller *spiller)
{
	bool hold = holds_writers(spiller);
	uint64_t ticket;
	uint64_t deadline = ts_now_ns() + (hold ? WEAR_WAIT_NS : IDLE_NS);

	ts_lock(&spiller->lock);
	while (!spiller->stop &&
	       (hold || (!spiller->kicked &&
			 spiller->asked == spiller->served)))
		if (ts_cond_wait_until(&spiller->wake, &spiller->lock,
				       deadline))
			break;
	ts_store_relaxed(&spiller->kicked, false);
	ticket = spiller->asked;
	ts_unlock(&spiller->lock);
	return ticket;
}

/* Do what is to be done, and let the writers go that asked before. */
static void work(struct ts_spiller *spiller, uint64_t ticket)
{
	struct ts_segments *segments = segments_of(spiller);
	uint64_t eased = ts_segments_eased(segments);
	bool room = false;

	if (ticket == spiller->served &&
	    !ts_tier_wants_spill(&spiller->tier, spiller->core)) {
		ts_store_relaxed(&spiller->blocked, false);
		return;
	}
	room = run_round(spiller);
	ts_store_relaxed(&spiller->full_eased, eased);
	ts_store_relaxed(&spiller->full, !room && !spiller->degraded &&
						 !spiller->wear_spent &&
						 !spiller->failures);
	ts_store_relaxed(&spiller->blocked, !room);
	if (room || !holds_writers(spiller))
		serve(spiller, ticket, room);
}

static void *run(void *arg)
{
	struct ts_spiller *spiller = arg;

	pthread_setname_np(pthread_self(), "ts-spiller");
	ts_harden_touch_stack();
	while (!ts_load_relaxed(&spiller->stop)) {
		uint64_t ticket = wait_for_work(spiller);

		ts_lock(&spiller->busy);
		work(spiller, ticket);
		ts_trim_free_segments(spiller->core->media.spill);
		ts_unlock(&spiller->busy);
	}
	return NULL;
}

int ts_spiller_start(struct ts_spiller *spiller)
{
	struct ts_spill *spill = spiller->core->media.spill;
	char why[TS_IO_WHY_BYTES];
	int err;

	ts_io_init(&spiller->io, &spill->file, spiller->memory, MEMORY_BYTES,
		   spill->uring, why);

	ts_sealers_start(&spiller->sealers);
	spiller->stop = false;
	err = pthread_create(&spiller->thread, NULL, run, spiller);
	spiller->running = !err;
	return -err;
}

void ts_spiller_stop(struct ts_spiller *spiller)
{
	if (!spiller->running)
		return;
	ts_lock(&spiller->lock);
	ts_store_relaxed(&spiller->stop, true);
	pthread_cond_signal(&spiller->wake);
	pthread_cond_broadcast(&spiller->served_some);
	ts_unlock(&spiller->lock);
	pthread_join(spiller->thread, NULL);
	ts_sealers_stop(&spiller->sealers);
	spiller->running = false;
}
