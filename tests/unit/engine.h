/* SPDX-License-Identifier: BSD-3-Clause */
/* engine.h - the insides of a store, for unit tests
 *
 * Stores made here have no keeper: engine_touch() does its work when the test
 * wants it. TEST_SLOTS slots, TEST_RAM of budget.
 */
#ifndef TS_TESTS_UNIT_ENGINE_H
#define TS_TESTS_UNIT_ENGINE_H

#include "run.h"
#include "batch.h"
#include "compact.h"
#include "store.h"
#include "tests/common/coders.h"
#include "tests/common/pages.h"
#include "tests/common/rig.h"
#include "tests/common/rng.h"

#include <errno.h>
#include <string.h>

#define TEST_SLOTS (64u * TS_CLUSTER_SLOTS)
#define TEST_RAM   (8 * MIB)

/* May a test end in abort()? Not without a process of its own. */
static inline bool can_crash(void)
{
	const char *fork = getenv("CK_FORK");

	return !fork || strcmp(fork, "no");
}

/* Touch n blocks. */
static inline void engine_touch(struct ts_store *store, unsigned n)
{
	struct ts_blocks *blocks = &store->core.media.blocks;
	uint32_t reserve = blocks->reserve;

	blocks->reserve = ts_blocks_free_touched(blocks) + n;
	ck_assert_uint_eq(ts_blocks_refill(blocks, n), n);
	blocks->reserve = reserve;
}

static inline struct ts_store *engine_new(void)
{
	struct ts_store *store = rig_new(TEST_SLOTS * 4096ull, TEST_RAM);

	engine_touch(store, 64);
	return store;
}

static inline void engine_check(struct ts_store *store)
{
	char why[256] = "";

	ck_assert_msg(!ts_store_check(store, why, sizeof(why)), "%s", why);
}

static inline struct ts_counters engine_counters(struct ts_store *store)
{
	struct ts_counters c;

	ts_store_counters(store, &c);
	return c;
}

/* Write one page of a kind into a slot, and the same page again in @ret_page
 * if that is not NULL.
 */
static inline void engine_write(struct ts_store *store, uint64_t slot,
				enum page_kind kind, uint64_t seed,
				uint8_t *ret_page)
{
	uint8_t page[PAGE_BYTES];

	page_make(page, kind, seed);
	ck_assert_int_eq(ts_store_write(store, page, PAGE_BYTES, slot * 4096),
			 0);
	if (ret_page)
		memcpy(ret_page, page, PAGE_BYTES);
}

static inline void engine_expect(struct ts_store *store, uint64_t slot,
				 enum page_kind kind, uint64_t seed)
{
	uint8_t page[PAGE_BYTES], now[PAGE_BYTES];

	page_make(page, kind, seed);
	ck_assert_int_eq(ts_store_read(store, now, PAGE_BYTES, slot * 4096), 0);
	ck_assert_mem_eq(now, page, PAGE_BYTES);
}

/* The word of a slot. */
static inline ts_word engine_word(struct ts_store *store, uint64_t slot)
{
	struct ts_cluster cluster;
	ts_word word = ts_word_none();

	ts_cluster_open(&store->core.clusters, slot / TS_CLUSTER_SLOTS,
			&cluster);
	if (cluster.words)
		word = cluster.words[slot % TS_CLUSTER_SLOTS];
	ts_cluster_close(&cluster);
	return word;
}

/* The bytes that a slot's word names. */
static inline uint8_t *engine_object(struct ts_store *store, uint64_t slot)
{
	return ts_pool_addr(&store->core.media.pool,
			    ts_word_obj(engine_word(store, slot)));
}

/* Offer n pages to one backend alone, with an encoder if it wants one. */
static inline int engine_place(struct ts_store *store,
			       const struct ts_backend *backend,
			       struct ts_batch *batch, uint64_t slot,
			       unsigned n, const void *pages)
{
	struct ts_media *media = &store->core.media;
	int err;

	ts_batch_init(batch, slot, n, pages);
	batch->encoder = take_encoder(&media->codec);
	err = backend->place(media, batch);
	give_encoder(&media->codec, batch->encoder);
	batch->encoder = NULL;
	return err;
}

/* Make the page of a word that is not published. Returns 0 or not. */
static inline int engine_restore(struct ts_store *store, ts_word word,
				 uint64_t slot, void *ret_page)
{
	const struct ts_backend *b = ts_backend_of[ts_word_kind(word)];
	struct ts_media *media = &store->core.media;
	struct ts_reading r = {
		.n = 1,
		.slot = slot,
		.data = ret_page,
		.word = { word },
		.decoder = take_decoder(&media->codec),
	};

	if (b->copy)
		b->copy(media, &r, 0);
	b->restore(media, &r, 1);
	give_decoder(&media->codec, r.decoder);
	return r.bad ? -EIO : 0;
}

#endif
