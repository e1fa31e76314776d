/* SPDX-License-Identifier: BSD-3-Clause */
/* large.c - offsets and lengths beyond 32 bits (case 17)
 *
 * To be run on a device of 3 TiB or more.
 */
#include "nbdtest.h"

#include <stdio.h>
#include <stdlib.h>

#define LONG_TRIM (4 * NT_GIB - NT_PAGE)

static struct nbd_handle *nbd;
static uint64_t size;
#define SPOTS 7u
static uint64_t spots[SPOTS];

static void expect_spot(uint64_t off)
{
	uint8_t page[NT_PAGE];

	nt_page(page, NT_RAW, off + 1);
	nt_expect(nbd, page, NT_PAGE, off);
}

static void expect_zero(uint64_t off)
{
	uint8_t page[NT_PAGE];

	must(nbd_pread(nbd, page, NT_PAGE, off, 0));
	check(nt_is_zero(page, NT_PAGE), "offset %#llx is not zero",
	      (unsigned long long)off);
}

static void write_spots(void)
{
	uint8_t page[NT_PAGE];
	unsigned i;

	for (i = 0; i < SPOTS; i++) {
		nt_page(page, NT_RAW, spots[i] + 1);
		must(nbd_pwrite(nbd, page, NT_PAGE, spots[i], 0));
	}
}

static bool is_spot(uint64_t off)
{
	unsigned i;

	for (i = 0; i < SPOTS; i++) {
		if (spots[i] == off)
			return true;
	}
	return false;
}

/* Were one bit of an offset lost, a spot would show again where only that
 * bit differs.
 */
static void expect_no_alias(void)
{
	unsigned i, bit;
	uint64_t off;

	for (i = 0; i < SPOTS; i++) {
		expect_spot(spots[i]);
		for (bit = 12; bit < 63; bit++) {
			off = spots[i] ^ (1ull << bit);
			if (off <= size - NT_PAGE && !is_spot(off))
				expect_zero(off);
		}
	}
}

/* A trim of nearly 4 GiB takes all it covers, and not a slot more. */
static void long_trims(void)
{
	must(nbd_trim(nbd, LONG_TRIM, 0, 0));
	expect_zero(0);
	expect_spot(4 * NT_GIB - NT_PAGE);
	expect_spot(4 * NT_GIB);

	must(nbd_trim(nbd, LONG_TRIM, NT_PAGE, 0));
	expect_zero(4 * NT_GIB - NT_PAGE);
	expect_spot(4 * NT_GIB);

	must(nbd_trim(nbd, LONG_TRIM, 2 * NT_TIB - 4 * NT_GIB + NT_PAGE, 0));
	expect_spot(2 * NT_TIB);
	must(nbd_trim(nbd, LONG_TRIM, 2 * NT_TIB - 2 * NT_GIB, 0));
	expect_zero(2 * NT_TIB);

	must(nbd_zero(nbd, LONG_TRIM, size - 4 * NT_GIB, 0));
	expect_spot(size - NT_PAGE);
	must(nbd_trim(nbd, LONG_TRIM, size - LONG_TRIM, 0));
	expect_zero(size - NT_PAGE);
	expect_spot(4 * NT_GIB);
}

int main(int argc, char **argv)
{
	check(argc == 2, "usage: large SIZE_BYTES");
	nbd = nt_connect();
	size = must(nbd_get_size(nbd));
	check(size == strtoull(argv[1], NULL, 10), "size is %llu",
	      (unsigned long long)size);
	spots[0] = 0;
	spots[1] = 4 * NT_GIB - NT_PAGE;
	spots[2] = 4 * NT_GIB;
	spots[3] = 2 * NT_TIB;
	spots[4] = size - NT_PAGE;
	/* Between them these have every bit of an offset below 3 TiB set. */
	spots[5] = 0x15555555000;
	spots[6] = 0x2aaaaaaa000;

	write_spots();
	expect_no_alias();
	long_trims();
	nt_disconnect(nbd);
	printf("%llu bytes: no wrap, no alias\n", (unsigned long long)size);
	return 0;
}
