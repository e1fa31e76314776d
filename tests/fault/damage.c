// SPDX-License-Identifier: BSD-3-Clause
/* damage.c - flipped bits in stored objects (case 25, the part in memory)
 *
 * Bits are flipped in the pool behind the store's back, while threads read
 * and the keeper moves objects about. Hit slots give EIO and nothing else,
 * all others their page; a counter tells; a rewrite or a discard heals.
 */
#include "tests/common/model.h"
#include "store.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SLOTS 3000u

static struct ts_store *store;
static bool hit[SLOTS];
static uint64_t generation[SLOTS];

static enum page_kind kind_of(uint64_t slot)
{
	return (enum page_kind)(slot % PAGE_KINDS);
}

static void write_slot(uint64_t slot)
{
	uint8_t page[PAGE_BYTES];
	int err;

	page_make(page, kind_of(slot), slot * 1000 + ++generation[slot]);
	err = ts_store_write(store, page, sizeof(page), slot * 4096);
	if (err)
		rig_die("write: %s", strerror(-err));
}

/* Flip a bit of what slot @slot has stored. Returns false if its word is all
 * there is.
 */
static bool flip(uint64_t slot, struct rng *rng)
{
	struct ts_core *core = &store->core;
	struct ts_cluster cluster;
	enum ts_kind kind;
	ts_word word;
	uint8_t *object;
	unsigned at;

	ts_cluster_open(&core->clusters, slot / TS_CLUSTER_SLOTS, &cluster);
	word = cluster.words[slot % TS_CLUSTER_SLOTS];
	kind = ts_word_kind(word);
	if (kind == TS_RAM || kind == TS_RAW) {
		object = ts_pool_addr(&core->media.pool, ts_word_obj(word));
		/* A compressed object's header: 4 bytes of check, then the
		 * owner, which no read depends on.
		 */
		at = (unsigned)rng_below(rng, ts_word_len(word));
		if (kind == TS_RAM && at >= 4)
			at += 6;
		object[at] ^= (uint8_t)(1u << rng_below(rng, 8));
	}
	ts_cluster_close(&cluster);
	return kind == TS_RAM || kind == TS_RAW;
}

/* Each slot by itself: EIO exactly where hit. Returns how many. */
static unsigned read_all(void)
{
	uint8_t page[PAGE_BYTES], now[PAGE_BYTES];
	unsigned n = 0;

	for (uint64_t slot = 0; slot < SLOTS; slot++) {
		int err = ts_store_read(store, now, sizeof(now), slot * 4096);

		if (err != (hit[slot] ? -EIO : 0))
			rig_die("slot %" PRIu64 ", %s: %s", slot,
				hit[slot] ? "hit" : "not hit", strerror(-err));
		page_make(page, kind_of(slot), slot * 1000 + generation[slot]);
		if (!err && memcmp(now, page, sizeof(page)))
			rig_die("slot %" PRIu64 ": a wrong page", slot);
		n += hit[slot];
	}
	return n;
}

static uint64_t damaged(void)
{
	struct ts_counters c;

	ts_store_counters(store, &c);
	return c.damaged;
}

/* A long read that meets a hit slot fails; one that does not, does not. */
static void read_runs(void)
{
	static uint8_t buf[100 * PAGE_BYTES];

	for (uint64_t slot = 0; slot + 100 <= SLOTS; slot += 100) {
		int err = ts_store_read(store, buf, sizeof(buf), slot * 4096);
		bool bad = false;

		for (unsigned i = 0; i < 100; i++)
			bad |= hit[slot + i];
		if (err != (bad ? -EIO : 0))
			rig_die("run at %" PRIu64 ": %s", slot, strerror(-err));
	}
}

static void one_round(struct rng *rng)
{
	uint64_t before = damaged(), n = 0;
	char why[256];

	for (unsigned i = 0; i < 60; i++) {
		uint64_t slot = rng_below(rng, SLOTS);

		if (!hit[slot] && flip(slot, rng)) {
			hit[slot] = true;
			n++;
		}
	}
	if (read_all() != n || damaged() != before + n)
		rig_die("%" PRIu64 " slots hit, %" PRIu64 " counted", n,
			damaged() - before);
	read_runs();
	if (ts_store_check(store, why, sizeof(why)) != -EBADMSG)
		rig_die("the walker saw no damage");
	/* Sparse blocks are emptied: what moves stays damaged or whole. */
	for (uint64_t slot = 0; slot < SLOTS; slot += 1 + rng_below(rng, 3)) {
		if (ts_store_discard(store, 4096, slot * 4096))
			rig_die("a discard failed");
		hit[slot] = false;
		write_slot(slot);
	}
	read_all();
	for (uint64_t slot = 0; slot < SLOTS; slot++) {
		if (hit[slot])
			write_slot(slot);
		hit[slot] = false;
	}
	if (read_all())
		rig_die("a rewrite did not heal");
	rig_check(store);
}

int main(int argc, char **argv)
{
	struct rng rng = {argc > 1 ? strtoull(argv[1], NULL, 0) : 1};

	store = rig_start(SLOTS * 4096ull, 16 * MIB);
	for (uint64_t slot = 0; slot < SLOTS; slot++)
		write_slot(slot);
	if (read_all())
		rig_die("damage before any was done");
	for (unsigned i = 0; i < 6; i++)
		one_round(&rng);
	printf("%" PRIu64 " pages damaged and healed\n", damaged());
	if (!damaged())
		rig_die("no damage was counted");
	if (ts_store_discard(store, SLOTS * 4096ull, 0))
		rig_die("a discard failed");
	rig_check_empty(store);
	ts_store_free(store);
	return EXIT_SUCCESS;
}
