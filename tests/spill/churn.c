// SPDX-License-Identifier: BSD-3-Clause
/* churn.c - the same slots over and over while they are on their way
 *
 *	ts-spill-churn evict|pingpong|full|holes|back|stuck|
 *			worn-fail|worn-wait
 *
 * evict     case 19: writes of segments are 10 ms late; the same 1,000 slots
 *           are overwritten, trimmed and rewritten; always the newest
 *           generation, and nothing stored after all is trimmed
 * pingpong  case 28: 100,000 overwrites at the cap; what is written to the
 *           file is not far above what was displaced, and a raw page costs
 *           hardly more than 4 KiB
 * full      both tiers full: ENOSPC without work for each refusal, all stays
 *           readable, and a trim lets writes go on
 * holes     both tiers full, but a fifteenth of each segment dead: room
 * back      case 20: pages read again come back to memory by the bytes that they
 *           were stored as; nothing is compressed, and nothing changes
 * stuck     reads of the file that do not come back hold up no other read
 * worn-*    a write budget that is spent: writes fail, or wait until it
 *           allows more
 */
#include "tests/spill/faults.h"
#include "tests/spill/rig.h"
#include "util/atomic.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define STUCK 12u /* reads */

static struct spill_rig rig;

static void start(uint64_t size, uint64_t ram, uint64_t spill)
{
	spill_rig_init(&rig, size, ram, spill);
	spill_rig_start(&rig);
}

static void fill(void)
{
	for (unsigned slot = 0; slot < rig.n_slots; slot++)
		if (slot_write(&rig, slot))
			rig_die("no room for the test");
}

struct part {
	unsigned first, n, seed;
};

static void *churn_part(void *arg)
{
	struct part *part = arg;
	struct rng rng = { part->seed };

	for (unsigned op = 0; op < 12000; op++) {
		unsigned slot = part->first +
				(unsigned)rng_below(&rng, part->n);

		switch (rng_below(&rng, 8)) {
		case 0:
			slot_discard(&rig, slot);
			break;
		case 1 ... 2:
			if (!slot_reads(&rig, slot))
				rig_die("slot %u cannot be read", slot);
			break;
		default:
			if (slot_write(&rig, slot))
				rig_die("a write was refused");
		}
	}
	return NULL;
}

/* The thousand slots lie amid others that keep memory full. */
static void evict(void)
{
	struct part part[4];
	pthread_t id[4];

	start(40 * MIB, 8 * MIB, 48 * MIB);
	fill();
	faults_set(FAULT_LATE, 1);
	for (unsigned round = 0; round < 3; round++) {
		for (unsigned i = 0; i < 4; i++) {
			part[i] = (struct part){ 2000 + 250 * i, 250,
						 round * 4 + i };
			pthread_create(&id[i], NULL, churn_part, &part[i]);
		}
		/* The others keep moving, too. */
		for (unsigned slot = 4000; slot < rig.n_slots; slot += 2)
			if (slot_write(&rig, slot))
				rig_die("a write was refused");
		for (unsigned i = 0; i < 4; i++)
			pthread_join(id[i], NULL);
		slots_verify(&rig);
		spill_rig_check(&rig);
	}
	if (!faults_injected())
		rig_die("nothing was delayed");
	for (unsigned slot = 0; slot < rig.n_slots; slot++)
		slot_discard(&rig, slot);
	spill_rig_check(&rig);
	rig_check_empty(rig.store);
	slots_verify(&rig);
}

/* Bytes that records of the pages take, sealed. */
static uint64_t displaced_bytes(const struct ts_counters *now,
				const struct ts_counters *before)
{
	uint64_t pages = now->spilled_pages - before->spilled_pages;
	uint64_t mean = now->spill_bytes / (now->spill_slots ?: 1);

	return pages * (mean + TS_RECORD_EXTRA);
}

static void pingpong(void)
{
	struct ts_counters before, now;
	struct rng rng = { 1 };
	uint64_t written, displaced;

	start(24 * MIB, 8 * MIB, 64 * MIB);
	fill();
	spill_rig_check(&rig);
	before = spill_rig_counters(&rig);
	/* A quarter of the slots is used, and it fits in memory. */
	for (unsigned i = 0; i < 100000; i++)
		if (slot_write(&rig, (unsigned)rng_below(&rng,
							 rig.n_slots / 8)))
			rig_die("a write was refused");
	spill_rig_check(&rig);
	now = spill_rig_counters(&rig);
	written = now.spill_written_bytes - before.spill_written_bytes;
	displaced = displaced_bytes(&now, &before);
	printf("100000 overwrites: %llu pages displaced, %.1f MiB of them, %.1f MiB written\n",
	       (unsigned long long)(now.spilled_pages - before.spilled_pages),
	       (double)displaced / MIB, (double)written / MIB);
	/* What was displaced is what came back, not what was written again:
	 * at most the slots that memory does not hold.
	 */
	if (now.spilled_pages - before.spilled_pages > 20000)
		rig_die("pages in use go back and forth");
	if (written > displaced + displaced / 4 + 8 * MIB)
		rig_die("far more is written than displaced");
	slots_verify(&rig);

	/* A thousand raw pages more. */
	for (unsigned slot = 0; slot < rig.n_slots; slot++)
		slot_discard(&rig, slot);
	for (unsigned slot = 0; slot < rig.n_slots; slot++) {
		uint8_t page[PAGE_BYTES];

		page_make(page, PAGE_RANDOM, slot);
		if (ts_store_write(rig.store, page, PAGE_BYTES, slot * 4096ull))
			rig_die("a write was refused");
	}
	spill_rig_check(&rig);
	now = spill_rig_counters(&rig);
	written = now.spill_size_bytes - now.spill_free_bytes;
	printf("%llu raw pages take %.1f bytes each of the file\n",
	       (unsigned long long)now.spill_slots,
	       (double)written / now.spill_slots);
	/* The last segment may be far from full. */
	if (written - MIB > now.spill_slots * (4096 + 4096 / 20))
		rig_die("a raw page costs more than 4 KiB and 5 %%");
}

/* Until the first refusal. Returns how many slots have a page. */
static unsigned fill_up(void)
{
	unsigned slot = 0;

	while (slot < rig.n_slots && !slot_write(&rig, slot))
		slot++;
	if (slot == rig.n_slots)
		rig_die("there was room for all");
	return slot;
}

static void full(void)
{
	unsigned slot, refused = 0, trimmed = 0;
	struct ts_counters before, now;

	start(128 * MIB, 8 * MIB, 16 * MIB);
	slot = fill_up();
	spill_rig_check(&rig);
	before = spill_rig_counters(&rig);
	if (before.spill_bytes < before.spill_size_bytes * 7 / 10)
		rig_die("refused with only %llu bytes spilled",
			(unsigned long long)before.spill_bytes);
	for (unsigned i = 0; i < 20000; i++)
		refused += slot_write(&rig, slot + i) == -ENOSPC;
	now = spill_rig_counters(&rig);
	printf("full after %u slots; %u of 20000 refused, %llu KiB written meanwhile\n",
	       slot, refused,
	       (unsigned long long)(now.spill_written_bytes -
				    before.spill_written_bytes) >> 10);
	if (refused < 19000 ||
	    now.spill_written_bytes - before.spill_written_bytes > 16 * MIB)
		rig_die("refusals are not what they should be");
	slots_verify(&rig);
	spill_rig_check(&rig);
	for (unsigned i = 0; i < slot; i += 3, trimmed++)
		slot_discard(&rig, i);
	for (unsigned i = 0; i < trimmed / 2; i++)
		if (slot_write(&rig, i * 3))
			rig_die("%u slots are free, and the %uth write is refused",
				trimmed, i);
	slots_verify(&rig);
	spill_rig_check(&rig);
}

/* Of the slots in the file one of fifteen is trimmed and written again: every
 * segment is nearly full, and still there is room.
 */
static void holes(void)
{
	unsigned n, trimmed = 0, refused = 0, spilled = 0;

	start(128 * MIB, 8 * MIB, 32 * MIB);
	n = fill_up();
	spill_rig_check(&rig);
	for (unsigned i = 0; i < n; i++)
		if (slot_is_spilled(&rig, i, NULL) && spilled++ % 15 == 0) {
			slot_discard(&rig, i);
			trimmed++;
		}
	for (unsigned i = 0; i < n; i++)
		if (!rig.generation[i])
			refused += slot_write(&rig, i) != 0;
	printf("%u slots, %u trimmed, %u of them refused\n", n, trimmed,
	       refused);
	if (refused > trimmed / 4)
		rig_die("the holes are not used");
	slots_verify(&rig);
	spill_rig_check(&rig);
}

/* Most lie in the file; a trim of what is in memory makes room for them. */
static void back(void)
{
	struct ts_counters before, now;
	unsigned n = 0;
	ts_word word;

	start(24 * MIB, 8 * MIB, 40 * MIB);
	fill();
	spill_rig_check(&rig);
	for (unsigned slot = 0; slot < rig.n_slots; slot++)
		if (!slot_is_spilled(&rig, slot, NULL))
			slot_discard(&rig, slot);
	before = spill_rig_counters(&rig);
	for (unsigned round = 0; round < 3; round++)
		for (unsigned slot = 0; slot < 1000; slot++)
			if (!slot_reads(&rig, slot))
				rig_die("slot %u cannot be read", slot);
	now = spill_rig_counters(&rig);
	for (unsigned slot = 0; slot < 1000; slot++)
		n += !slot_is_spilled(&rig, slot, &word) &&
		     ts_word_kind(word) != TS_NONE;
	printf("%u slots came back, %llu pages were compressed\n", n,
	       (unsigned long long)(now.compressed_pages -
				    before.compressed_pages));
	if (n < 400 || now.promoted_pages - before.promoted_pages < n)
		rig_die("they do not come back");
	if (now.compressed_pages != before.compressed_pages)
		rig_die("what came back was compressed again");
	slots_verify(&rig);
	spill_rig_check(&rig);
}

static bool was_read; /* atomic */

static void *read_one(void *arg)
{
	if (!slot_reads(&rig, *(unsigned *)arg))
		rig_die("a slot cannot be read");
	return NULL;
}

static void *read_other(void *arg)
{
	read_one(arg);
	ts_store_release(&was_read, true);
	return NULL;
}

static void stuck(void)
{
	unsigned slot[STUCK + 1], n = 0, before;
	pthread_t id[STUCK + 1];

	start(24 * MIB, 8 * MIB, 40 * MIB);
	fill();
	spill_rig_check(&rig);
	for (unsigned i = 0; i < rig.n_slots && n < STUCK; i += 100)
		if (slot_is_spilled(&rig, i, NULL))
			slot[n++] = i;
	/* One that the spiller cannot take meanwhile. */
	slot[n] = 1;
	slot_discard(&rig, slot[n]);
	before = faults_injected();
	faults_set(FAULT_STUCK, 1);
	for (unsigned i = 0; i < n; i++)
		pthread_create(&id[i], NULL, read_one, &slot[i]);
	WAIT_FOR(faults_injected() - before >= n);
	pthread_create(&id[n], NULL, read_other, &slot[n]);
	WAIT_FOR(ts_load_acquire(&was_read));
	faults_set(FAULT_NONE, 1);
	for (unsigned i = 0; i <= n; i++)
		pthread_join(id[i], NULL);
	printf("%u reads were stuck, another was not\n", n);
	slots_verify(&rig);
	spill_rig_check(&rig);
}

/* A day's share an hour: the first takes what the bucket holds. */
static void worn(bool waits)
{
	unsigned slot = 0;

	spill_rig_init(&rig, 128 * MIB, 8 * MIB, 64 * MIB);
	rig.params.write_budget_bytes = waits ? 86400ull * 4 * MIB : 24 * 6 * MIB;
	rig.params.write_budget_waits = waits;
	spill_rig_start(&rig);
	/* Give the waiting kind a bucket as small as the other's. */
	rig.store->spiller.wear.tokens = 6 * (int64_t)MIB;
	while (slot < rig.n_slots && !slot_write(&rig, slot))
		slot++;
	printf("refused after %u slots, %.1f MiB written\n", slot,
	       (double)spill_rig_counters(&rig).spill_written_bytes / MIB);
	if (!strstr(rig.said ? rig.said : "", "the write budget is spent"))
		rig_die("the log on the budget: %s", rig.said);
	if (spill_rig_counters(&rig).spill_written_bytes < 5 * MIB)
		rig_die("less than the budget was written");
	if (!waits && (spill_rig_counters(&rig).spill_written_bytes > 11 * MIB ||
		       !spill_rig_counters(&rig).spill_budget_spent))
		rig_die("more than the budget was written");
	if (waits && spill_rig_counters(&rig).spill_bytes < 40 * MIB)
		rig_die("writes did not wait");
	slots_verify(&rig);
	spill_rig_check(&rig);
}

int main(int argc, char **argv)
{
	const char *what = argc > 1 ? argv[1] : "";

	if (!strcmp(what, "evict"))
		evict();
	else if (!strcmp(what, "pingpong"))
		pingpong();
	else if (!strcmp(what, "full"))
		full();
	else if (!strcmp(what, "holes"))
		holes();
	else if (!strcmp(what, "back"))
		back();
	else if (!strcmp(what, "stuck"))
		stuck();
	else if (!strcmp(what, "worn-fail"))
		worn(false);
	else if (!strcmp(what, "worn-wait"))
		worn(true);
	else
		rig_die("%s: no such test", what);
	spill_rig_end(&rig);
	return EXIT_SUCCESS;
}
