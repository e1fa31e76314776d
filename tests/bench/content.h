/* SPDX-License-Identifier: BSD-3-Clause */
/* content.h - the pages a benchmark writes, and which one each slot holds
 *
 * The page file is kept in memory whole, so that no run measures the disk.
 * A device larger than the file gets the same pages again. With `unique` set,
 * every page begins with its slot's number, so that no two are equal, and
 * compresses as before.
 *
 * Requests write consecutive pages of the file straight out of this memory:
 * ts_content_pages() gives a pointer to @n of them from any index on, wrapping
 * at the end of the file, for n up to TS_CONTENT_MAX_PAGES. Unique ones are
 * made in the request's own memory by ts_content_make().
 *
 * Threads  slots are independent of each other; two threads must not handle
 *          the same slot at a time.
 */
#ifndef TS_BENCH_CONTENT_H
#define TS_BENCH_CONTENT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define TS_PAGE_BYTES        4096u
#define TS_CONTENT_MAX_PAGES 8192u /* 32 MiB, the most NBD allows */

struct ts_content {
	uint8_t *pages;
	uint64_t n_pages;
	uint32_t *slot; /* page index held, or TS_SLOT_EMPTY */
	uint64_t n_slots;
	bool unique;
};

#define TS_SLOT_EMPTY UINT32_MAX /* reads as zero */

/* Read the page file and make a device of @slots empty slots; 0 means as many
 * as the file has pages. Exits with a message when it cannot.
 */
void ts_content_init(struct ts_content *content, const char *file,
		     uint64_t slots);

const uint8_t *ts_content_pages(const struct ts_content *content,
				uint64_t index);

/* Make @n pages from @index on as the slots from @slot on are to hold them. */
void ts_content_make(const struct ts_content *content, uint64_t slot,
		     uint64_t n, uint64_t index, uint8_t *ret_data);

/* Note that @n slots from @slot on hold the pages from @index on, or nothing.
 */
void ts_content_wrote(struct ts_content *content, uint64_t slot, uint64_t n,
		      uint64_t index);
void ts_content_dropped(struct ts_content *content, uint64_t slot, uint64_t n);

/* How many of the @n slots differ from what @data says. */
uint64_t ts_content_wrong(const struct ts_content *content, uint64_t slot,
			  uint64_t n, const uint8_t *data);

#endif
