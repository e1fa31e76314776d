// SPDX-License-Identifier: BSD-3-Clause
/* test_backend.c - the registry of backends, and what they share
 *
 * ts_shm_touch() is wrapped at link time, to fail.
 */
#include "engine.h"
#include "util/atomic.h"

static bool no_memory;

int __real_ts_shm_touch(void *addr, size_t bytes);
int __wrap_ts_shm_touch(void *addr, size_t bytes);

int __wrap_ts_shm_touch(void *addr, size_t bytes)
{
	return ts_load_relaxed(&no_memory) ? -ENOMEM
					   : __real_ts_shm_touch(addr, bytes);
}

static struct ts_store *store;
static struct ts_media *media;

static void setup(void)
{
	ts_store_relaxed(&no_memory, false);
	store = rig_start(TEST_SLOTS * 4096ull, TEST_RAM);
	media = &store->core.media;
}

static void teardown(void)
{
	engine_check(store);
	ts_store_free(store);
}

/* The list of blocks counts one that the keeper is touching as taken; the
 * classes do not.
 */
static void expect_empty(void)
{
	for (unsigned k = 0; k < TS_POOL_CLASSES; k++) {
		ck_assert_uint_eq(media->pool.classes[k].n_used, 0);
		ck_assert_uint_eq(media->pool.classes[k].n_blocks, 0);
	}
}

/* Every kind that a batch is offered to can also be found by its number. */
START_TEST(registry)
{
	for (unsigned i = 0; ts_backends[i]; i++)
		ck_assert_ptr_eq(ts_backend_of[ts_backends[i]->kind],
				 ts_backends[i]);
	for (unsigned kind = 0; kind < TS_KINDS; kind++) {
		const struct ts_backend *b = ts_backend_of[kind];

		if (!b)
			continue;
		ck_assert_uint_eq(b->kind, kind);
		ck_assert_ptr_nonnull(b->name);
		ck_assert_ptr_nonnull(b->restore);
		/* What is stored must be freed; frames are the workers' to
		 * free.
		 */
		ck_assert((ts_kind_stored((enum ts_kind)kind) &&
			   kind != TS_STAGED) == !!b->drop);
	}
}
END_TEST

/* More size classes in one batch than the reserve has blocks. */
START_TEST(many_classes)
{
	uint16_t bytes[TS_BATCH_PAGES];
	ts_obj obj[TS_BATCH_PAGES];

	for (unsigned i = 0; i < TS_BATCH_PAGES; i++)
		bytes[i] = media->pool.classes[i + 1].obj_bytes;
	ck_assert_uint_lt(media->blocks.reserve, TS_BATCH_PAGES);
	ck_assert_int_eq(ts_media_alloc(media, TS_BATCH_PAGES, bytes, obj), 0);
	for (unsigned i = 0; i < TS_BATCH_PAGES; i++)
		ck_assert_uint_eq(media->pool.classes[i + 1].n_used, 1);
	ts_pool_free(&media->pool, TS_BATCH_PAGES, obj);
}
END_TEST

/* The keeper finds no memory: the wait for it has an end, and nothing is
 * held afterwards, although some of the batch could be had.
 */
START_TEST(no_memory_for_all)
{
	uint16_t bytes[TS_BATCH_PAGES];
	ts_obj obj[TS_BATCH_PAGES];

	for (unsigned i = 0; i < TS_BATCH_PAGES; i++)
		bytes[i] = media->pool.classes[i + 1].obj_bytes;
	ts_store_relaxed(&no_memory, true);
	ck_assert_int_eq(ts_media_alloc(media, TS_BATCH_PAGES, bytes, obj),
			 -ENOSPC);
	expect_empty();
	ts_store_relaxed(&no_memory, false);
}
END_TEST

START_TEST(budget_used_up)
{
	static uint16_t bytes[TS_POOL_BULK];
	static ts_obj obj[TS_POOL_BULK];

	for (unsigned i = 0; i < TS_POOL_BULK; i++)
		bytes[i] = 4096;
	/* 2048 pages are all that there is. */
	for (unsigned i = 0; i < 3; i++)
		ck_assert_int_eq(
			ts_media_alloc(media, TS_POOL_BULK, bytes, obj), 0);
	ck_assert_int_eq(ts_media_alloc(media, TS_POOL_BULK, bytes, obj), 0);
	ck_assert_int_eq(ts_media_alloc(media, 1, bytes, obj), -ENOSPC);
	for (uint32_t page = 0; page < 2048; page++) {
		ts_obj o = ts_pool_page(page);

		ts_pool_free(&media->pool, 1, &o);
	}
}
END_TEST

/* Words of every kind in one go, more than a bulk, in any order. */
START_TEST(drop_mixed)
{
	static ts_word word[4 * TS_POOL_BULK];
	unsigned n = 0;

	for (unsigned i = 0; i < TS_POOL_BULK + 100; i++) {
		uint16_t bytes[2] = {200, 4096};
		ts_obj obj[2];

		ck_assert_int_eq(ts_media_alloc(media, 2, bytes, obj), 0);
		word[n++] = ts_word_ram(obj[0], 190, TS_CODEC_ZSTD);
		word[n++] = i % 2 ? ts_word_none() : ts_word_zero();
		word[n++] = ts_word_raw(obj[1], i);
	}
	ts_media_drop(media, n, word);
	expect_empty();
	ts_media_drop(media, 0, word);
}
END_TEST

int main(void)
{
	TCase *tcase = tcase_create("backend");

	tcase_add_checked_fixture(tcase, setup, teardown);
	tcase_add_test(tcase, registry);
	tcase_add_test(tcase, many_classes);
	tcase_add_test(tcase, no_memory_for_all);
	tcase_add_test(tcase, budget_used_up);
	tcase_add_test(tcase, drop_mixed);
	return run_case(tcase);
}
