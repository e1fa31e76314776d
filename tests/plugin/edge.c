/* SPDX-License-Identifier: BSD-3-Clause */
/* edge.c - pages that compress to 3760 bytes and more, and change size, so
 * that they are now and then better kept as they are (case 21)
 *
 * Slots shrink and grow in place, first with room, then with the pool at its
 * limit: there a write may be refused, and then the old page must still be
 * there. Run with a small ram=, and under AddressSanitizer too.
 */
#include "nbdtest.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <zstd.h>

#define SLOTS    1024u
#define SMALLEST 3740u /* random bytes; compresses to a few more */
#define SIZES    (NT_PAGE - SMALLEST + 1)

static struct nbd_handle *nbd;
static struct {
	unsigned random_bytes;
	uint64_t seed;
} model[SLOTS];
static uint64_t refused, accepted;

static void model_page(uint8_t *page, uint64_t slot)
{
	nt_mixed_page(page, model[slot].random_bytes, model[slot].seed);
}

static void expect_slots(void)
{
	uint8_t page[NT_PAGE];
	uint64_t slot;

	for (slot = 0; slot < SLOTS; slot++) {
		model_page(page, slot);
		nt_expect(nbd, page, NT_PAGE, slot * NT_PAGE);
	}
}

/* The pages must really be at the edge: all sizes from 4000 up to where zstd
 * gives up (its least gain is 1/64 of the page), and larger than a page.
 */
static void expect_edge_sizes(void)
{
	char out[2 * NT_PAGE], seen[2 * NT_PAGE] = {0};
	unsigned random_bytes, len, covered = 0, largest = 0;
	uint8_t page[NT_PAGE];

	for (random_bytes = SMALLEST; random_bytes <= NT_PAGE; random_bytes++) {
		nt_mixed_page(page, random_bytes, random_bytes);
		len = ZSTD_compress(out, sizeof(out), page, NT_PAGE, 1);
		check(len < sizeof(seen), "zstd failed");
		seen[len] = 1;
		largest = len > largest ? len : largest;
	}
	for (len = 4000; len < NT_PAGE; len++)
		covered += seen[len];
	printf("%u sizes from 4000 bytes occur, the largest is %u\n", covered,
	       largest);
	check(covered >= 32 && largest > NT_PAGE,
	      "the pages are not at the edge");
}

static void put(uint64_t slot, unsigned random_bytes, uint64_t seed)
{
	uint8_t page[NT_PAGE];

	nt_mixed_page(page, random_bytes, seed);
	if (nbd_pwrite(nbd, page, NT_PAGE, slot * NT_PAGE, 0) == -1) {
		check(nbd_get_errno() == ENOSPC, "%s", nbd_get_error());
		refused++;
		return;
	}
	accepted++;
	model[slot].random_bytes = random_bytes;
	model[slot].seed = seed;
}

static void edge_rounds(unsigned rounds)
{
	unsigned round;
	uint64_t slot, size;

	for (round = 0; round < rounds; round++) {
		for (slot = 0; slot < SLOTS; slot++) {
			size = (slot + round * 31) % SIZES;
			if (round % 2)
				size = SIZES - 1 - size;
			put(slot, SMALLEST + size, slot << 16 | round);
		}
		expect_slots();
	}
}

/* Everything past the slots is filled until nothing more fits. */
static void fill_the_pool(void)
{
	uint64_t off, size = must(nbd_get_size(nbd));
	uint8_t page[NT_PAGE];

	for (off = SLOTS * NT_PAGE; off < size; off += NT_PAGE) {
		nt_page(page, NT_RAW, off);
		if (nbd_pwrite(nbd, page, NT_PAGE, off, 0) == -1)
			break;
	}
	check(off < size, "the device is too small to fill the pool");
	check(nbd_get_errno() == ENOSPC, "%s", nbd_get_error());
}

/* From a page to almost nothing and back, in an order of its own a round. */
static void swing_rounds(unsigned rounds)
{
	uint64_t slot, step, state = 21;
	unsigned round;

	for (round = 0; round < rounds; round++) {
		for (step = 0; step < SLOTS; step++) {
			slot = nt_rand(&state) % SLOTS;
			put(slot, nt_rand(&state) % (NT_PAGE + 1),
			    nt_rand(&state));
		}
		expect_slots();
	}
}

int main(void)
{
	uint64_t slot;

	expect_edge_sizes();
	nbd = nt_connect();
	edge_rounds(6);
	check(refused == 0, "refused although there was room");
	puts("with room: exact");
	if (!nt_server_is_thinswap())
		nt_skip("the rest needs a plugin with a memory limit");

	fill_the_pool();
	accepted = 0;
	edge_rounds(6);
	swing_rounds(20);
	printf("at the limit: %llu writes done, %llu refused, all exact\n",
	       (unsigned long long)accepted, (unsigned long long)refused);
	check(accepted > 0, "nothing can be overwritten at the limit");
	check(refused > 0, "the pool was not at its limit");
	/* A page of zeros takes no room, so it always fits. */
	for (slot = 0; slot < SLOTS; slot++) {
		refused = 0;
		put(slot, 0, 0);
		check(refused == 0, "a page of zeros was refused");
	}
	expect_slots();
	nt_disconnect(nbd);
	return 0;
}
