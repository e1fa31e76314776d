/* SPDX-License-Identifier: BSD-3-Clause */
/* rereads.c - a read never takes the stored copy away (case 20) */
#include "nbdtest.h"

#include <stdio.h>

#define SLOTS       200u
#define CONNECTIONS 3u

static struct nbd_handle *nbd[CONNECTIONS];

static void expect_three_times(const uint8_t *page, uint64_t off)
{
	unsigned i;

	for (i = 0; i < CONNECTIONS; i++) {
		nt_expect(nbd[i], page, NT_PAGE, off);
		nt_expect(nbd[i], page + 1000, 2000, off + 1000);
	}
}

static void write_and_expect(unsigned generation)
{
	uint8_t page[NT_PAGE];
	uint64_t slot;

	for (slot = 0; slot < SLOTS; slot++) {
		nt_page(page, (slot + generation) % NT_KINDS,
			slot << 8 | generation);
		must(nbd_pwrite(nbd[0], page, NT_PAGE, slot * NT_PAGE, 0));
	}
	for (slot = 0; slot < SLOTS; slot++) {
		nt_page(page, (slot + generation) % NT_KINDS,
			slot << 8 | generation);
		expect_three_times(page, slot * NT_PAGE);
	}
}

int main(void)
{
	static const uint8_t zeros[NT_PAGE];
	unsigned i;
	uint64_t slot;

	for (i = 0; i < CONNECTIONS; i++)
		nbd[i] = nt_connect();
	/* Each slot takes every kind of page once. */
	for (i = 0; i < NT_KINDS; i++)
		write_and_expect(i);
	must(nbd_trim(nbd[0], SLOTS * NT_PAGE, 0, 0));
	for (slot = 0; slot < SLOTS; slot++)
		expect_three_times(zeros, slot * NT_PAGE);
	for (i = 0; i < CONNECTIONS; i++)
		nt_disconnect(nbd[i]);
	puts("three reads, three times the same");
	return 0;
}
