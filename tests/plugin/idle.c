/* SPDX-License-Identifier: BSD-3-Clause */
/* idle.c - an idle device costs less than 32 MiB, however large (case 17)
 *
 * Idle is measured thrice: just started, after reads, trims and block status
 * all over the device, and after data was written everywhere and dropped.
 */
#include "nbdtest.h"

#include <stdio.h>

#define LIMIT_KIB (32 * 1024u)
#define PLACES    128

static struct nbd_handle *nbd;
static uint64_t size;

static void expect_small(const char *when)
{
	uint64_t kib = nt_server_resident_kib();

	printf("%s: %llu KiB resident\n", when, (unsigned long long)kib);
	check(kib < LIMIT_KIB, "%s: %llu KiB resident", when,
	      (unsigned long long)kib);
}

static uint64_t place(unsigned i)
{
	return size / PLACES * i / NT_PAGE * NT_PAGE;
}

static int ignore_extents(void *opaque, const char *context, uint64_t off,
			  uint32_t *entries, size_t n, int *error)
{
	return 0;
}

static void look_everywhere(void)
{
	nbd_extent_callback ignore = {.callback = ignore_extents};
	uint8_t page[NT_PAGE];
	unsigned i;

	for (i = 0; i < PLACES; i++) {
		must(nbd_pread(nbd, page, NT_PAGE, place(i), 0));
		check(nt_is_zero(page, NT_PAGE), "an empty device holds data");
		must(nbd_trim(nbd, NT_GIB, place(i), 0));
		must(nbd_block_status(nbd, NT_GIB, place(i), ignore, 0));
	}
}

static void write_everywhere(void)
{
	uint8_t page[NT_PAGE];
	unsigned i;

	for (i = 0; i < PLACES; i++) {
		nt_page(page, i % NT_KINDS, i);
		must(nbd_pwrite(nbd, page, NT_PAGE, place(i), 0));
	}
	for (i = 0; i < PLACES; i++) {
		nt_page(page, i % NT_KINDS, i);
		nt_expect(nbd, page, NT_PAGE, place(i));
		must(nbd_trim(nbd, NT_PAGE, place(i), 0));
	}
}

int main(void)
{
	if (nt_server_is_sanitized())
		nt_skip("memory figures need a plugin without sanitizer");
	nbd = nt_connect();
	size = must(nbd_get_size(nbd));
	expect_small("started");
	look_everywhere();
	expect_small("looked everywhere");
	write_everywhere();
	expect_small("written everywhere and dropped");
	nt_disconnect(nbd);
	return 0;
}
