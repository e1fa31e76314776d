/* SPDX-License-Identifier: BSD-3-Clause */
/* subslot.c - requests that are not whole slots (case 14)
 *
 * Every step is done to the device and to a plain array, and then all bytes
 * are compared.
 */
#include "nbdtest.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#define AREA         (16 * NT_PAGE)
#define RANDOM_STEPS 3000

static uint8_t model[AREA];
static struct nbd_handle *nbd;

static void write_bytes(uint64_t len, uint64_t off, uint64_t seed)
{
	uint64_t pos;

	for (pos = 0; pos < len; pos++)
		model[off + pos] = (uint8_t)nt_rand(&seed);
	must(nbd_pwrite(nbd, model + off, len, off, 0));
	nt_expect(nbd, model, AREA, 0);
}

static void zero_bytes(uint64_t len, uint64_t off)
{
	memset(model + off, 0, len);
	must(nbd_zero(nbd, len, off, 0));
	nt_expect(nbd, model, AREA, 0);
}

/* Slots inside the range read as zero; a slot that is trimmed in part may
 * keep its bytes, those outside the range must stay.
 */
static void trim_bytes(uint64_t len, uint64_t off)
{
	uint64_t first = (off + NT_PAGE - 1) / NT_PAGE * NT_PAGE;
	uint64_t last = (off + len) / NT_PAGE * NT_PAGE;
	uint8_t got[AREA];
	uint64_t pos;

	must(nbd_trim(nbd, len, off, 0));
	must(nbd_pread(nbd, got, AREA, 0, 0));
	for (pos = 0; pos < AREA; pos++) {
		if (pos >= first && pos < last)
			model[pos] = 0;
		else if (pos >= off && pos < off + len && got[pos] == 0)
			model[pos] = 0;
		check(got[pos] == model[pos],
		      "trim of %llu at %llu changed byte %llu",
		      (unsigned long long)len, (unsigned long long)off,
		      (unsigned long long)pos);
	}
}

static void the_case(bool stored)
{
	if (stored)
		write_bytes(AREA, 0, 1);
	write_bytes(512, 512, 2);
	zero_bytes(512, 3584);
	nt_expect(nbd, model + 1024, 1024, 1024);
	write_bytes(6144, 2 * NT_PAGE - 3000, 3);
	write_bytes(1, NT_PAGE - 1, 4);
	write_bytes(2, NT_PAGE - 1, 5);
	trim_bytes(2 * NT_PAGE + 1024, 512);
	trim_bytes(1024, 9 * NT_PAGE + 100);
	zero_bytes(AREA, 0);
}

/* Length 0 is not specified by NBD. nbdkit refuses it by itself, as a range
 * that is not inside the device; whoever answers, nothing may change.
 */
static void refused_or_done(int ret)
{
	check(ret == 0 || nbd_get_errno() == EINVAL ||
		      nbd_get_errno() == ENOSPC,
	      "%s", nbd_get_error());
}

static void nothing_at_all(void)
{
	uint8_t byte = 0xee;

	write_bytes(AREA, 0, 6);
	refused_or_done(nbd_pread(nbd, &byte, 0, 512, 0));
	refused_or_done(nbd_pwrite(nbd, &byte, 0, 512, 0));
	refused_or_done(nbd_zero(nbd, 0, 512, 0));
	refused_or_done(nbd_trim(nbd, 0, 512, 0));
	check(byte == 0xee, "a read of nothing changed the buffer");
	nt_expect(nbd, model, AREA, 0);
}

static void anything(void)
{
	uint64_t state = 14, len, off;
	int step;

	for (step = 0; step < RANDOM_STEPS; step++) {
		len = 1 + nt_rand(&state) % (3 * NT_PAGE);
		off = nt_rand(&state) % (AREA - len);
		switch (nt_rand(&state) % 4) {
		case 0:
			zero_bytes(len, off);
			break;
		case 1:
			trim_bytes(len, off);
			break;
		default:
			write_bytes(len, off, nt_rand(&state));
		}
	}
}

static void past_the_end(void)
{
	uint64_t size = must(nbd_get_size(nbd));
	uint8_t two[2] = {1, 2};

	must_fail(nbd_pread(nbd, two, 2, size - 1, 0), EINVAL);
	must_fail(nbd_pwrite(nbd, two, 2, size - 1, 0), ENOSPC);
	must_fail(nbd_zero(nbd, 2, size - 1, 0), ENOSPC);
	must(nbd_pread(nbd, two, 1, size - 1, 0));
	check(two[0] == 0, "a refused write was done in part");
}

int main(void)
{
	nbd = nt_connect();
	the_case(false);
	the_case(true);
	nothing_at_all();
	anything();
	past_the_end();
	nt_disconnect(nbd);
	puts("sub-slot requests are exact");
	return 0;
}
