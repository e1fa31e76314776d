/* SPDX-License-Identifier: BSD-3-Clause */
/* spiller.c - the thread that moves cold pages to the spill file
 *
 * One round: while memory is low, claim a segment, fill a pack from the clock,
 * start its write, and publish packs whose writes are done. When free segments
 * are short, the pack first takes what lives in the emptiest ones. The last
 * few are kept back for packs that free others, so that cleaning can always
 * go on.
 *
 * A round serves the writers that asked before it began. They wait for what
 * the first segments free, not for the whole round.
 */
#include "spiller.h"
#include "compact.h"
#include "util/atomic.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* The packs' segments, one for cleaning, and copies of a batch. */
#define MEMORY_BYTES                                                           \
	((TS_PACKS + 1) * (size_t)TS_SEGMENT_BYTES + TS_BATCH_PAGES * 4096)
#define IDLE_NS 1000000000ull
#define RETRY_NS 10000000000ull
#define FAILURES_MAX 3u
#define COMPACT_BLOCKS 64u
#define KEPT_FOR_CLEANING TS_PACKS
#define FREE_LOW(n) (2 * TS_PACKS + (n) / 64u)
#define WEAR_BUCKET_PART 24 /* a bucket holds an hour's share of a day */

int ts_spiller_init(struct ts_spiller *spiller, struct ts_core *core,
		    uint64_t wear_bytes_day, unsigned high_percent,
		    unsigned low_percent)
{
	const size_t segment = TS_SEGMENT_BYTES;
	*spiller = (struct ts_spiller){
		.core = core,
		.wear_bytes_day = wear_bytes_day,
		.wear_tokens = (int64_t)(wear_bytes_day / WEAR_BUCKET_PART),
		.wear_ns = ts_now_ns(),
	};
	ts_mutex_init(&spiller->busy);
	ts_mutex_init(&spiller->lock);
	ts_cond_init(&spiller->wake);
	ts_cond_init(&spiller->served_some);
	ts_tier_init(&spiller->tier, core->media.blocks.budget, high_percent,
		     low_percent);
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
	spiller->copy_buf = spiller->cleaner.segment_buf + segment;
	spiller->cleaner.page_buf = spiller->copy_buf;
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
	    !ts_tier_low(&spiller->tier, spiller->core))
		return;
	ts_lock(&spiller->lock);
	ts_store_relaxed(&spiller->kicked, true);
	pthread_cond_signal(&spiller->wake);
	ts_unlock(&spiller->lock);
}

bool ts_spiller_make_room(struct ts_spiller *spiller)
{
	uint64_t ticket;
	bool room;

	ts_lock(&spiller->lock);
	ticket = ++spiller->asked;
	pthread_cond_signal(&spiller->wake);
	while (spiller->served < ticket && !spiller->stop)
		pthread_cond_wait(&spiller->served_some, &spiller->lock);
	room = spiller->served >= ticket && spiller->made_room;
	ts_unlock(&spiller->lock);
	return room;
}

static void serve(struct ts_spiller *spiller, uint64_t ticket, bool room)
{
	ts_lock(&spiller->lock);
	if (spiller->served < ticket) {
		spiller->served = ticket;
		spiller->made_room = room;
		pthread_cond_broadcast(&spiller->served_some);
	}
	ts_unlock(&spiller->lock);
}

/* Whether the wear budget allows to write a segment now. */
static bool wear_allows(struct ts_spiller *spiller)
{
	uint64_t day = ts_load_relaxed(&spiller->wear_bytes_day);
	uint64_t now = ts_now_ns();
	int64_t most = (int64_t)(day / WEAR_BUCKET_PART), more;

	if (!day) {
		ts_store_relaxed(&spiller->wear_spent, false);
		return true;
	}
	/* In parts of a second, which no sensible budget overflows. */
	more = (int64_t)((now - spiller->wear_ns) / 1000000 * (day / 86400) /
			 1000);
	if (more > 0) {
		spiller->wear_tokens += more;
		spiller->wear_ns = now;
	}
	if (spiller->wear_tokens > most)
		spiller->wear_tokens = most;
	ts_store_relaxed(&spiller->wear_spent, spiller->wear_tokens < 0);
	return spiller->wear_tokens >= 0;
}

static void note_failure(struct ts_spiller *spiller)
{
	ts_stats_add(&spiller->core->media.stats, TS_STAT_spill_errors, 1);
	if (++spiller->failures < FAILURES_MAX)
		return;
	ts_store_relaxed(&spiller->degraded, true);
	spiller->retry_ns = ts_now_ns() + RETRY_NS;
}

/* Whether spilling is possible just now; after a pause it is tried again. */
static bool device_works(struct ts_spiller *spiller)
{
	struct ts_segments *segments = &spiller->core->media.spill->segments;

	if (!spiller->degraded) {
		if (spiller->failures && !ts_segments_free(segments))
			ts_segments_retry(segments);
		return true;
	}
	if (ts_now_ns() < spiller->retry_ns)
		return false;
	/* One more failure, and the pause begins again. */
	ts_segments_retry(segments);
	spiller->failures = FAILURES_MAX - 1;
	ts_store_relaxed(&spiller->degraded, false);
	return true;
}

/* Publish or give up the packs whose writes are done. Returns pages moved. */
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
			note_failure(spiller);
			continue;
		}
		spiller->failures = 0;
		ts_stats_took(stats, TS_HIST_spill_write, pack->started_ns, 1);
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
	ts_pack_end(pack, spiller->core->media.spill);
	spiller->wear_tokens -= pack->transfer.bytes;
	pack->started_ns = ts_now_ns();
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
	struct ts_victim victim[TS_BATCH_PAGES];
	unsigned n, sum = 0;

	do {
		n = ts_tier_victims(&spiller->tier, spiller->core,
				    ts_pack_room(pack), TS_PACK_EXTRA,
				    pack->mark, spiller->copy_buf, victim);
		for (unsigned i = 0; i < n; i++)
			ts_pack_add(pack, &spiller->core->media.spill->seal,
				    victim[i].slot, victim[i].codec,
				    victim[i].data, victim[i].len,
				    ts_word_none());
		sum += n;
	} while (n && pack->n + TS_BATCH_PAGES <= TS_PACK_RECORDS);
	return sum;
}

/* Spill one segment. Returns whether there was anything to do and room for
 * it; @moved counts pages that arrived meanwhile.
 */
static bool spill_one(struct ts_spiller *spiller, unsigned *moved)
{
	struct ts_segments *segments = &spiller->core->media.spill->segments;
	struct ts_pack *pack = free_pack(spiller, moved);
	uint32_t n_free = ts_segments_free(segments), segment;
	unsigned cleaned = 0, added = 0;
	uint64_t generation;

	if (ts_segment_claim(segments, &segment, &generation))
		return false;
	ts_pack_begin(pack, segment, generation);
	if (n_free < FREE_LOW(segments->n))
		cleaned = ts_clean_into(&spiller->cleaner, pack);
	/* The last ones are for packs that free others. */
	if (cleaned || n_free > KEPT_FOR_CLEANING)
		added = fill_from_memory(spiller, pack);
	if (!pack->n) {
		ts_pack_cancel(pack, spiller->core);
		return false;
	}
	ts_stats_add(&spiller->core->media.stats, TS_STAT_spilled_pages,
		     added);
	write_pack(spiller, pack);
	*moved += collect(spiller);
	return added > 0;
}

/* Returns whether memory was freed. */
static bool run_round(struct ts_spiller *spiller, uint64_t ticket)
{
	struct ts_core *core = spiller->core;
	bool more = true, room = false;

	while (more && !ts_load_relaxed(&spiller->stop) &&
	       device_works(spiller) && wear_allows(spiller)) {
		unsigned moved = 0;

		more = spill_one(spiller, &moved);
		if (!more)
			moved += finish(spiller);
		if (moved) {
			ts_compact(core, COMPACT_BLOCKS);
			serve(spiller, ticket, true);
			room = true;
		}
		more = more && ts_tier_wants_spill(&spiller->tier, core);
	}
	return finish(spiller) || room;
}

/* Wait until there is something to do. Returns the last ticket asked for. */
static uint64_t wait_for_work(struct ts_spiller *spiller)
{
	uint64_t ticket, deadline = ts_now_ns() + IDLE_NS;

	ts_lock(&spiller->lock);
	while (!spiller->stop && !spiller->kicked &&
	       spiller->asked == spiller->served)
		if (ts_cond_wait_until(&spiller->wake, &spiller->lock,
				       deadline))
			break;
	ts_store_relaxed(&spiller->kicked, false);
	ticket = spiller->asked;
	ts_unlock(&spiller->lock);
	return ticket;
}

static void *run(void *arg)
{
	struct ts_spiller *spiller = arg;

	pthread_setname_np(pthread_self(), "ts-spiller");
	while (!ts_load_relaxed(&spiller->stop)) {
		uint64_t ticket = wait_for_work(spiller);
		bool room = false;

		ts_lock(&spiller->busy);
		if (ticket > spiller->served ||
		    ts_tier_wants_spill(&spiller->tier, spiller->core))
			room = run_round(spiller, ticket);
		serve(spiller, ticket, room);
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
	spiller->running = false;
}
