/* SPDX-License-Identifier: BSD-3-Clause */
/* codec.c - pages to objects and back: zstd, repeats and checks
 *
 * zstd runs in static contexts. Its context for 4 KiB inputs is small enough
 * to be touched at start, which memset does here.
 *
 * Up to its version 1.5.4, zstd looks for the magic number of a skippable
 * frame wherever a frame could begin, even in this format and even when fewer
 * than four bytes are left: with damaged input it reads up to three bytes too
 * many. Frames of ours begin with a zero byte, which no such number does.
 */
#define ZSTD_STATIC_LINKING_ONLY
#include "codec.h"
#include "util/atomic.h"
#include "shm.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>
#include <zstd.h>

#define PAGE_BYTES 4096
#define DICT_ROOM_BYTES (64u << 10)

/* A request may put a page at any address. */
typedef uint64_t __attribute__((aligned(1), may_alias)) any_u64;

static ZSTD_CCtx_params *new_params(int level)
{
	ZSTD_CCtx_params *params = ZSTD_createCCtxParams();
	ZSTD_compressionParameters c = ZSTD_getCParams(level, PAGE_BYTES, 0);

	if (!params)
		return NULL;
	ZSTD_CCtxParams_init_advanced(
		params, (ZSTD_parameters){ .cParams = c, .fParams = { 0 } });
	ZSTD_CCtxParams_setParameter(params, ZSTD_c_format,
				     ZSTD_f_zstd1_magicless);
	ZSTD_CCtxParams_setParameter(params, ZSTD_c_contentSizeFlag, 0);
	/* The word knows the dictionary; its number would be 4 bytes a page,
	 * and the first byte not be zero.
	 */
	ZSTD_CCtxParams_setParameter(params, ZSTD_c_dictIDFlag, 0);
	return params;
}

/* Memory that is touched: the request path must not fault. */
static void *touched_memory(size_t bytes)
{
	void *memory = aligned_alloc(64, (bytes + 63) / 64 * 64);

	if (memory)
		memset(memory, 1, bytes);
	return memory;
}

static struct ts_coder *new_coder(struct ts_dicts *dicts,
				  const ZSTD_CCtx_params *params)
{
	struct ts_coder *coder = calloc(1, sizeof(*coder));
	/* An attached dictionary brings parameters of its own. */
	size_t bytes = params ? ZSTD_estimateCCtxSize_usingCCtxParams(params) +
					DICT_ROOM_BYTES :
				ZSTD_estimateDCtxSize();

	if (!coder)
		return NULL;
	coder->dicts = dicts;
	coder->codec = TS_CODEC_ZSTD;
	coder->zstd_bytes = bytes;
	coder->scratch = touched_memory(TS_BATCH_PAGES * PAGE_BYTES);
	coder->zstd_memory = touched_memory(bytes);
	if (coder->zstd_memory && params) {
		coder->zstd = ZSTD_initStaticCCtx(coder->zstd_memory, bytes);
		ZSTD_CCtx_setParametersUsingCCtxParams(coder->zstd, params);
	} else if (coder->zstd_memory) {
		coder->zstd = ZSTD_initStaticDCtx(coder->zstd_memory, bytes);
		ZSTD_DCtx_setParameter(coder->zstd, ZSTD_d_format,
				       ZSTD_f_zstd1_magicless);
	}
	return coder;
}

static int add_coders(struct ts_codec *codec, struct ts_lend *lend, unsigned n,
		      const ZSTD_CCtx_params *params)
{
	for (unsigned i = 0; i < n; i++) {
		struct ts_coder *coder = new_coder(&codec->dicts, params);

		if (!coder)
			return -ENOMEM;
		ts_return(lend, coder);
		if (!coder->scratch || !coder->zstd)
			return -ENOMEM;
	}
	return 0;
}

static void fini_coders(struct ts_lend *lend)
{
	while (lend->free) {
		struct ts_coder *coder = ts_borrow(lend);

		free(coder->zstd_memory);
		free(coder->scratch);
		free(coder);
	}
	ts_lend_fini(lend);
}

int ts_codec_init(struct ts_codec *codec, int level, unsigned n_encoders,
		  unsigned n_decoders)
{
	ZSTD_CCtx_params *params = new_params(level);
	int err;

	if (!params)
		return -ENOMEM;
	ts_lend_init(&codec->encoders);
	ts_lend_init(&codec->decoders);
	codec->made = true;
	codec->n_encoders = n_encoders;
	codec->n_decoders = n_decoders;
	err = ts_dicts_init(&codec->dicts, level);
	if (!err)
		err = add_coders(codec, &codec->encoders, n_encoders, params);
	if (!err)
		err = add_coders(codec, &codec->decoders, n_decoders, NULL);
	ZSTD_freeCCtxParams(params);
	if (err)
		ts_codec_fini(codec);
	return err;
}

void ts_codec_fini(struct ts_codec *codec)
{
	if (!codec->made)
		return;
	fini_coders(&codec->encoders);
	fini_coders(&codec->decoders);
	ts_dicts_fini(&codec->dicts);
	codec->made = false;
}

/* A page that did not fit leaves zstd in the middle of its frame, where it takes
 * no dictionary: begin anew. What the coder says must be what it does.
 */
static void take_dictionary(struct ts_coder *coder, uint32_t added)
{
	enum ts_codec_id codec = ts_load_relaxed(&coder->dicts->current);
	size_t err;

	ZSTD_CCtx_reset(coder->zstd, ZSTD_reset_session_only);
	err = ZSTD_CCtx_refCDict(coder->zstd,
				 ts_dict_of(coder->dicts, codec)->cdict);
	/* Only the middle of a frame would be an error. */
	assert(!ZSTD_isError(err));
	(void)err;
	coder->codec = codec;
	coder->added = added;
}

struct ts_coder *ts_codec_encoder(struct ts_codec *codec)
{
	struct ts_coder *coder = ts_borrow(&codec->encoders);
	uint32_t added = ts_load_acquire(&codec->dicts.added);

	if (coder->added != added)
		take_dictionary(coder, added);
	return coder;
}

/* Take every coder off the stack at once, and put them back. */
static void wait_for_all(struct ts_lend *lend, unsigned n)
{
	struct ts_coder *first = NULL;

	for (unsigned i = 0; i < n; i++) {
		struct ts_coder *coder = ts_borrow(lend);

		coder->lent.next = first ? &first->lent : NULL;
		first = coder;
	}
	while (first) {
		struct ts_lent *next = first->lent.next;

		ts_return(lend, first);
		first = (struct ts_coder *)next;
	}
}

#define ENCODERS_MAX 64u

static void exchange(struct ts_coder *coder, void *memory, size_t bytes,
		     const ZSTD_CCtx_params *params)
{
	free(coder->zstd_memory);
	coder->zstd_memory = memory;
	coder->zstd_bytes = bytes;
	coder->zstd = ZSTD_initStaticCCtx(memory, bytes);
	ZSTD_CCtx_setParametersUsingCCtxParams(coder->zstd, params);
	/* Without a dictionary, until the next borrower finds there is one. */
	coder->added = 0;
	coder->codec = TS_CODEC_ZSTD;
}

/* All at once: the one returned last would be lent first again. */
static void exchange_all(struct ts_codec *codec, void **memory, size_t bytes,
			 const ZSTD_CCtx_params *params,
			 struct ts_dict_rooms *rooms)
{
	struct ts_coder *coder[ENCODERS_MAX];

	for (unsigned i = 0; i < codec->n_encoders; i++)
		coder[i] = ts_borrow(&codec->encoders);
	for (unsigned i = 0; i < codec->n_encoders; i++)
		exchange(coder[i], memory[i], bytes, params);
	ts_dicts_set_level(&codec->dicts, rooms);
	for (unsigned i = 0; i < codec->n_encoders; i++)
		ts_return(&codec->encoders, coder[i]);
}

int ts_codec_set_level(struct ts_codec *codec, int level)
{
	ZSTD_CCtx_params *params = new_params(level);
	size_t bytes = params ? ZSTD_estimateCCtxSize_usingCCtxParams(params) +
					DICT_ROOM_BYTES :
				0;
	void *memory[ENCODERS_MAX] = { NULL };
	struct ts_dict_rooms rooms;
	bool all = params != NULL;

	assert(codec->n_encoders <= ENCODERS_MAX);
	for (unsigned i = 0; i < codec->n_encoders && all; i++)
		all = (memory[i] = touched_memory(bytes)) != NULL;
	if (all && !ts_dict_rooms_new(&rooms, level)) {
		exchange_all(codec, memory, bytes, params, &rooms);
	} else {
		all = false;
		for (unsigned i = 0; i < codec->n_encoders; i++)
			free(memory[i]);
	}
	ZSTD_freeCCtxParams(params);
	return all ? 0 : -ENOMEM;
}

void ts_codec_retire(struct ts_codec *codec)
{
	struct ts_dict *dict = ts_dicts_unused(&codec->dicts);

	if (!dict)
		return;
	wait_for_all(&codec->encoders, codec->n_encoders);
	wait_for_all(&codec->decoders, codec->n_decoders);
	/* An encoder may have used it until just now. */
	if (ts_dicts_unused(&codec->dicts) == dict)
		ts_dict_give_up(&codec->dicts, dict);
}

static void touch_coders(struct ts_lend *lend)
{
	for (struct ts_lent *l = lend->free; l; l = l->next) {
		struct ts_coder *c = (struct ts_coder *)l;

		ts_shm_touch(c->scratch, TS_BATCH_PAGES * PAGE_BYTES);
		ts_shm_touch(c->zstd_memory, c->zstd_bytes);
	}
}

void ts_codec_touch(struct ts_codec *codec)
{
	touch_coders(&codec->encoders);
	touch_coders(&codec->decoders);
	ts_dicts_touch(&codec->dicts);
}

unsigned ts_codec_compress(struct ts_coder *encoder, const void *page,
			   void *ret_data, unsigned max_bytes)
{
	size_t n = ZSTD_compress2(encoder->zstd, ret_data, max_bytes, page,
				  PAGE_BYTES);

	/* The only error here is that it does not fit. */
	return ZSTD_isError(n) ? 0 : (unsigned)n;
}

int ts_codec_restore(struct ts_coder *decoder, enum ts_codec_id codec,
		     const void *data, unsigned len_bytes, void *ret_page)
{
	const struct ts_dict *dict = ts_dict_of(decoder->dicts, codec);
	uint64_t pattern;
	size_t n;

	if (dict) {
		if (!dict->ddict)
			return -EBADMSG;
		n = ZSTD_decompress_usingDDict(decoder->zstd, ret_page,
					       PAGE_BYTES, data, len_bytes,
					       dict->ddict);
		return n == PAGE_BYTES ? 0 : -EBADMSG;
	}
	switch (codec) {
	case TS_CODEC_RAW:
		if (len_bytes != PAGE_BYTES)
			return -EBADMSG;
		memcpy(ret_page, data, PAGE_BYTES);
		return 0;
	case TS_CODEC_REPEAT:
		if (len_bytes != sizeof(pattern))
			return -EBADMSG;
		memcpy(&pattern, data, sizeof(pattern));
		ts_page_fill(ret_page, pattern);
		return 0;
	case TS_CODEC_ZSTD:
		n = ZSTD_decompressDCtx(decoder->zstd, ret_page, PAGE_BYTES,
					data, len_bytes);
		return n == PAGE_BYTES ? 0 : -EBADMSG;
	default:
		return -EBADMSG;
	}
}

uint32_t ts_codec_check(const void *data, unsigned len_bytes, uint64_t slot)
{
	return (uint32_t)XXH3_64bits_withSeed(data, len_bytes, slot);
}

bool ts_page_repeats(const void *page, uint64_t *ret_pattern)
{
	const any_u64 *w = page;
	unsigned n = PAGE_BYTES / sizeof(*w);

	/* Most pages that differ do so at the end; zram looks there first. */
	if (w[0] != w[n - 1] || w[0] != w[n / 2])
		return false;
	for (unsigned i = 1; i < n - 1; i++)
		if (w[i] != w[0])
			return false;
	*ret_pattern = w[0];
	return true;
}

void ts_page_fill(void *ret_page, uint64_t pattern)
{
	any_u64 *w = ret_page;

	for (unsigned i = 0; i < PAGE_BYTES / sizeof(*w); i++)
		w[i] = pattern;
}
