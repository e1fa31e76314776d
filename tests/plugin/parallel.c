/* SPDX-License-Identifier: BSD-3-Clause */
/* parallel.c - sixteen connections at once (case 18)
 *
 * disjoint   Each thread owns every sixteenth run of 32 slots, so that all
 *            share every cluster, and knows what its slots must hold.
 * sectors    Each slot is shared by eight threads that own 512 bytes of it:
 *            no read-modify-write may lose another's bytes.
 * contended  All write the same slots; a slot holds one whole write, whoever
 *            reads it and whenever.
 * flush      What one connection wrote and another flushed, a third sees.
 */
#include "nbdtest.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define THREADS 16u

/* Runs of slots for the disjoint part. */
#define RUN            32u
#define RUNS           512u
#define SLOTS          (RUN * RUNS)
#define DISJOINT_STEPS 400

static uint32_t generations[SLOTS]; /* 0: reads as zero */

static void slot_page(uint8_t *page, uint64_t slot)
{
	uint64_t gen = generations[slot];
	uint64_t seed = slot << 32 | gen;

	nt_page(page, gen ? (slot + gen) % NT_KINDS : NT_ZERO, seed);
}

static void disjoint_step(struct nbd_handle *nbd, unsigned self,
			  uint64_t *state, uint8_t *buf)
{
	uint64_t run = nt_rand(state) % (RUNS / THREADS) * THREADS + self;
	unsigned first = nt_rand(state) % RUN;
	unsigned n = 1 + nt_rand(state) % (RUN - first);
	uint64_t slot = run * RUN + first;
	unsigned what = nt_rand(state) % 8, i;

	if (what < 2) {
		for (i = 0; i < n; i++)
			slot_page(buf + i * NT_PAGE, slot + i);
		nt_expect(nbd, buf, n * NT_PAGE, slot * NT_PAGE);
		return;
	}
	for (i = 0; i < n; i++) {
		generations[slot + i] =
			what < 4 ? 0 : (uint32_t)(nt_rand(state) >> 40) + 1;
		slot_page(buf + i * NT_PAGE, slot + i);
	}
	if (what == 2)
		must(nbd_trim(nbd, n * NT_PAGE, slot * NT_PAGE, 0));
	else if (what == 3)
		must(nbd_zero(nbd, n * NT_PAGE, slot * NT_PAGE, 0));
	else
		must(nbd_pwrite(nbd, buf, n * NT_PAGE, slot * NT_PAGE, 0));
}

static void disjoint(unsigned self)
{
	struct nbd_handle *nbd = nt_connect();
	uint8_t *buf = malloc(RUN * NT_PAGE);
	uint64_t state = 1800 + self;
	int step;

	check(buf, "out of memory");
	for (step = 0; step < DISJOINT_STEPS; step++)
		disjoint_step(nbd, self, &state, buf);
	free(buf);
	nt_disconnect(nbd);
}

static void disjoint_verify(void)
{
	struct nbd_handle *nbd = nt_connect();
	uint8_t page[NT_PAGE];
	uint64_t slot;

	for (slot = 0; slot < SLOTS; slot++) {
		slot_page(page, slot);
		nt_expect(nbd, page, NT_PAGE, slot * NT_PAGE);
	}
	nt_disconnect(nbd);
}

#define SECTOR         512u
#define SECTORS_A_SLOT (NT_PAGE / SECTOR)
#define SECTORS        (64 * SECTORS_A_SLOT)
#define SECTOR_STEPS   1500

static uint8_t sectors[SECTORS][SECTOR];

static void sector_writer(unsigned self)
{
	struct nbd_handle *nbd = nt_connect();
	uint64_t state = 1900 + self, sector;
	int step;

	for (step = 0; step < SECTOR_STEPS; step++) {
		sector = nt_rand(&state) % (SECTORS / THREADS) * THREADS + self;
		nt_expect(nbd, sectors[sector], SECTOR, sector * SECTOR);
		/* Two slots differ in what they compress to. */
		memset(sectors[sector], (int)nt_rand(&state), SECTOR);
		if (sector / SECTORS_A_SLOT % 2) {
			uint64_t word = nt_rand(&state);

			memcpy(sectors[sector] + step % 500, &word, 8);
		}
		must(nbd_pwrite(nbd, sectors[sector], SECTOR, sector * SECTOR,
				0));
	}
	nt_disconnect(nbd);
}

/* A contended page begins with its stamp, which says how to make the rest:
 * the writer, the count of its writes and the kind of page.
 */
#define CONTENDED_SLOTS 16u
#define CONTENDED_STEPS 1000

static void stamped_page(uint8_t *page, uint64_t stamp)
{
	uint64_t pos;

	switch (stamp % 4) {
	case 0:
		nt_page(page, NT_TEXT, stamp);
		break;
	case 1:
		nt_page(page, NT_RAW, stamp);
		break;
	case 2:
		nt_page(page, NT_EDGE, stamp);
		break;
	default:
		for (pos = 0; pos < NT_PAGE; pos += sizeof(stamp))
			memcpy(page + pos, &stamp, sizeof(stamp));
	}
	memcpy(page, &stamp, sizeof(stamp));
}

static uint64_t make_stamp(unsigned self, unsigned step, unsigned kind)
{
	return (uint64_t)(self + 1) << 48 | (uint64_t)step << 8 | kind;
}

static void expect_whole(const uint8_t *page)
{
	uint8_t want[NT_PAGE];
	uint64_t stamp;

	memcpy(&stamp, page, sizeof(stamp));
	if (stamp == 0) {
		check(nt_is_zero(page, NT_PAGE), "half a page of zeros");
		return;
	}
	check(stamp >> 48 <= THREADS && (stamp >> 8 & 0xffff) < CONTENDED_STEPS,
	      "a page that nobody wrote");
	stamped_page(want, stamp);
	check(memcmp(page, want, NT_PAGE) == 0,
	      "a slot holds parts of two writes");
}

static void expect_all_whole(struct nbd_handle *nbd, uint8_t *buf)
{
	unsigned i;

	must(nbd_pread(nbd, buf, CONTENDED_SLOTS * NT_PAGE, 0, 0));
	for (i = 0; i < CONTENDED_SLOTS; i++)
		expect_whole(buf + i * NT_PAGE);
}

static void contended(unsigned self)
{
	static _Thread_local uint8_t buf[CONTENDED_SLOTS * NT_PAGE];
	struct nbd_handle *nbd = nt_connect();
	uint64_t state = 2000 + self;
	unsigned step, n, i;

	for (step = 0; step < CONTENDED_STEPS; step++) {
		n = step % 8 == 0 ? CONTENDED_SLOTS : 1;
		switch (nt_rand(&state) % 8) {
		case 0:
			must(nbd_trim(nbd, NT_PAGE, 0, 0));
			break;
		case 1:
		case 2:
			expect_all_whole(nbd, buf);
			break;
		default:
			for (i = 0; i < n; i++)
				stamped_page(buf + i * NT_PAGE,
					     make_stamp(self, step,
							nt_rand(&state) % 4));
			must(nbd_pwrite(nbd, buf, n * NT_PAGE, 0, 0));
		}
	}
	expect_all_whole(nbd, buf);
	nt_disconnect(nbd);
}

static void flush_covers_all(void)
{
	struct nbd_handle *one = nt_connect(), *two = nt_connect();
	struct nbd_handle *three = nt_connect();
	uint8_t page[NT_PAGE];
	unsigned i;

	check(must(nbd_can_multi_conn(one)) == 1, "multi-conn not advertised");
	for (i = 0; i < 100; i++) {
		nt_page(page, i % NT_KINDS, i);
		must(nbd_pwrite(one, page, NT_PAGE, i * NT_PAGE, 0));
		must(nbd_flush(two, 0));
		nt_expect(three, page, NT_PAGE, i * NT_PAGE);
	}
	nt_disconnect(one);
	nt_disconnect(two);
	nt_disconnect(three);
}

static void drop_all(void)
{
	struct nbd_handle *nbd = nt_connect();

	must(nbd_zero(nbd, SLOTS * NT_PAGE, 0, 0));
	nt_disconnect(nbd);
}

int main(void)
{
	struct nbd_handle *nbd;

	nt_threads(THREADS, disjoint);
	disjoint_verify();
	puts("disjoint writes are exact");
	drop_all();

	nt_threads(THREADS, sector_writer);
	nbd = nt_connect();
	nt_expect(nbd, sectors[0], sizeof(sectors), 0);
	nt_disconnect(nbd);
	puts("shared slots keep every sector");
	drop_all();

	nt_threads(THREADS, contended);
	puts("contended slots hold whole writes");
	flush_covers_all();
	puts("a flush covers all connections");
	return 0;
}
