/* SPDX-License-Identifier: BSD-3-Clause */
/* codec.h - pages to objects and back: zstd, repeats and checks
 *
 * Encoders and decoders own all the memory they need, made at start: coding
 * never allocates. One thread uses one at a time; ts_codec lends them out. A
 * thread that finds none waits for a computation, never for I/O.
 *
 * Frames are zstd without magic, content size or checksum; the check of an
 * object is ours, so that it covers where the object belongs as well.
 */
#ifndef TS_CODEC_H
#define TS_CODEC_H

#include "dict.h"
#include "util/lend.h"
#include "word.h"

#include <stddef.h>
#include <stdint.h>

#define TS_CODEC_LEVEL_MIN (-7)
#define TS_CODEC_LEVEL_MAX 19
#define TS_CODEC_LEVEL_DEFAULT 1

/* Pages that are coded in one go. zstd gains nothing from more; it bounds the
 * scratch memory of a coder.
 */
#define TS_BATCH_PAGES 64u

struct ts_coder {
	struct ts_lent lent;
	void *zstd_memory;
	void *zstd; /* ZSTD_CCtx or ZSTD_DCtx, inside the memory */
	uint8_t *scratch;
	struct ts_dicts *dicts;
	uint32_t added;         /* an encoder's: dictionary it has, see dict.h */
	enum ts_codec_id codec; /* an encoder's: what it makes */
	size_t zstd_bytes;
};

struct ts_codec {
	struct ts_lend encoders, decoders; /* of struct ts_coder */
	unsigned n_encoders, n_decoders;
	struct ts_dicts dicts;
	bool made;
};

/* Make the coders. @level as for zstd, within the limits above. Scratch of an
 * encoder and of a decoder is TS_BATCH_PAGES pages. Returns 0 or -ENOMEM.
 */
int ts_codec_init(struct ts_codec *codec, int level, unsigned n_encoders,
		  unsigned n_decoders);
void ts_codec_fini(struct ts_codec *codec);

/* Borrow an encoder that has the current dictionary. */
struct ts_coder *ts_codec_encoder(struct ts_codec *codec);

/* Give up the generations that no page uses any more. Waits until every coder
 * has been returned, so call it from a thread that has none, rarely.
 */
void ts_codec_retire(struct ts_codec *codec);

/* Change the level. Waits for every encoder; allocates, so it is not for the
 * request path. Returns 0, or -ENOMEM: nothing has changed.
 */
int ts_codec_set_level(struct ts_codec *codec, int level);

/* Touch the memory of all coders, none of which is in use. */
void ts_codec_touch(struct ts_codec *codec);

/* Compress a page; the codec is @encoder->codec. Returns the length,
 * 1..@max_bytes, or 0 when it would be longer than that; or by up to some
 * twelve bytes shorter, which zstd wants to spare.
 */
unsigned ts_codec_compress(struct ts_coder *encoder, const void *page,
			   void *ret_data, unsigned max_bytes);

/* What zstd may look at beyond the end of a frame; see codec.c. */
#define TS_CODEC_SLACK_BYTES 3u

/* Restore a page from an object's bytes, any bytes at all. Behind them,
 * TS_CODEC_SLACK_BYTES more must be readable. Returns 0, or -EBADMSG when they
 * are not a page of that codec; @ret_page is then undefined.
 */
int ts_codec_restore(struct ts_coder *decoder, enum ts_codec_id codec,
		     const void *data, unsigned len_bytes, void *ret_page);

/* Check of stored bytes: the lower half of XXH3 seeded with the slot that
 * they belong to, so that an object of another slot does not pass either.
 */
uint32_t ts_codec_check(const void *data, unsigned len_bytes, uint64_t slot);

/* Whether a page is one 64-bit pattern all over. */
bool ts_page_repeats(const void *page, uint64_t *ret_pattern);

/* Make a page of one pattern. */
void ts_page_fill(void *ret_page, uint64_t pattern);

#endif
