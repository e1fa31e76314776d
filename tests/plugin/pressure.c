/* SPDX-License-Identifier: BSD-3-Clause */
/* pressure.c - sixteen connections at the memory limit (cases 18 and 23)
 *
 * The threads want several times the memory there is. Each owns every
 * sixteenth slot; a write may be refused, and then its slots keep what they
 * had or take what was written, each for itself. At the end all is dropped
 * and the whole memory must be of use again.
 */
#include "nbdtest.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#define THREADS 16u
#define SLOTS   32768u
#define STEPS   2500

static struct nbd_handle *nbd;
static uint32_t generations[SLOTS]; /* 0: reads as zero */
static _Atomic uint64_t refused, accepted;

static void slot_page(uint8_t *page, uint64_t slot, uint32_t gen)
{
	nt_page(page, gen ? (slot / THREADS + gen) % NT_KINDS : NT_ZERO,
		slot << 32 | gen);
}

static void write_slot(struct nbd_handle *mine, uint64_t slot, uint32_t gen)
{
	uint8_t page[NT_PAGE];

	slot_page(page, slot, gen);
	if (nbd_pwrite(mine, page, NT_PAGE, slot * NT_PAGE, 0) == 0) {
		generations[slot] = gen;
		atomic_fetch_add(&accepted, 1);
		return;
	}
	check(nbd_get_errno() == ENOSPC, "%s", nbd_get_error());
	atomic_fetch_add(&refused, 1);
}

static void expect_slot(struct nbd_handle *mine, uint64_t slot)
{
	uint8_t page[NT_PAGE];

	slot_page(page, slot, generations[slot]);
	nt_expect(mine, page, NT_PAGE, slot * NT_PAGE);
}

static void worker(unsigned self)
{
	struct nbd_handle *mine = nt_connect();
	uint64_t slot, state = 2300 + self;
	int step;

	for (step = 0; step < STEPS; step++) {
		slot = nt_rand(&state) % (SLOTS / THREADS) * THREADS + self;
		switch (nt_rand(&state) % 8) {
		case 0:
			must(nbd_trim(mine, NT_PAGE, slot * NT_PAGE, 0));
			generations[slot] = 0;
			break;
		case 1:
			expect_slot(mine, slot);
			break;
		default:
			write_slot(mine, slot, (uint32_t)step + 1);
		}
	}
	nt_disconnect(mine);
}

/* Random pages that fit into an empty device. */
static uint64_t capacity(void)
{
	uint8_t page[NT_PAGE];
	uint64_t slot;

	must(nbd_zero(nbd, SLOTS * NT_PAGE, 0, 0));
	for (slot = 0; slot < SLOTS; slot++) {
		nt_page(page, NT_RAW, slot);
		if (nbd_pwrite(nbd, page, NT_PAGE, slot * NT_PAGE, 0) == -1)
			break;
	}
	check(slot < SLOTS && nbd_get_errno() == ENOSPC, "never refused");
	must(nbd_trim(nbd, SLOTS * NT_PAGE, 0, 0));
	return slot;
}

int main(void)
{
	uint64_t before, after, slot;

	if (!nt_server_is_thinswap())
		nt_skip("needs a plugin with a memory limit");
	nbd = nt_connect();
	before = capacity();
	nt_threads(THREADS, worker);
	for (slot = 0; slot < SLOTS; slot++)
		expect_slot(nbd, slot);
	after = capacity();
	nt_disconnect(nbd);
	printf("%llu writes done, %llu refused, all exact; "
	       "%llu pages fitted before, %llu after\n",
	       (unsigned long long)accepted, (unsigned long long)refused,
	       (unsigned long long)before, (unsigned long long)after);
	check(refused > 0, "the limit was not reached");
	check(after >= before / 10 * 9, "memory was lost");
	return 0;
}
