/* SPDX-License-Identifier: BSD-3-Clause */
/* word.h - where a slot's page is: one 64-bit word
 *
 *        63                            22 21       10 9   6  5 4    3   2    0
 *       +---------------------------------------------------+----+-----+------+
 * none  |                         0                         | 0  |  0  |  0   |
 * zero  |                         0                         | 0  |  0  |  1   |
 * fill  |               pattern, see below                  | 0  |  0  |  2   |
 * staged| page of the pool, 26 bits | check of the page, 32 | 0  | hot |  3   |
 * ram   | object, in grains of 16 bytes   | length-1 | codec|mark| hot |  4   |
 * raw   | page of the pool, 26 bits | check of the page, 32 |mark| hot |  5   |
 * spill | segment, 25 bits | offset/8, 17 | length-1 | codec| 0  | hot |  6   |
 *       +---------------------------------------------------+----+-----+------+
 *
 * The number of a kind is part of the shared segment's layout.
 *
 * none  never written, or discarded: reads as zero and costs nothing
 * zero  written, all zero
 * fill  one 64-bit pattern all over. Bit 63 tells the form: 0, bits 62..6 are
 *       the pattern itself (57 bits: small integers, user pointers); 1, bits
 *       37..6 are 32 bits that repeat twice. Wider patterns become ram
 *       objects with the codec "repeat".
 * staged  a page in a page of the pool that is yet to be compressed (stage.h);
 *       but for the kind, its word is that of a raw page
 * ram   a compressed object of the pool; codec tells how to read it
 * raw   a page that does not compress, kept as it is in a page of its own,
 *       without a header: hence its check is here
 * spill a sealed record of the spill file
 * hot   set by a read, taken away by the clock (second chance)
 * mark  the write mark: 0, or the number of the pack in which a copy of the
 *       object is on its way to spill. A write or discard replaces the word
 *       and the mark with it, so a mark that is still there when its pack has
 *       arrived says that the page is the same. (One bit is not enough: the
 *       new page could be marked, by another pack, before the first arrives.)
 *
 * Only the helpers below touch the bits.
 */
#ifndef TS_WORD_H
#define TS_WORD_H

#include <assert.h>
#include <stdbool.h>
#include <stdint.h>

enum ts_kind {
	TS_NONE = 0,
	TS_ZERO = 1,
	TS_FILL = 2,
	TS_STAGED = 3,
	TS_RAM = 4,
	TS_RAW = 5,
	TS_SPILL = 6,
	TS_KINDS = 8,
};

enum ts_codec_id {
	TS_CODEC_RAW = 0,    /* the page itself; in spill records only */
	TS_CODEC_REPEAT = 1, /* 8 bytes that repeat */
	TS_CODEC_ZSTD = 2,   /* a zstd frame without header */
	TS_CODEC_IDS = 16,   /* 3..15: zstd with a dictionary generation */
};

typedef struct {
	uint64_t bits;
} ts_word;

/* An object: its offset in the pool's segment, in grains. */
typedef struct {
	uint64_t grains;
} ts_obj;

#define TS_GRAIN_SHIFT 4
#define TS_GRAIN_BYTES (1u << TS_GRAIN_SHIFT)

#define TS_WORD_HOT_BIT 3
#define TS_WORD_MARK_SHIFT 4
#define TS_WORD_MARK_MAX 3u
#define TS_WORD_PAYLOAD_SHIFT 6
#define TS_WORD_LEN_SHIFT 10
#define TS_WORD_OBJ_SHIFT 22
#define TS_WORD_RAW_PAGE_SHIFT 38
#define TS_WORD_SPILL_OFF_SHIFT 22
#define TS_WORD_SPILL_SEGMENT_SHIFT 39
#define TS_WORD_SPILL_ALIGN 8u /* of records */
#define TS_WORD_FILL_TWICE (1ull << 63)

#define TS_MAX_GRAINS (1ull << (64 - TS_WORD_OBJ_SHIFT))
#define TS_MAX_RAW_PAGES (1ull << (64 - TS_WORD_RAW_PAGE_SHIFT))
#define TS_MAX_SEGMENTS (1ull << (64 - TS_WORD_SPILL_SEGMENT_SHIFT))

_Static_assert(sizeof(ts_word) == 8, "a slot is one 64-bit word");
_Static_assert(TS_KINDS <= 1 << TS_WORD_HOT_BIT, "kinds fit below hot");
_Static_assert(TS_CODEC_IDS <= 1 << (TS_WORD_LEN_SHIFT - TS_WORD_PAYLOAD_SHIFT),
	       "codecs fit below the length");
_Static_assert(TS_WORD_OBJ_SHIFT - TS_WORD_LEN_SHIFT == 12,
	       "lengths of 1..4096 fit");

static inline enum ts_kind ts_word_kind(ts_word w)
{
	return (enum ts_kind)(w.bits & (TS_KINDS - 1));
}

static inline ts_word ts_word_none(void)
{
	return (ts_word){ 0 };
}

static inline ts_word ts_word_zero(void)
{
	return (ts_word){ TS_ZERO };
}

static inline bool ts_word_hot(ts_word w)
{
	return w.bits >> TS_WORD_HOT_BIT & 1;
}

static inline ts_word ts_word_set_hot(ts_word w)
{
	return (ts_word){ w.bits | 1u << TS_WORD_HOT_BIT };
}

static inline ts_word ts_word_set_cold(ts_word w)
{
	return (ts_word){ w.bits & ~(uint64_t)(1u << TS_WORD_HOT_BIT) };
}

/* The write mark: 0 none, or 1..TS_WORD_MARK_MAX. */
static inline unsigned ts_word_mark(ts_word w)
{
	return w.bits >> TS_WORD_MARK_SHIFT & TS_WORD_MARK_MAX;
}

static inline ts_word ts_word_set_mark(ts_word w, unsigned mark)
{
	assert(mark <= TS_WORD_MARK_MAX);
	w.bits &= ~((uint64_t)TS_WORD_MARK_MAX << TS_WORD_MARK_SHIFT);
	return (ts_word){ w.bits | mark << TS_WORD_MARK_SHIFT };
}

/* Whether a kind is stored outside its word. */
static inline bool ts_kind_stored(enum ts_kind kind)
{
	return kind >= TS_STAGED && kind <= TS_SPILL;
}

/* Whether a kind is a page of the pool as it is. */
static inline bool ts_kind_plain(enum ts_kind kind)
{
	return kind == TS_RAW || kind == TS_STAGED;
}

/* Returns whether the pattern fits in a word; if so it is in @ret_word. */
static inline bool ts_word_fill(uint64_t pattern, ts_word *ret_word)
{
	uint64_t low = pattern & UINT32_MAX;

	if (pattern >> 57 == 0)
		ret_word->bits = pattern << TS_WORD_PAYLOAD_SHIFT | TS_FILL;
	else if (pattern >> 32 == low)
		ret_word->bits = TS_WORD_FILL_TWICE |
				 low << TS_WORD_PAYLOAD_SHIFT | TS_FILL;
	else
		return false;
	return true;
}

static inline uint64_t ts_word_pattern(ts_word w)
{
	uint64_t low = w.bits >> TS_WORD_PAYLOAD_SHIFT & UINT32_MAX;

	assert(ts_word_kind(w) == TS_FILL);
	if (w.bits & TS_WORD_FILL_TWICE)
		return low << 32 | low;
	return w.bits >> TS_WORD_PAYLOAD_SHIFT;
}

static inline ts_word ts_word_ram(ts_obj obj, unsigned len_bytes,
				  enum ts_codec_id codec)
{
	assert(obj.grains < TS_MAX_GRAINS);
	assert(len_bytes >= 1 && len_bytes <= 4096);
	assert(codec > 0 && codec < TS_CODEC_IDS);
	return (ts_word){ obj.grains << TS_WORD_OBJ_SHIFT |
			  (uint64_t)(len_bytes - 1) << TS_WORD_LEN_SHIFT |
			  (uint64_t)codec << TS_WORD_PAYLOAD_SHIFT | TS_RAM };
}

static inline ts_word ts_word_raw(ts_obj obj, uint32_t check)
{
	uint64_t page = obj.grains >> (12 - TS_GRAIN_SHIFT);

	assert(page < TS_MAX_RAW_PAGES);
	assert(page << (12 - TS_GRAIN_SHIFT) == obj.grains);
	return (ts_word){ page << TS_WORD_RAW_PAGE_SHIFT |
			  (uint64_t)check << TS_WORD_PAYLOAD_SHIFT | TS_RAW };
}

static inline ts_word ts_word_staged(ts_obj frame, uint32_t check)
{
	return (ts_word){ ts_word_raw(frame, check).bits ^ TS_RAW ^ TS_STAGED };
}

/* A staged page is not going to be compressed any more. */
static inline ts_word ts_word_unstaged(ts_word w)
{
	assert(ts_word_kind(w) == TS_STAGED);
	return (ts_word){ w.bits ^ TS_STAGED ^ TS_RAW };
}

/* The pool object that a ram, raw or staged word names. */
static inline ts_obj ts_word_obj(ts_word w)
{
	if (ts_kind_plain(ts_word_kind(w)))
		return (ts_obj){ w.bits >> TS_WORD_RAW_PAGE_SHIFT
					       << (12 - TS_GRAIN_SHIFT) };
	assert(ts_word_kind(w) == TS_RAM);
	return (ts_obj){ w.bits >> TS_WORD_OBJ_SHIFT };
}

/* Stored bytes of a word outside which there is something: what compression
 * made of the page.
 */
static inline unsigned ts_word_len(ts_word w)
{
	if (ts_kind_plain(ts_word_kind(w)))
		return 4096;
	assert(ts_word_kind(w) == TS_RAM || ts_word_kind(w) == TS_SPILL);
	return (unsigned)(w.bits >> TS_WORD_LEN_SHIFT & 4095) + 1;
}

/* How the stored bytes of such a word become a page. */
static inline enum ts_codec_id ts_word_codec(ts_word w)
{
	if (ts_kind_plain(ts_word_kind(w)))
		return TS_CODEC_RAW;
	assert(ts_word_kind(w) == TS_RAM || ts_word_kind(w) == TS_SPILL);
	return (enum ts_codec_id)(w.bits >> TS_WORD_PAYLOAD_SHIFT & 15);
}

static inline uint32_t ts_word_check(ts_word w)
{
	assert(ts_kind_plain(ts_word_kind(w)));
	return (uint32_t)(w.bits >> TS_WORD_PAYLOAD_SHIFT);
}

static inline ts_word ts_word_spill(uint32_t segment, unsigned off_bytes,
				    unsigned len_bytes, enum ts_codec_id codec)
{
	uint64_t off = off_bytes / TS_WORD_SPILL_ALIGN;

	assert(segment < TS_MAX_SEGMENTS && off_bytes < 1u << 20);
	assert(off * TS_WORD_SPILL_ALIGN == off_bytes);
	assert(len_bytes >= 1 && len_bytes <= 4096 && codec < TS_CODEC_IDS);
	return (ts_word){ (uint64_t)segment << TS_WORD_SPILL_SEGMENT_SHIFT |
			  off << TS_WORD_SPILL_OFF_SHIFT |
			  (uint64_t)(len_bytes - 1) << TS_WORD_LEN_SHIFT |
			  (uint64_t)codec << TS_WORD_PAYLOAD_SHIFT | TS_SPILL };
}

static inline uint32_t ts_word_segment(ts_word w)
{
	assert(ts_word_kind(w) == TS_SPILL);
	return (uint32_t)(w.bits >> TS_WORD_SPILL_SEGMENT_SHIFT);
}

static inline unsigned ts_word_spill_off(ts_word w)
{
	assert(ts_word_kind(w) == TS_SPILL);
	return (unsigned)(w.bits >> TS_WORD_SPILL_OFF_SHIFT & ((1u << 17) - 1)) *
	       TS_WORD_SPILL_ALIGN;
}

/* The same page at another place of the pool; hot and mark stay. */
static inline ts_word ts_word_moved(ts_word w, ts_obj to)
{
	uint64_t flags = 1u << TS_WORD_HOT_BIT |
			 TS_WORD_MARK_MAX << TS_WORD_MARK_SHIFT;
	ts_word moved;

	if (ts_word_kind(w) == TS_RAW)
		moved = ts_word_raw(to, ts_word_check(w));
	else
		moved = ts_word_ram(to, ts_word_len(w), ts_word_codec(w));
	return (ts_word){ moved.bits | (w.bits & flags) };
}

#endif
