// SPDX-License-Identifier: BSD-3-Clause
/* fsck.c - the walk from outside finds what is wrong, all of it and no more
 *
 * fsck [SEED]
 *
 * A store with a spill file is looked at as `thinswap fsck` does it: at rest,
 * where its numbers must be the store's own; with bytes flipped in the memory
 * and in the spill file, and words and entries of the map made wrong, where
 * each must be found once (case 25); and while threads write, discard and read
 * and pages are compacted, spilled and cleaned, where nothing may be found.
 */
#include "tests/common/model.h"
#include "cluster.h"
#include "compact.h"
#include "fsck.h"
#include "store.h"
#include "util/atomic.h"
#include "util/lock.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define SLOTS	    6144u
#define THREADS	    3u
#define HITS	    40u
#define WALKS	    12u
#define SPILL_BYTES (14 * MIB)

static struct ts_store *store;
static char spill_path[256];
static bool stop;

static void start(void)
{
	struct ts_params params;
	char why[256];
	int err;

	ts_params_init(&params);
	params.size_bytes = SLOTS * 4096ull;
	params.ram_bytes = 8 * MIB;
	params.spill_path = spill_path;
	params.spill_bytes = SPILL_BYTES;
	if (ts_params_finish(&params, why, sizeof(why)) ||
	    ts_store_new(&params, &store, why, sizeof(why)))
		rig_die("no store: %s", why);
	err = ts_store_start(store);
	if (err)
		rig_die("the store does not start: %s", strerror(-err));
}

static void write_slot(uint64_t slot, uint64_t seed)
{
	uint8_t page[PAGE_BYTES];
	int err;

	page_make(page, (enum page_kind)(slot % PAGE_KINDS), seed);
	err = ts_store_write(store, page, sizeof(page), slot * 4096);
	if (err && err != -ENOSPC)
		rig_die("write: %s", strerror(-err));
}

static void walk(struct ts_fsck *ret)
{
	struct ts_peek peek;
	char why[256];

	if (ts_peek_open(&peek, store->core.kept.shm.id, why, sizeof(why)))
		rig_die("%s", why);
	if (ts_fsck(&peek, NULL, ret))
		rig_die("no memory");
	ts_peek_close(&peek);
	if (ret->unread)
		rig_die("records unread: %s", ret->why_unread);
}

static void expect(const struct ts_fsck *found, enum ts_fault_found fault,
		   uint64_t n)
{
	if (found->faults[fault] != n)
		rig_die("%s: %" PRIu64 " times, not %" PRIu64,
			ts_fsck_name(fault), found->faults[fault], n);
}

static void expect_clean(const struct ts_fsck *found)
{
	for (unsigned i = 0; i < found->n_examples; i++)
		fprintf(stderr, "slot %" PRIu64 ": %s\n",
			found->example[i].slot,
			ts_fsck_name(found->example[i].fault));
	if (ts_fsck_errors(found) || found->unsettled)
		rig_die("%" PRIu64 " errors, %" PRIu64 " unsettled",
			ts_fsck_errors(found), found->unsettled);
}

/* Nobody moves what is in the store: who is to be deceived must not be helped,
 * or harmed.
 */
static void rest(void)
{
	ts_workers_rest(&store->workers);
	ts_lock(&store->keeper.busy);
	ts_lock(&store->spiller.busy);
}

static void go_on(void)
{
	ts_unlock(&store->spiller.busy);
	ts_unlock(&store->keeper.busy);
	ts_workers_go_on(&store->workers);
}

/* At rest, the numbers are those that the store keeps itself. */
static void at_rest(void)
{
	struct ts_counters c;
	struct ts_fsck found;

	rest();
	walk(&found);
	ts_store_counters(store, &c);
	go_on();
	expect_clean(&found);
	if (found.slots[TS_ZERO] != c.zero_slots ||
	    found.slots[TS_FILL] != c.fill_slots ||
	    found.slots[TS_STAGED] != c.staged_slots ||
	    found.slots[TS_RAM] != c.ram_slots ||
	    found.slots[TS_RAW] != c.raw_slots ||
	    found.slots[TS_SPILL] != c.spill_slots ||
	    found.clusters != c.clusters || found.stored_bytes != c.stored_bytes)
		rig_die("the walk and the counters disagree");
	if (!c.spill_slots || !c.ram_slots || !c.raw_slots)
		rig_die("a kind of page is missing");
}

static ts_word word_of(uint64_t slot)
{
	struct ts_cluster cluster;
	ts_word word = ts_word_none();

	ts_cluster_open(&store->core.clusters, slot / TS_CLUSTER_SLOTS,
			&cluster);
	if (cluster.words)
		word = cluster.words[slot % TS_CLUSTER_SLOTS];
	ts_cluster_close(&cluster);
	return word;
}

/* Flip a bit of a record in the file, and again to heal it. */
static void flip_record(ts_word word, unsigned at)
{
	uint64_t off = ts_segment_off(ts_word_segment(word)) +
		       ts_word_spill_off(word) + at;
	int fd = open(spill_path, O_RDWR | O_CLOEXEC);
	uint8_t byte;

	if (fd < 0 || pread(fd, &byte, 1, (off_t)off) != 1)
		rig_die("cannot read the spill file");
	byte ^= 4;
	if (pwrite(fd, &byte, 1, (off_t)off) != 1 || fsync(fd))
		rig_die("cannot write the spill file");
	posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED);
	close(fd);
}

/* A byte of what a slot has stored, anywhere but in an object's note of its
 * owner, which no read depends on.
 */
static bool flip(uint64_t slot, uint64_t random, unsigned *objects,
		 unsigned *records)
{
	ts_word word = word_of(slot);
	enum ts_kind kind = ts_word_kind(word);
	unsigned at;

	if (kind == TS_SPILL) {
		flip_record(word, (unsigned)(random % (ts_word_len(word) +
						       TS_RECORD_EXTRA)));
		++*records;
	} else if (kind == TS_RAM || ts_kind_plain(kind)) {
		at = (unsigned)(random % ts_word_len(word));
		if (kind == TS_RAM && at >= 4)
			at += 6;
		((uint8_t *)ts_pool_addr(&store->core.media.pool,
					 ts_word_obj(word)))[at] ^= 16;
		++*objects;
	} else {
		return false;
	}
	return true;
}

static void damaged(struct rng *rng)
{
	unsigned objects = 0, records = 0, n = 0;
	uint64_t slot[HITS], random[HITS];
	struct ts_fsck found;

	rest();
	for (uint64_t s = rng_below(rng, 50); s < SLOTS && n < HITS;
	     s += 1 + rng_below(rng, 2 * SLOTS / HITS)) {
		slot[n] = s;
		random[n] = rng_next(rng);
		n += flip(s, random[n], &objects, &records);
	}
	walk(&found);
	if (!objects || !records)
		rig_die("nothing to damage");
	expect(&found, TS_FSCK_OBJECT, objects);
	expect(&found, TS_FSCK_RECORD, records);
	if (ts_fsck_errors(&found) != n)
		rig_die("more errors than damage");
	for (unsigned i = 0; i < found.n_examples; i++)
		if (found.example[i].slot != slot[i])
			rig_die("damage is shown in the wrong slot");
	while (n--)
		flip(slot[n], random[n], &objects, &records);
	walk(&found);
	expect_clean(&found);
	go_on();
	printf("flipped and found: %u objects, %u records\n", objects / 2,
	       records / 2);
}

static ts_word *first_of_kind(enum ts_kind kind, uint64_t *slot)
{
	struct ts_cluster cluster;

	while (ts_word_kind(word_of(*slot)) != kind)
		if (++*slot == SLOTS)
			rig_die("no word of kind %d", kind);
	ts_cluster_open(&store->core.clusters, *slot / TS_CLUSTER_SLOTS,
			&cluster);
	ts_cluster_close(&cluster);
	return &cluster.words[*slot % TS_CLUSTER_SLOTS];
}

/* Put something in the place of one of the segment's own numbers, walk, and
 * put it back.
 */
static void with(uint64_t *at, uint64_t value, enum ts_fault_found fault,
		 uint64_t slot)
{
	uint64_t was = *at;
	struct ts_fsck found;

	*at = value;
	walk(&found);
	*at = was;
	expect(&found, fault, 1);
	if (found.example[0].slot != slot || ts_fsck_errors(&found) != 1)
		rig_die("slot %" PRIu64 ": %" PRIu64 " errors, the first of "
			"slot %" PRIu64, slot, ts_fsck_errors(&found),
			found.example[0].slot);
}

static void wrong_words(void)
{
	uint64_t first = 0, second = 0, slot = 0;
	uint32_t entry, *root = store->core.clusters.root;
	struct ts_fsck found;
	ts_word *ram, *word;

	rest();
	ram = first_of_kind(TS_RAM, &first);
	with(&ram->bits, ram->bits | 7, TS_FSCK_WORD, first);
	with(&ram->bits, ram->bits | 0xffffull << 48, TS_FSCK_WORD, first);
	with(&ram->bits, ram->bits + (1ull << TS_WORD_OBJ_SHIFT),
	     TS_FSCK_WORD, first);
	/* Another slot's page, sound in itself. */
	second = first + 1;
	word = first_of_kind(TS_RAM, &second);
	with(&ram->bits, word->bits, TS_FSCK_OBJECT, first);
	word = first_of_kind(TS_SPILL, &slot);
	with(&word->bits, word->bits | 0xffffull << 48, TS_FSCK_WORD, slot);

	entry = root[0];
	root[0] = UINT32_MAX >> 1;
	walk(&found);
	root[0] = entry;
	expect(&found, TS_FSCK_DIRECTORY, 1);
	if (found.clusters || ts_fsck_errors(&found) != 1)
		rig_die("clusters beyond a leaf that is not there");
	walk(&found);
	expect_clean(&found);
	go_on();
}

static void *change(void *arg)
{
	struct rng rng = { (uint64_t)(uintptr_t)arg };
	uint8_t page[PAGE_BYTES];

	while (!ts_load_relaxed(&stop)) {
		uint64_t slot = rng_below(&rng, SLOTS), n = rng_below(&rng, 48);

		switch (rng_below(&rng, 40)) {
		case 0: /* a whole cluster and more */
			n += 600;
			if (slot + n > SLOTS)
				n = SLOTS - slot;
			ts_store_discard(store, n * 4096, slot * 4096);
			break;
		case 1:
			ts_store_read(store, page, sizeof(page), slot * 4096);
			break;
		default:
			/* The same few slots again and again, too. */
			for (; n && slot < SLOTS; n--)
				write_slot(n % 2 ? slot++ : slot % 16,
					   rng_next(&rng));
		}
	}
	return NULL;
}

static void *tidy(void *arg)
{
	(void)arg;
	while (!ts_load_relaxed(&stop)) {
		ts_compact(&store->core, TS_SLACK_NONE, 8);
		ts_clusters_reclaim(&store->core.clusters);
		ts_blocks_shrink(&store->core.media.blocks, 8, 4);
		ts_sleep_ns(1000000);
	}
	return NULL;
}

static void under_load(uint64_t seed)
{
	pthread_t thread[THREADS + 1];
	uint64_t changed = 0, slots = 0;
	struct ts_counters c;
	struct ts_fsck found;

	for (unsigned i = 0; i < THREADS; i++)
		if (pthread_create(&thread[i], NULL, change,
				   (void *)(uintptr_t)(seed + i)))
			rig_die("no thread");
	if (pthread_create(&thread[THREADS], NULL, tidy, NULL))
		rig_die("no thread");
	for (unsigned i = 0; i < WALKS; i++) {
		walk(&found);
		expect_clean(&found);
		changed += found.changed;
		for (unsigned k = 0; k < TS_KINDS; k++)
			slots += found.slots[k];
	}
	ts_store_relaxed(&stop, true);
	for (unsigned i = 0; i <= THREADS; i++)
		pthread_join(thread[i], NULL);
	ts_store_counters(store, &c);
	printf("under load: %u walks over %" PRIu64 " pages, %" PRIu64
	       " looked at again; %" PRIu64 " pages were moved, %" PRIu64
	       " cleaned\n", WALKS, slots, changed, c.compacted_objects,
	       c.cleaned_pages);
	rig_check(store);
}

int main(int argc, char **argv)
{
	struct rng rng = { argc > 1 ? strtoull(argv[1], NULL, 0) : 1 };
	const char *tmp = getenv("TMPDIR");

	printf("seed %" PRIu64 "\n", rng.state);
	snprintf(spill_path, sizeof(spill_path), "%s/ts-fsck.%d",
		 tmp ? tmp : "/tmp", (int)getpid());
	start();
	for (uint64_t slot = 0; slot < SLOTS; slot++)
		write_slot(slot, rng_next(&rng));
	at_rest();
	damaged(&rng);
	wrong_words();
	under_load(rng_next(&rng));
	for (uint64_t slot = 0; slot < SLOTS; slot++)
		write_slot(slot, rng_next(&rng));
	at_rest();
	ts_store_free(store);
	unlink(spill_path);
	return EXIT_SUCCESS;
}
