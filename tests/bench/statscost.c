// SPDX-License-Identifier: BSD-3-Clause
/* statscost.c - one kind of request, again and again
 *
 * Usage: ts-statscost zero|write|read PAGES [REQUEST_PAGES]
 *
 * Prints nanoseconds a page. Built twice, with an engine that counts and with
 * one that does not; statscost.py compares the two. Only requests() is of
 * interest to callgrind.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "thinswap.h"
#include "util/lock.h"

#define PAGE  4096u
#define KINDS 64u /* different pages */

typedef int request_fn(struct ts_store *store, uint8_t *data, unsigned n,
		       uint64_t slot);

static struct ts_store *new_store(void)
{
	struct ts_params params;
	struct ts_store *store;
	char err[256];

	ts_params_init(&params);
	params.dictionary = false;
	if (ts_params_set(&params, "size", "1G", err, sizeof(err)) ||
	    ts_params_set(&params, "ram", "256M", err, sizeof(err)) ||
	    ts_params_set(&params, "write-behind", "0", err, sizeof(err)) ||
	    ts_params_finish(&params, err, sizeof(err)) ||
	    ts_store_new(&params, &store, err, sizeof(err))) {
		fprintf(stderr, "%s\n", err);
		exit(1);
	}
	if (ts_store_start(store))
		exit(1);
	ts_params_fini(&params);
	return store;
}

/* Text of a few letters: compresses about as real pages do. */
static void make_page(uint8_t *page, unsigned seed)
{
	uint32_t x = seed * 2654435761u + 1;

	for (unsigned i = 0; i < PAGE; i++) {
		x = x * 1664525u + 1013904223u;
		page[i] = i % 3 ? (uint8_t)('a' + (x >> 24) % 4)
				: (uint8_t)(i >> 4);
	}
}

static int write_pages(struct ts_store *store, uint8_t *data, unsigned n,
		       uint64_t slot)
{
	return ts_store_write(store, data, n * PAGE, slot * PAGE);
}

static int read_pages(struct ts_store *store, uint8_t *data, unsigned n,
		      uint64_t slot)
{
	return ts_store_read(store, data, n * PAGE, slot * PAGE);
}

__attribute__((noipa)) static void requests(struct ts_store *store,
					    request_fn *request, uint8_t *data,
					    unsigned pages, unsigned n)
{
	for (unsigned i = 0; i < pages; i += n)
		if (request(store, data + i % KINDS * PAGE, n, i))
			exit(1);
}

int main(int argc, char **argv)
{
	static uint8_t data[2 * KINDS * PAGE];
	unsigned pages, n = argc > 3 ? (unsigned)atoi(argv[3]) : 1;
	bool zero = argc > 1 && !strcmp(argv[1], "zero");
	bool read = argc > 1 && !strcmp(argv[1], "read");
	struct ts_store *store;
	uint64_t start_ns;

	pages = argc > 2 ? (unsigned)atoi(argv[2]) : 0;
	if (!pages || pages > 1u << 17 || !n || n > KINDS) {
		fprintf(stderr, "usage: %s zero|write|read PAGES [N]\n",
			argv[0]);
		return 2;
	}
	store = new_store();
	for (unsigned i = 0; i < 2 * KINDS && !zero; i++)
		make_page(data + i * PAGE, i % KINDS);
	/* What is there already: the first touch is not the statistics'. */
	for (unsigned i = 0; i < pages; i += n)
		write_pages(store, data + i % KINDS * PAGE, n, i);
	start_ns = ts_now_ns();
	requests(store, read ? read_pages : write_pages, data, pages, n);
	printf("%.1f\n", (double)(ts_now_ns() - start_ns) / pages);
	ts_store_free(store);
	return 0;
}
