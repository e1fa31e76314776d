// SPDX-License-Identifier: BSD-3-Clause
/* test_sealers.c - a pack sealed by several threads is one sealed by one */
#include "sealers.h"
#include "engine.h"

#define ROUNDS 200u

static struct ts_store *store;
static struct ts_sealers sealers;
static struct ts_pack *alone, *together;
static struct ts_seal seal;

static struct ts_pack *new_pack(void)
{
	struct ts_pack *pack = calloc(1, sizeof(*pack));

	ck_assert_ptr_nonnull(pack);
	pack->buf = calloc(1, TS_SEGMENT_BYTES);
	ck_assert_ptr_nonnull(pack->buf);
	return pack;
}

static void free_pack(struct ts_pack *pack)
{
	free(pack->buf);
	free(pack);
}

static void setup(void)
{
	store = engine_new();
	alone = new_pack();
	together = new_pack();
	ck_assert_int_eq(ts_seal_init(&seal, true, NULL), 0);
	ts_sealers_start(&sealers);
}

static void teardown(void)
{
	ts_sealers_stop(&sealers);
	ts_seal_fini(&seal);
	free_pack(alone);
	free_pack(together);
	ts_store_free(store);
}

/* The same records in both. */
static void fill(struct rng *rng, unsigned n)
{
	ts_pack_begin(alone, 0, rng_next(rng));
	ts_pack_begin(together, 0, alone->generation);
	for (unsigned i = 0; i < n; i++) {
		unsigned len = 1 + (unsigned)rng_below(rng, 2000);
		uint64_t slot = rng_next(rng);

		memset(ts_pack_data(alone), (int)i, len);
		memset(ts_pack_data(together), (int)i, len);
		ts_pack_add(alone, &store->core.media, slot, 2, len,
			    ts_word_none());
		ts_pack_add(together, &store->core.media, slot, 2, len,
			    ts_word_none());
	}
}

START_TEST(same_as_one)
{
	struct rng rng = { 1 };

	for (unsigned round = 0; round < ROUNDS; round++) {
		fill(&rng, (unsigned)rng_below(&rng, 200));
		ts_pack_seal(alone, &seal, 0, alone->n);
		ts_sealers_run(&sealers, together, &seal);
		ck_assert_uint_eq(together->used, alone->used);
		ck_assert_mem_eq(together->buf, alone->buf, alone->used);
	}
}
END_TEST

/* Threads that could not be had are done without. */
START_TEST(without_helpers)
{
	struct ts_sealers none = { 0 };
	struct rng rng = { 2 };

	fill(&rng, 100);
	ts_pack_seal(alone, &seal, 0, alone->n);
	ts_sealers_run(&none, together, &seal);
	ck_assert_mem_eq(together->buf, alone->buf, alone->used);
	ts_sealers_stop(&none);
}
END_TEST

int main(void)
{
	TCase *tcase = tcase_create("sealers");

	tcase_add_checked_fixture(tcase, setup, teardown);
	tcase_add_test(tcase, same_as_one);
	tcase_add_test(tcase, without_helpers);
	return run_case(tcase);
}
