// SPDX-License-Identifier: BSD-3-Clause
/* test_store.c - requests of any offset and length (cases 14, 17, 20, 21, 23)
 */
#include "engine.h"

static struct ts_store *store;
static uint8_t buf[200 * PAGE_BYTES], now[200 * PAGE_BYTES];

static void setup(void)
{
	store = rig_start(TEST_SLOTS * 4096ull, TEST_RAM);
}

static void teardown(void)
{
	engine_check(store);
	ts_store_free(store);
}

static int write_at(const void *data, uint64_t len, uint64_t off)
{
	return ts_store_write(store, data, len, off);
}

static void expect(const void *data, uint64_t len, uint64_t off)
{
	ck_assert_int_eq(ts_store_read(store, now, len, off), 0);
	ck_assert_mem_eq(now, data, len);
}

static bool is_zero(const uint8_t *p, uint64_t len)
{
	return !p[0] && (len == 1 || !memcmp(p, p + 1, len - 1));
}

START_TEST(new_store_is_zero)
{
	memset(now, 0xff, sizeof(now));
	expect(buf, 200 * 4096, 5);
	ck_assert_uint_eq(engine_counters(store).clusters, 0);
}
END_TEST

START_TEST(range)
{
	uint64_t size = TEST_SLOTS * 4096ull;
	static const uint64_t bad[][2] = {
		{1, TEST_SLOTS * 4096ull},
		{2, TEST_SLOTS * 4096ull - 1},
		{UINT64_MAX, 0},
		{UINT64_MAX, UINT64_MAX},
		{0, UINT64_MAX},
		{0, TEST_SLOTS * 4096ull + 1},
		{TEST_SLOTS * 4096ull + 1, 0},
		{4096, UINT64_MAX - 4095},
	};

	for (unsigned i = 0; i < sizeof(bad) / sizeof(*bad); i++) {
		uint64_t len = bad[i][0], off = bad[i][1];

		ck_assert_int_eq(ts_store_read(store, now, len, off), -EINVAL);
		ck_assert_int_eq(write_at(buf, len, off), -EINVAL);
		ck_assert_int_eq(ts_store_zero(store, len, off), -EINVAL);
		ck_assert_int_eq(ts_store_discard(store, len, off), -EINVAL);
	}
	/* Nothing at the very end is fine, and so is the last byte. */
	ck_assert_int_eq(write_at(buf, 0, size), 0);
	ck_assert_int_eq(ts_store_read(store, now, 0, size), 0);
	ck_assert_int_eq(ts_store_zero(store, 0, size), 0);
	ck_assert_int_eq(ts_store_discard(store, 0, size), 0);
	ck_assert_int_eq(write_at("x", 1, size - 1), 0);
	expect("x", 1, size - 1);
}
END_TEST

/* Case 14, to the letter. */
START_TEST(below_a_slot)
{
	static uint8_t image[4 * 4096];

	for (unsigned i = 0; i < sizeof(image); i++)
		image[i] = (uint8_t)(i * 7 + i / 256);
	ck_assert_int_eq(write_at(image, sizeof(image), 0), 0);

	memset(image + 512, 0xa5, 512);
	ck_assert_int_eq(write_at(image + 512, 512, 512), 0);
	memset(image + 3584, 0, 512);
	ck_assert_int_eq(ts_store_zero(store, 512, 3584), 0);
	ck_assert_int_eq(ts_store_read(store, now, 1024, 1024), 0);
	ck_assert_mem_eq(now, image + 1024, 1024);
	memset(image + 3000, 0x5a, 6144);
	ck_assert_int_eq(write_at(image + 3000, 6144, 3000), 0);
	ck_assert_int_eq(write_at(image, 0, 77), 0);
	ck_assert_int_eq(ts_store_zero(store, 0, 77), 0);
	ck_assert_int_eq(ts_store_discard(store, 0, 77), 0);
	/* Slots covered in part keep what they hold. */
	ck_assert_int_eq(ts_store_discard(store, 4095, 0), 0);
	ck_assert_int_eq(ts_store_discard(store, 4096, 1), 0);
	expect(image, sizeof(image), 0);
	ck_assert_int_eq(ts_store_discard(store, 8191, 1), 0);
	memset(image + 4096, 0, 4096);
	expect(image, sizeof(image), 0);
}
END_TEST

/* Every length about the limits of slots, batches and clusters. */
START_TEST(lengths)
{
	static const unsigned slots[] = {1, 2, 63, 64, 65, 127, 128, 129, 199};
	struct rng rng = {6};

	for (unsigned i = 0; i < sizeof(buf) / 8; i++) {
		uint64_t r = rng_next(&rng) & 0x0f0f0f0f0f0f0f0fu;

		memcpy(buf + 8 * i, &r, 8);
	}
	for (unsigned i = 0; i < sizeof(slots) / sizeof(*slots); i++) {
		for (int d = -1; d <= 1; d++) {
			uint64_t len = (uint64_t)(slots[i] * 4096 + d);
			uint64_t off =
				(TS_CLUSTER_SLOTS - slots[i] / 2) * 4096ull;

			for (unsigned shift = 0; shift < 2; shift++) {
				ck_assert_int_eq(
					write_at(buf, len, off + shift), 0);
				expect(buf, len, off + shift);
				ck_assert_int_eq(
					ts_store_zero(store, len, off + shift),
					0);
				ck_assert_int_eq(ts_store_read(store, now, len,
							       off + shift),
						 0);
				ck_assert(is_zero(now, len));
			}
		}
	}
}
END_TEST

/* Reading takes nothing away (case 20). */
START_TEST(reads_repeat)
{
	for (unsigned k = 0; k < PAGE_KINDS; k++)
		engine_write(store, k, (enum page_kind)k, 9, NULL);
	for (unsigned round = 0; round < 3; round++)
		for (unsigned k = 0; k < PAGE_KINDS; k++)
			engine_expect(store, k, (enum page_kind)k, 9);
}
END_TEST

/* Every kind over every other. */
START_TEST(overwrites)
{
	for (unsigned from = 0; from < PAGE_KINDS; from++) {
		for (unsigned to = 0; to < PAGE_KINDS; to++) {
			uint64_t slot = from * 8 + to;

			engine_write(store, slot, (enum page_kind)from, 1,
				     NULL);
			engine_write(store, slot, (enum page_kind)to, 2, NULL);
			engine_expect(store, slot, (enum page_kind)to, 2);
			ck_assert_int_eq(
				write_at("hello", 5, slot * 4096 + 4091), 0);
			ck_assert_int_eq(ts_store_read(store, now, 5,
						       slot * 4096 + 4091),
					 0);
			ck_assert_mem_eq(now, "hello", 5);
		}
	}
}
END_TEST

/* Pages that grow and shrink about the limit, with the pool full (case 21). */
START_TEST(grow_and_shrink)
{
	uint64_t seed = 0, n = 0, refused = 0;
	uint8_t page[PAGE_BYTES];

	for (;; n++) {
		page_make(page, PAGE_NEAR, n);
		if (write_at(page, 4096, n * 4096))
			break;
	}
	ck_assert_uint_gt(n, 1000);
	for (unsigned i = 0; i < 4000; i++) {
		uint64_t slot = i * 31 % 200;

		if (i % 3 == 0)
			ck_assert_int_eq(ts_store_discard(store, 4096,
							  (slot + 1) * 4096),
					 0);
		page_make(page, PAGE_NEAR, 100000 + ++seed);
		if (write_at(page, 4096, slot * 4096)) {
			refused++;
			continue;
		}
		expect(page, 4096, slot * 4096);
	}
	ck_assert_uint_lt(refused, 4000);
	for (uint64_t slot = 202; slot < n; slot++)
		engine_expect(store, slot, PAGE_NEAR, slot);
}
END_TEST

/* Refusal at the budget: nothing lost, and room after a discard (case 23). */
START_TEST(full)
{
	struct ts_counters c;
	uint64_t n = 0;
	uint8_t page[PAGE_BYTES];
	int err;

	for (;; n++) {
		page_make(page, PAGE_RANDOM, n);
		err = write_at(page, 4096, n * 4096);
		if (err)
			break;
	}
	ck_assert_int_eq(err, -ENOSPC);
	c = engine_counters(store);
	ck_assert_uint_eq(c.nospace, 1);
	ck_assert_uint_le(c.resident_bytes, c.budget_bytes);
	/* raw pages cost at most 4 KiB + 5 % (case 28) */
	ck_assert_uint_ge(n * 4096 * 105 / 100, c.budget_bytes);
	for (unsigned i = 0; i < 10; i++)
		ck_assert_int_eq(write_at(page, 4096, 0), -ENOSPC);
	ck_assert_uint_eq(engine_counters(store).nospace, 11);
	engine_check(store);
	for (uint64_t slot = 0; slot < n; slot++)
		engine_expect(store, slot, PAGE_RANDOM, slot);
	/* A tenth of it goes; about as much can be written again. */
	ck_assert_int_eq(ts_store_discard(store, n / 10 * 4096, 0), 0);
	for (uint64_t slot = 0; slot < n / 10; slot++)
		engine_write(store, slot, PAGE_RANDOM, n + slot, NULL);
	for (uint64_t slot = 0; slot < n; slot++)
		engine_expect(store, slot, PAGE_RANDOM,
			      slot < n / 10 ? n + slot : slot);
}
END_TEST

/* 3 TiB without aliases (case 17). */
START_TEST(far_offsets)
{
	static const uint64_t offs[] = {
		0,          (4ull << 30) - 4096, 4ull << 30,
		2ull << 40, (3ull << 40) - 4096,
	};
	struct ts_store *large = rig_start(3ull << 40, TEST_RAM);

	ts_store_free(store);
	store = large;
	for (unsigned i = 0; i < 5; i++)
		engine_write(store, offs[i] / 4096, PAGE_TEXT, i, NULL);
	for (unsigned i = 0; i < 5; i++)
		engine_expect(store, offs[i] / 4096, PAGE_TEXT, i);
	ck_assert_int_eq(ts_store_discard(store, (4ull << 30) - 4096, 4096), 0);
	for (unsigned i = 0; i < 5; i++)
		if (i == 1)
			engine_expect(store, offs[i] / 4096, PAGE_ZERO, 0);
		else
			engine_expect(store, offs[i] / 4096, PAGE_TEXT, i);
}
END_TEST

/* A cluster goes with its last slot, however that goes. */
START_TEST(clusters_die)
{
	for (unsigned i = 0; i < 3; i++)
		engine_write(store, TS_CLUSTER_SLOTS + i, PAGE_TEXT, i, NULL);
	ck_assert_uint_eq(engine_counters(store).clusters, 1);
	ck_assert_int_eq(ts_store_discard(store, 2 * 4096, 2 * MIB), 0);
	ck_assert_uint_eq(engine_counters(store).clusters, 1);
	ck_assert_int_eq(ts_store_zero(store, 4096, 2 * MIB + 2 * 4096), 0);
	ck_assert_uint_eq(engine_counters(store).clusters, 0);
}
END_TEST

/* Zeroing what is not there takes no memory. */
START_TEST(zero_of_nothing)
{
	ck_assert_int_eq(ts_store_zero(store, TEST_SLOTS * 4096ull, 0), 0);
	ck_assert_uint_eq(engine_counters(store).clusters, 0);
	ck_assert_int_eq(ts_store_zero(store, 100, 50), 0);
	ck_assert_int_eq(ts_store_zero(store, 10000, 2 * MIB + 50), 0);
	ck_assert_uint_eq(engine_counters(store).clusters, 0);
}
END_TEST

/* A damaged page: EIO for it and it alone, until it is written (case 25). */
static void damage(enum page_kind kind)
{
	const uint64_t slot = 1000;
	uint8_t *object;

	for (unsigned i = 0; i < 3; i++)
		engine_write(store, slot + i, kind, i, NULL);
	object = engine_object(store, slot + 1);
	object[20] ^= 4;
	ck_assert_int_eq(ts_store_read(store, now, 4096, (slot + 1) * 4096),
			 -EIO);
	ck_assert_uint_eq(engine_counters(store).damaged, 1);
	ck_assert_int_eq(ts_store_read(store, now, 3 * 4096, slot * 4096),
			 -EIO);
	ck_assert_uint_eq(engine_counters(store).damaged, 2);
	/* Changing a part of it must not make the rest look good. */
	ck_assert_int_eq(write_at("x", 1, (slot + 1) * 4096), -EIO);
	ck_assert_uint_eq(engine_counters(store).damaged, 3);
	ck_assert_int_eq(ts_store_zero(store, 5, (slot + 1) * 4096), -EIO);
	ck_assert_uint_eq(engine_counters(store).damaged, 4);
	engine_expect(store, slot, kind, 0);
	engine_expect(store, slot + 2, kind, 2);
	engine_write(store, slot + 1, kind, 7, NULL);
	engine_expect(store, slot + 1, kind, 7);
	ck_assert_uint_eq(engine_counters(store).damaged, 4);
	ck_assert_uint_eq(engine_counters(store).nospace, 0);
}

START_TEST(damaged_ram)
{
	damage(PAGE_TEXT);
}
END_TEST

START_TEST(damaged_raw)
{
	damage(PAGE_RANDOM);
}
END_TEST

/* 8 bytes of pattern: the damage is made where they are. */
START_TEST(damaged_pattern)
{
	engine_write(store, 3, PAGE_WIDE, 1, NULL);
	engine_object(store, 3)[12] ^= 1;
	ck_assert_int_eq(ts_store_read(store, now, 4096, 3 * 4096), -EIO);
	ck_assert_int_eq(ts_store_discard(store, 4096, 3 * 4096), 0);
	engine_expect(store, 3, PAGE_ZERO, 0);
}
END_TEST

/* Another slot's object, intact, is not this slot's page. */
START_TEST(swapped_objects)
{
	uint8_t *a, *b, spare[64];

	engine_write(store, 1, PAGE_WIDE, 1, NULL);
	engine_write(store, 2, PAGE_WIDE, 2, NULL);
	a = engine_object(store, 1);
	b = engine_object(store, 2);
	memcpy(spare, a, 18);
	memcpy(a, b, 18);
	memcpy(b, spare, 18);
	ck_assert_int_eq(ts_store_read(store, now, 4096, 4096), -EIO);
	ck_assert_int_eq(ts_store_read(store, now, 4096, 8192), -EIO);
	ck_assert_int_eq(ts_store_discard(store, 8192, 4096), 0);
}
END_TEST

/* A store that was never started, or not even made. */
START_TEST(free_early)
{
	ts_store_free(NULL);
	ts_store_free(rig_new(1ull << 40, TEST_RAM));
}
END_TEST

int main(void)
{
	TCase *tcase = tcase_create("store");

	tcase_add_checked_fixture(tcase, setup, teardown);
	tcase_add_test(tcase, new_store_is_zero);
	tcase_add_test(tcase, range);
	tcase_add_test(tcase, below_a_slot);
	tcase_add_test(tcase, lengths);
	tcase_add_test(tcase, reads_repeat);
	tcase_add_test(tcase, overwrites);
	tcase_add_test(tcase, grow_and_shrink);
	tcase_add_test(tcase, full);
	tcase_add_test(tcase, far_offsets);
	tcase_add_test(tcase, clusters_die);
	tcase_add_test(tcase, zero_of_nothing);
	tcase_add_test(tcase, damaged_ram);
	tcase_add_test(tcase, damaged_raw);
	tcase_add_test(tcase, damaged_pattern);
	tcase_add_test(tcase, swapped_objects);
	tcase_add_test(tcase, free_early);
	return run_case(tcase);
}
