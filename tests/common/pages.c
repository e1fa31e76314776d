// SPDX-License-Identifier: BSD-3-Clause
/* pages.c - page contents of every kind that the engine tells apart
 *
 *	stamp: | 1 | generation 11 | writer 3 | slot 14 | kind 3 |
 *
 * The stamp is the first half of the first word of a stamped page, whatever
 * its kind, and all the rest of the page follows from it.
 */
#include "tests/common/pages.h"
#include "tests/common/rng.h"

#include <stdbool.h>
#include <string.h>

#define WORDS (PAGE_BYTES / 8)

static void fill(uint8_t *page, uint64_t pattern)
{
	for (unsigned i = 0; i < WORDS; i++)
		memcpy(page + 8 * i, &pattern, 8);
}

static void random_bytes(uint8_t *page, unsigned n, struct rng *rng)
{
	for (unsigned i = 0; i < n; i += 8) {
		uint64_t r = rng_next(rng);

		memcpy(page + i, &r, n - i < 8 ? n - i : 8);
	}
}

/* Pointers and small numbers, as heaps are made of. */
static void text(uint8_t *page, struct rng *rng)
{
	uint64_t base = 0x7f0000000000u | rng_below(rng, 1u << 20) << 12;

	for (unsigned i = 0; i < WORDS; i++) {
		uint64_t w = rng_below(rng, 4)
				     ? rng_below(rng, 64)
				     : base + rng_below(rng, 1u << 12);

		memcpy(page + 8 * i, &w, 8);
	}
}

static void make(uint8_t *page, enum page_kind kind, uint64_t seed)
{
	struct rng rng = {seed};
	uint64_t r = rng_next(&rng);
	unsigned n;

	switch (kind) {
	case PAGE_ZERO:
		memset(page, 0, PAGE_BYTES);
		break;
	case PAGE_NARROW:
		fill(page, r >> 7 | 1);
		break;
	case PAGE_TWICE:
		r = (r | 1u << 31) & UINT32_MAX;
		fill(page, r << 32 | r);
		break;
	case PAGE_WIDE:
		fill(page, r | 1ull << 63);
		break;
	case PAGE_TEXT:
		text(page, &rng);
		break;
	case PAGE_NEAR:
		n = (unsigned)rng_range(&rng, 3680, PAGE_BYTES);
		random_bytes(page, n, &rng);
		memset(page + n, 0, PAGE_BYTES - n);
		break;
	default:
		random_bytes(page, PAGE_BYTES, &rng);
	}
}

void page_make(void *ret_page, enum page_kind kind, uint64_t seed)
{
	make(ret_page, kind, seed * PAGE_KINDS + kind);
}

static uint32_t stamp_of(const struct page_stamp *s)
{
	return 1u << 31 | s->generation % PAGE_GENERATIONS << 20 |
	       s->writer % PAGE_STAMP_WRITERS << 17 |
	       s->slot % PAGE_STAMP_SLOTS << 3 | s->kind;
}

void page_make_stamped(void *ret_page, const struct page_stamp *stamp)
{
	uint64_t bits = stamp_of(stamp);

	switch (stamp->kind) {
	case PAGE_NARROW:
		fill(ret_page, bits);
		break;
	case PAGE_TWICE:
		fill(ret_page, bits << 32 | bits);
		break;
	case PAGE_WIDE:
		fill(ret_page, ~bits << 32 | bits);
		break;
	default:
		make(ret_page, stamp->kind, bits);
		memcpy(ret_page, &bits, 4);
	}
}

static bool is_zero(const uint8_t *page)
{
	return !page[0] && !memcmp(page, page + 1, PAGE_BYTES - 1);
}

enum page_verdict page_read_stamp(const void *page,
				  struct page_stamp *ret_stamp)
{
	uint8_t expected[PAGE_BYTES];
	struct page_stamp s;
	uint32_t bits;

	if (is_zero(page))
		return PAGE_IS_ZERO;
	memcpy(&bits, page, 4);
	s.kind = (enum page_kind)(bits & 7);
	if (s.kind == PAGE_ZERO || s.kind >= PAGE_KINDS || !(bits >> 31))
		return PAGE_IS_WRONG;
	s.slot = bits >> 3 & (PAGE_STAMP_SLOTS - 1);
	s.writer = bits >> 17 & (PAGE_STAMP_WRITERS - 1);
	s.generation = bits >> 20 & (PAGE_GENERATIONS - 1);
	page_make_stamped(expected, &s);
	if (memcmp(page, expected, PAGE_BYTES))
		return PAGE_IS_WRONG;
	*ret_stamp = s;
	return PAGE_IS_STAMPED;
}
