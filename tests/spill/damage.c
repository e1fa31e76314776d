// SPDX-License-Identifier: BSD-3-Clause
/* damage.c - a spill file that changes behind the store's back (case 25)
 *
 *	ts-spill-damage [--plain] [SEED]
 *
 * A flipped byte, a file cut short, two records that change places: the slots
 * hit give EIO, all others their page, a counter rises, and a rewrite heals.
 */
#include "tests/spill/rig.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static struct spill_rig rig;
static bool *hit;

static uint64_t file_off(ts_word word)
{
	return ts_segment_off(ts_word_segment(word)) + ts_word_spill_off(word);
}

static unsigned record_bytes(ts_word word)
{
	return ts_word_len(word) + TS_RECORD_EXTRA;
}

static void get(void *buf, size_t n, uint64_t off)
{
	if (pread(rig.fd, buf, n, (off_t)off) != (ssize_t)n)
		rig_die("the test cannot read the file: %s", strerror(errno));
}

static void put(const void *buf, size_t n, uint64_t off)
{
	if (pwrite(rig.fd, buf, n, (off_t)off) != (ssize_t)n)
		rig_die("the test cannot write the file: %s", strerror(errno));
}

/* The engine reads past the page cache. */
static void settle(void)
{
	if (fsync(rig.fd))
		rig_die("fsync: %s", strerror(errno));
}

static void fill(void)
{
	for (unsigned slot = 0; slot < rig.n_slots; slot++)
		if (slot_write(&rig, slot))
			rig_die("no room for the test");
	spill_rig_check(&rig);
}

static unsigned random_spilled(struct rng *rng, ts_word *ret_word)
{
	for (;;) {
		unsigned slot = (unsigned)rng_below(rng, rig.n_slots);

		if (!hit[slot] && slot_is_spilled(&rig, slot, ret_word))
			return slot;
	}
}

/* EIO exactly where hit; returns how many. */
static unsigned verify(void)
{
	uint64_t before = spill_rig_counters(&rig).damaged;
	unsigned n = 0;

	for (unsigned slot = 0; slot < rig.n_slots; slot++) {
		bool reads = slot_reads(&rig, slot);

		if (reads == hit[slot])
			rig_die("slot %u: %s although %s", slot,
				reads ? "is read" : "cannot be read",
				hit[slot] ? "damaged" : "whole");
		n += !reads;
	}
	if (spill_rig_counters(&rig).damaged != before + n)
		rig_die("%u pages are damaged, and not all were counted", n);
	return n;
}

static void heal(void)
{
	for (unsigned slot = 0; slot < rig.n_slots; slot++) {
		if (hit[slot] && slot_write(&rig, slot))
			rig_die("a rewrite was refused");
		hit[slot] = false;
	}
	if (verify())
		rig_die("a rewrite did not heal");
	spill_rig_check(&rig);
}

/* Any byte of a record: codec, text and tag. */
static void flip_bytes(struct rng *rng)
{
	for (unsigned i = 0; i < 40; i++) {
		uint8_t byte;
		ts_word word;
		unsigned slot = random_spilled(rng, &word);
		unsigned at = (unsigned)rng_below(rng, record_bytes(word));

		/* The ends of a record are sure to have their turn. */
		if (i < 2)
			at = i ? record_bytes(word) - 1 : 0;
		get(&byte, 1, file_off(word) + at);
		byte ^= (uint8_t)(1u << rng_below(rng, 8));
		put(&byte, 1, file_off(word) + at);
		hit[slot] = true;
	}
	settle();
	printf("%u slots with a flipped bit\n", verify());
	heal();
}

/* Two records of one length are exchanged: each is authentic, but not here. */
static void swap_records(struct rng *rng)
{
	uint8_t a[8192], b[8192];
	unsigned n = 0;

	for (unsigned i = 0; i < 20000 && n < 20; i++) {
		ts_word first, second;
		unsigned x = random_spilled(rng, &first);
		unsigned y = random_spilled(rng, &second);

		if (x == y || ts_word_len(first) != ts_word_len(second))
			continue;
		get(a, record_bytes(first), file_off(first));
		get(b, record_bytes(first), file_off(second));
		put(b, record_bytes(first), file_off(first));
		put(a, record_bytes(first), file_off(second));
		hit[x] = hit[y] = true;
		n += 2;
	}
	if (!n)
		rig_die("no two records of one length");
	settle();
	printf("%u slots with another's record\n", verify());
	heal();
}

/* An older record of the same slot, put back where the new one is. */
static void replay(void)
{
	struct ts_segments *s = &rig.store->core.media.spill->segments;
	static uint8_t old[TS_SEGMENT_BYTES];
	unsigned n = 0;
	uint32_t segment = s->n;
	ts_word word;

	for (uint32_t i = 0; i < s->n && segment == s->n; i++)
		if (s->segment[i].state == TS_SEGMENT_FULL)
			segment = i;
	if (segment == s->n)
		rig_die("no segment is full");
	get(old, sizeof(old), ts_segment_off(segment));
	/* Until the segment has been filled anew. */
	for (uint64_t generation = s->segment[segment].generation;
	     s->segment[segment].generation == generation ||
	     s->segment[segment].state != TS_SEGMENT_FULL;)
		fill();
	put(old, sizeof(old), ts_segment_off(segment));
	settle();
	for (unsigned slot = 0; slot < rig.n_slots; slot++)
		if (slot_is_spilled(&rig, slot, &word) &&
		    ts_word_segment(word) == segment) {
			hit[slot] = true;
			n++;
		}
	if (!n || verify() != n)
		rig_die("a segment of the past");
	printf("%u slots with a segment of the past\n", n);
	heal();
}

/* Damaged slots stay damaged, and the others whole, while cleaning and
 * spilling go on around them.
 */
static void churn(struct rng *rng)
{
	ts_word word;

	for (unsigned i = 0; i < 8; i++) {
		unsigned slot = random_spilled(rng, &word);
		uint8_t junk[4];

		get(junk, 4, file_off(word));
		junk[i % 4] ^= 0x55;
		put(junk, 4, file_off(word));
		hit[slot] = true;
	}
	settle();
	for (unsigned round = 0; round < 6; round++)
		for (unsigned slot = 0; slot < rig.n_slots; slot++)
			if (!hit[slot] && rng_below(rng, 2) &&
			    slot_write(&rig, slot))
				rig_die("a write was refused");
	if (!spill_rig_counters(&rig).cleaned_pages)
		rig_die("nothing was cleaned");
	printf("%u slots damaged amid cleaning\n", verify());
	heal();
}

/* What was cut off is gone; what lies before is not. */
static void truncate_file(void)
{
	struct stat st;
	ts_word word;
	unsigned n = 0;
	off_t cut;

	if (fstat(rig.fd, &st))
		rig_die("fstat");
	cut = st.st_size / 2 / 4096 * 4096;
	if (ftruncate(rig.fd, cut))
		rig_die("ftruncate: %s", strerror(errno));
	for (unsigned slot = 0; slot < rig.n_slots; slot++)
		if (slot_is_spilled(&rig, slot, &word) &&
		    file_off(word) + record_bytes(word) > (uint64_t)cut) {
			hit[slot] = true;
			n++;
		}
	if (!n)
		rig_die("nothing was in the second half of the file");
	verify();
	printf("%u slots cut off\n", n);
	/* Room for the rewrites: the file is as it was, though empty. */
	if (ftruncate(rig.fd, st.st_size))
		rig_die("ftruncate: %s", strerror(errno));
	verify();
	heal();
}

int main(int argc, char **argv)
{
	bool plain = argc > 1 && !strcmp(argv[1], "--plain");
	const char *seed = argc > 1 + plain ? argv[1 + plain] : "1";
	struct rng rng = { strtoull(seed, NULL, 0) };

	spill_rig_init(&rig, 48 * MIB, 8 * MIB, 52 * MIB);
	rig.params.encrypt = !plain;
	hit = calloc(rig.n_slots, sizeof(*hit));
	if (!hit)
		rig_die("no memory for the test");
	spill_rig_start(&rig);
	fill();
	flip_bytes(&rng);
	swap_records(&rng);
	replay();
	churn(&rng);
	truncate_file();
	for (unsigned slot = 0; slot < rig.n_slots; slot++)
		slot_discard(&rig, slot);
	rig_check_empty(rig.store);
	free(hit);
	spill_rig_end(&rig);
	return EXIT_SUCCESS;
}
