/* SPDX-License-Identifier: BSD-3-Clause */
/* flags.c - what the export advertises, and that it is true (case 29)
 *
 * Another nbdkit plugin advertises no block sizes; that part is for thinswap.
 */
#include "nbdtest.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define LARGEST (32 * NT_MIB)

static struct nbd_handle *nbd;

static void advertised(void)
{
	check(must(nbd_can_trim(nbd)) == 1, "no trim");
	check(must(nbd_is_rotational(nbd)) == 0, "rotational");
	check(must(nbd_can_multi_conn(nbd)) == 1, "no multi-conn");
	check(must(nbd_can_zero(nbd)) == 1, "no zero");
	check(must(nbd_can_fast_zero(nbd)) == 1, "no fast zero");
	check(must(nbd_can_flush(nbd)) == 1, "no flush");
	check(must(nbd_can_fua(nbd)) == 1, "no FUA");
	check(must(nbd_is_read_only(nbd)) == 0, "read only");
	check(must(nbd_can_meta_context(nbd, LIBNBD_CONTEXT_BASE_ALLOCATION)) ==
		      1,
	      "no extents");
	if (!nt_server_is_thinswap())
		return;
	check(must(nbd_get_block_size(nbd, LIBNBD_SIZE_MINIMUM)) == 1,
	      "minimum block size is not 1");
	check(must(nbd_get_block_size(nbd, LIBNBD_SIZE_PREFERRED)) == NT_PAGE,
	      "preferred block size is not 4096");
	check(must(nbd_get_block_size(nbd, LIBNBD_SIZE_MAXIMUM)) == LARGEST,
	      "maximum block size is not 32 MiB");
}

static void expect_kind(enum nt_kind kind, uint64_t seed)
{
	uint8_t page[NT_PAGE];

	nt_page(page, kind, seed);
	nt_expect(nbd, page, NT_PAGE, 0);
}

static void write_kind(enum nt_kind kind, uint64_t seed, uint32_t flags)
{
	uint8_t page[NT_PAGE];

	nt_page(page, kind, seed);
	must(nbd_pwrite(nbd, page, NT_PAGE, 0, flags));
	expect_kind(kind, seed);
}

static void commands(void)
{
	write_kind(NT_TEXT, 1, LIBNBD_CMD_FLAG_FUA);
	must(nbd_flush(nbd, 0));
	expect_kind(NT_TEXT, 1);

	must(nbd_zero(nbd, NT_PAGE, 0, LIBNBD_CMD_FLAG_FAST_ZERO));
	expect_kind(NT_ZERO, 0);
	write_kind(NT_RAW, 2, 0);
	must(nbd_zero(nbd, NT_PAGE, 0,
		      LIBNBD_CMD_FLAG_NO_HOLE | LIBNBD_CMD_FLAG_FUA));
	expect_kind(NT_ZERO, 0);
	write_kind(NT_FILL, 3, 0);
	must(nbd_trim(nbd, NT_PAGE, 0, LIBNBD_CMD_FLAG_FUA));
	expect_kind(NT_ZERO, 0);
	write_kind(NT_EDGE, 4, 0);
}

/* The largest request is served; one still larger is served or refused, and
 * then leaves everything as it was.
 */
static void largest_requests(void)
{
	static const uint64_t lens[] = {LARGEST, LARGEST + NT_PAGE,
					2 * LARGEST};
	uint8_t *old = calloc(1, 2 * LARGEST), *new = calloc(1, 2 * LARGEST);
	uint64_t pos;
	unsigned i;

	check(old && new, "out of memory");
	must(nbd_pread(nbd, old, LARGEST, 0, 0));
	must(nbd_pread(nbd, old + LARGEST, LARGEST, LARGEST, 0));
	for (i = 0; i < sizeof(lens) / sizeof(lens[0]); i++) {
		for (pos = 0; pos < lens[i]; pos += NT_PAGE)
			nt_page(new + pos, pos / NT_PAGE % NT_KINDS, pos + i);
		if (nbd_pwrite(nbd, new, lens[i], 0, 0) == 0)
			memcpy(old, new, lens[i]);
		else
			check(i > 0 && nbd_get_errno() == EINVAL, "%s",
			      nbd_get_error());
		nt_expect(nbd, old, LARGEST, 0);
		nt_expect(nbd, old + LARGEST, LARGEST, LARGEST);
	}
	free(old);
	free(new);
}

int main(void)
{
	nbd = nt_connect();
	advertised();
	commands();
	largest_requests();
	nt_disconnect(nbd);
	puts("flags and block sizes are true");
	return 0;
}
