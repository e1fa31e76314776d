// SPDX-License-Identifier: BSD-3-Clause
/* statscost.c - what counting and timing cost a request
 *
 * Times the statistics of a request by themselves, then whole requests through
 * a store in this process, and says what share the former are of the latter.
 * Over NBD a request costs some 14 us more. Prints JSON; asserts nothing.
 */
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "stats.h"
#include "thinswap.h"

#define PAGE   4096u
#define ROUNDS 2000000u
#define PAGES  20000u

/* What one write of one compressed page does to the statistics. */
static void count_write(struct ts_stats *stats)
{
	uint64_t request_ns = ts_now_ns();
	uint64_t batch_ns = ts_now_ns();

	ts_stats_took(stats, TS_HIST_compress, batch_ns, 1);
	ts_stats_begin(stats);
	ts_stats_move(stats, TS_STAT_ram_slots, 1);
	ts_stats_move(stats, TS_STAT_stored_bytes, 1000);
	ts_stats_end(stats);
	ts_stats_add(stats, TS_STAT_written_pages, 1);
	ts_stats_took(stats, TS_HIST_write, request_ns, 1);
}

static double ns_each(uint64_t start_ns, unsigned n)
{
	return (double)(ts_now_ns() - start_ns) / n;
}

static struct ts_store *new_store(void)
{
	struct ts_params params;
	struct ts_store *store;
	char err[256];

	ts_params_init(&params);
	params.dictionary = false;
	if (ts_params_set(&params, "size", "1G", err, sizeof(err)) ||
	    ts_params_set(&params, "ram", "256M", err, sizeof(err)) ||
	    ts_params_finish(&params, err, sizeof(err)) ||
	    ts_store_new(&params, &store, err, sizeof(err))) {
		fprintf(stderr, "%s\n", err);
		exit(1);
	}
	ts_store_start(store);
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

int main(void)
{
	struct ts_store *store = new_store();
	static uint8_t page[64][PAGE], zero[PAGE];
	double counting, zero_write, write, read;
	struct ts_stats stats;
	uint64_t start_ns;

	if (ts_stats_init(&stats))
		return 1;
	start_ns = ts_now_ns();
	for (unsigned i = 0; i < ROUNDS; i++)
		count_write(&stats);
	counting = ns_each(start_ns, ROUNDS);
	for (unsigned i = 0; i < 64; i++)
		make_page(page[i], i);
	start_ns = ts_now_ns();
	for (unsigned i = 0; i < PAGES; i++)
		ts_store_write(store, zero, PAGE, (uint64_t)i * PAGE);
	zero_write = ns_each(start_ns, PAGES);
	start_ns = ts_now_ns();
	for (unsigned i = 0; i < PAGES; i++)
		ts_store_write(store, page[i % 64], PAGE, (uint64_t)i * PAGE);
	write = ns_each(start_ns, PAGES);
	start_ns = ts_now_ns();
	for (unsigned i = 0; i < PAGES; i++)
		ts_store_read(store, page[0], PAGE, (uint64_t)i * PAGE);
	read = ns_each(start_ns, PAGES);
	json_dumpf(json_pack("{s:f, s:f, s:f, s:f, s:f, s:f}",
			     "statistics_of_a_write_ns", counting,
			     "write_zero_ns", zero_write, "write_compressed_ns",
			     write, "read_compressed_ns", read,
			     "share_of_write", counting / write,
			     "share_of_write_over_nbd",
			     counting / (write + 14000)),
		   stdout, JSON_INDENT(2) | JSON_REAL_PRECISION(4));
	putchar('\n');
	ts_stats_fini(&stats);
	ts_store_free(store);
	return 0;
}
