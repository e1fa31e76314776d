/* SPDX-License-Identifier: BSD-3-Clause */
/* pages.h - page contents of every kind that the engine tells apart */
#ifndef TS_TESTS_PAGES_H
#define TS_TESTS_PAGES_H

#include <stdint.h>

#define PAGE_BYTES 4096u

enum page_kind {
	PAGE_ZERO,
	PAGE_NARROW, /* one pattern that fits in a word */
	PAGE_TWICE,  /* 32 bits that repeat */
	PAGE_WIDE,   /* one pattern that does not fit in a word */
	PAGE_TEXT,   /* compresses well */
	PAGE_NEAR,   /* compresses to some 3700..4110 bytes, or not at all */
	PAGE_RANDOM, /* does not compress */
	PAGE_KINDS,
};

/* Make the page that @seed stands for; the same each time. Two seeds give the
 * same page only by chance, except for PAGE_ZERO.
 */
void page_make(void *ret_page, enum page_kind kind, uint64_t seed);

/* A page that says what it is: whoever reads it can tell the slot it was
 * written to, who wrote it, and whether it is whole. @generation counts
 * modulo PAGE_GENERATIONS.
 */
#define PAGE_STAMP_SLOTS   16384u
#define PAGE_STAMP_WRITERS 8u
#define PAGE_GENERATIONS   2048u

struct page_stamp {
	unsigned slot, writer, generation;
	enum page_kind kind; /* not PAGE_ZERO */
};

void page_make_stamped(void *ret_page, const struct page_stamp *stamp);

enum page_verdict {
	PAGE_IS_ZERO,
	PAGE_IS_STAMPED, /* @ret_stamp is set */
	PAGE_IS_WRONG,
};

enum page_verdict page_read_stamp(const void *page,
				  struct page_stamp *ret_stamp);

#endif
