/* SPDX-License-Identifier: BSD-3-Clause */
/* sparse.c - pages scattered over a huge device take memory while they are
 * there, and none once they are dropped
 *
 * Run with size=8P and ram=64M. Other tests find memory again after dropping
 * neighbours; here each page has a map of its own.
 */
#include "nbdtest.h"

#include <errno.h>
#include <stdio.h>

#define MOST 20000u

static struct nbd_handle *nbd;

/* Write pages @step apart until one is refused; how many were taken. */
static uint64_t fill(enum nt_kind kind, uint64_t step)
{
	uint8_t page[NT_PAGE];
	uint64_t i;

	for (i = 0; i < MOST; i++) {
		nt_page(page, kind, i);
		if (nbd_pwrite(nbd, page, NT_PAGE, i * step, 0) == -1)
			break;
	}
	check(i == MOST || nbd_get_errno() == ENOSPC, "%s", nbd_get_error());
	return i;
}

static void drop(uint64_t n, uint64_t step)
{
	uint64_t i;

	for (i = 0; i < n; i++)
		must(nbd_trim(nbd, NT_PAGE, i * step, 0));
}

int main(void)
{
	uint64_t dense, scattered, again, step;

	if (!nt_server_is_thinswap())
		nt_skip("needs a plugin with a memory limit");
	nbd = nt_connect();
	step = must(nbd_get_size(nbd)) / MOST / NT_PAGE * NT_PAGE;
	dense = fill(NT_RAW, NT_PAGE);
	drop(dense, NT_PAGE);
	scattered = fill(NT_TEXT, step);
	drop(scattered, step);
	again = fill(NT_RAW, NT_PAGE);
	nt_disconnect(nbd);
	printf("%llu pages fit, then %llu scattered ones, then %llu again\n",
	       (unsigned long long)dense, (unsigned long long)scattered,
	       (unsigned long long)again);
	check(again >= dense / 10 * 9,
	      "memory of dropped pages does not come back");
	return 0;
}
