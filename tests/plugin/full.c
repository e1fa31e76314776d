/* SPDX-License-Identifier: BSD-3-Clause */
/* full.c - what happens when memory is full (case 23)
 *
 * Run with ram=64M and a larger size. Pages are random, so that each takes
 * its whole size.
 */
#include "nbdtest.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define RAM_MIB      64u
#define OVERHEAD_MIB 24u
/* Raw pages that must fit: what is lost to words, slack and the reserve is
 * a quarter of such a small budget at most.
 */
#define LEAST_PAGES (RAM_MIB * NT_MIB / NT_PAGE * 3 / 4)
#define REFUSALS    1000
#define LOG_LIMIT   (16 * NT_KIB)

static struct nbd_handle *nbd;
static uint64_t slots, stored; /* stored: slots below it were written */
static uint8_t *dropped;       /* a flag a slot */

static void slot_page(uint8_t *page, uint64_t slot)
{
	if (dropped[slot])
		memset(page, 0, NT_PAGE);
	else
		nt_page(page, NT_RAW, slot);
}

static void expect_all(void)
{
	uint8_t page[NT_PAGE];
	uint64_t slot;

	for (slot = 0; slot < stored; slot++) {
		slot_page(page, slot);
		nt_expect(nbd, page, NT_PAGE, slot * NT_PAGE);
	}
	memset(page, 0, NT_PAGE);
	nt_expect(nbd, page, NT_PAGE, slots / 2 * NT_PAGE);
}

static void expect_bounded(void)
{
	uint64_t kib = nt_server_resident_kib();

	printf("%llu pages stored, %llu KiB resident\n",
	       (unsigned long long)stored, (unsigned long long)kib);
	check(nt_server_is_sanitized() ||
		      kib <= (RAM_MIB + OVERHEAD_MIB) * 1024,
	      "%llu KiB resident", (unsigned long long)kib);
}

/* Returns the number of pages that fitted. */
static uint64_t write_until_full(void)
{
	uint64_t before = stored;
	uint8_t page[NT_PAGE];

	for (; stored < slots; stored++) {
		nt_page(page, NT_RAW, stored);
		if (nbd_pwrite(nbd, page, NT_PAGE, stored * NT_PAGE, 0) == -1)
			break;
	}
	check(stored < slots, "never refused");
	check(nbd_get_errno() == ENOSPC, "%s", nbd_get_error());
	return stored - before;
}

/* Refusals are not logged one by one. */
static void refuse_many(void)
{
	const char *log = getenv("SERVER_LOG");
	uint8_t page[NT_PAGE];
	struct stat st;
	int i;

	nt_page(page, NT_RAW, stored);
	for (i = 0; i < REFUSALS; i++)
		must_fail(nbd_pwrite(nbd, page, NT_PAGE, stored * NT_PAGE, 0),
			  ENOSPC);
	check(log && stat(log, &st) == 0, "no log");
	check((uint64_t)st.st_size < LOG_LIMIT, "%d refusals logged %lld bytes",
	      REFUSALS, (long long)st.st_size);
}

/* A long write that does not fit: each slot is as it was or fully written. */
static void refuse_long(void)
{
	uint8_t *buf = malloc(NT_MIB), page[NT_PAGE];
	uint64_t slot, first = slots / 2, n = NT_MIB / NT_PAGE;

	check(buf, "out of memory");
	for (slot = first; slot < first + n; slot++)
		nt_page(buf + (slot - first) * NT_PAGE, NT_RAW, slot);
	must_fail(nbd_pwrite(nbd, buf, NT_MIB, first * NT_PAGE, 0), ENOSPC);
	for (slot = first; slot < first + n; slot++) {
		must(nbd_pread(nbd, page, NT_PAGE, slot * NT_PAGE, 0));
		check(nt_is_zero(page, NT_PAGE) ||
			      memcmp(page, buf + (slot - first) * NT_PAGE,
				     NT_PAGE) == 0,
		      "slot %llu holds half a write", (unsigned long long)slot);
	}
	must(nbd_trim(nbd, NT_MIB, first * NT_PAGE, 0));
	free(buf);
}

static uint64_t drop(uint64_t how_many, uint64_t state)
{
	uint64_t n, slot;

	for (n = 0; n < how_many;) {
		slot = nt_rand(&state) % stored;
		if (dropped[slot])
			continue;
		must(nbd_trim(nbd, NT_PAGE, slot * NT_PAGE, 0));
		dropped[slot] = 1;
		n++;
	}
	return n;
}

/* What raw pages have left must be of use to pages of any size. */
static void reuse_for_small_pages(void)
{
	uint64_t i, fitted = 0, freed = drop(stored / 20, 23);
	uint8_t page[NT_PAGE];

	/* They go where nothing was, and compress to less than half. */
	for (i = 0; i < freed; i++) {
		nt_page(page, NT_TEXT, i);
		fitted += nbd_pwrite(nbd, page, NT_PAGE,
				     (slots / 2 + i) * NT_PAGE, 0) == 0;
	}
	printf("%llu pages dropped, %llu small ones written\n",
	       (unsigned long long)freed, (unsigned long long)fitted);
	check(fitted >= freed / 2, "small pages do not fit where large were");
	must(nbd_trim(nbd, freed * NT_PAGE, slots / 2 * NT_PAGE, 0));
	expect_all();
	expect_bounded();
}

int main(void)
{
	uint64_t freed, fitted;
	int round;

	if (!nt_server_is_thinswap())
		nt_skip("needs a plugin with a memory limit");
	nbd = nt_connect();
	slots = must(nbd_get_size(nbd)) / NT_PAGE;
	dropped = calloc(slots, 1);
	check(dropped, "out of memory");

	fitted = write_until_full();
	expect_bounded();
	check(fitted >= LEAST_PAGES, "only %llu pages fit",
	      (unsigned long long)fitted);
	refuse_many();
	refuse_long();
	expect_all();
	for (round = 0; round < 3; round++) {
		freed = drop(stored / 10, round);
		fitted = write_until_full();
		printf("%llu pages dropped, %llu written\n",
		       (unsigned long long)freed, (unsigned long long)fitted);
		/* Holes are a page each: all of them must be of use. */
		check(fitted >= freed / 2, "writes do not resume");
		expect_all();
		expect_bounded();
	}
	reuse_for_small_pages();
	nt_disconnect(nbd);
	return 0;
}
