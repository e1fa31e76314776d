// SPDX-License-Identifier: BSD-3-Clause
/* test_pack.c - filling, writing, publishing and cleaning segments, by hand
 *
 * The store has a spill file and no spiller: each step is the test's.
 */
#include "clean.h"
#include "engine.h"
#include "pack.h"

#include <unistd.h>

static struct ts_store *store;
static struct ts_pack *pack;
static struct ts_cleaner cleaner;
static struct ts_io io;
static uint8_t *memory;

static void setup(void)
{
	char dir[] = "/var/tmp/ts-pack.XXXXXX", path[64], why[512];
	static const struct ts_events no_events;
	struct ts_params params;

	ck_assert_ptr_nonnull(mkdtemp(dir));
	snprintf(path, sizeof(path), "%s/spill", dir);
	ts_params_init(&params);
	params.write_behind_bytes = 0;
	params.size_bytes = TEST_SLOTS * 4096ull;
	params.ram_bytes = TEST_RAM;
	params.spill_path = strdup(path);
	params.spill_bytes = 12 * MIB;
	ck_assert_int_eq(ts_params_finish(&params, why, sizeof(why)), 0);
	ck_assert_int_eq(ts_store_new(&params, &store, why, sizeof(why)), 0);
	unlink(path);
	rmdir(dir);
	ts_params_fini(&params);
	ck_assert_int_eq(ts_spill_start(store->core.media.spill, &no_events),
			 0);
	engine_touch(store, 64);
	memory = ts_spill_buffer(2 * TS_SEGMENT_BYTES);
	ts_io_init(&io, &store->core.media.spill->file, memory,
		   2 * TS_SEGMENT_BYTES, true, why);
	pack = calloc(1, sizeof(*pack));
	pack->buf = memory;
	pack->mark = 1;
	cleaner = (struct ts_cleaner){
		.core = &store->core,
		.io = &io,
		.segment_buf = memory + TS_SEGMENT_BYTES,
		.slot = calloc(TS_PACK_RECORDS, sizeof(uint64_t)),
	};
}

static void teardown(void)
{
	engine_check(store);
	ts_io_fini(&io);
	ts_store_free(store);
	free(cleaner.slot);
	free(memory);
	free(pack);
}

static struct ts_segments *segments(void)
{
	return &store->core.media.spill->segments;
}

static void begin(void)
{
	uint64_t generation;
	uint32_t segment;

	ck_assert_int_eq(ts_segment_claim(segments(), &segment, &generation),
			 0);
	ts_pack_begin(pack, segment, generation);
}

/* Add a slot's page as the clock would. */
static void add(uint64_t slot)
{
	ts_word word = engine_word(store, slot);
	struct ts_cluster cluster;

	memcpy(ts_pack_data(pack), ts_ram_data(&store->core.media.pool, word),
	       ts_word_len(word));
	ts_pack_add(pack, &store->core.media, slot,
		    (uint8_t)ts_word_codec(word), ts_word_len(word),
		    ts_word_none());
	ts_cluster_open(&store->core.clusters, slot / TS_CLUSTER_SLOTS,
			&cluster);
	ts_cluster_flag(&cluster, slot % TS_CLUSTER_SLOTS,
			ts_word_set_mark(word, pack->mark));
	ts_cluster_close(&cluster);
}

static void write_out(void)
{
	ts_pack_seal(pack, &store->core.media.spill->seal, 0, pack->n);
	ts_pack_end(pack, store->core.media.spill);
	ts_io_start(&io, &pack->transfer);
	ts_io_drain(&io);
	ck_assert_int_eq(pack->transfer.result, 0);
}

static bool spilled(uint64_t slot)
{
	return ts_word_kind(engine_word(store, slot)) == TS_SPILL;
}

/* Slots [first, first + n) leave for a segment of their own. */
static void spill(uint64_t first, unsigned n)
{
	begin();
	for (unsigned i = 0; i < n; i++) {
		engine_write(store, first + i, PAGE_TEXT, first + i, NULL);
		add(first + i);
	}
	write_out();
	ck_assert_uint_eq(ts_pack_publish(pack, &store->core), n);
}

START_TEST(goes_and_comes_back)
{
	spill(100, 300);
	for (unsigned i = 0; i < 300; i++) {
		ck_assert(spilled(100 + i));
		engine_expect(store, 100 + i, PAGE_TEXT, 100 + i);
	}
	ck_assert_uint_eq(engine_counters(store).spill_slots, 300);
	ck_assert_uint_eq(engine_counters(store).ram_slots, 0);
	engine_check(store);
	ts_store_discard(store, 500 * 4096, 0);
	ck_assert_uint_eq(ts_segments_free(segments()), segments()->n);
}
END_TEST

/* What happens to a page while its segment is written decides. */
START_TEST(changed_on_the_way)
{
	begin();
	for (unsigned i = 0; i < 6; i++) {
		engine_write(store, i, PAGE_TEXT, i, NULL);
		add(i);
	}
	ts_store_discard(store, 4096, 0);
	engine_write(store, 1, PAGE_TEXT, 51, NULL);
	ts_store_discard(store, 4096, 2 * 4096);
	engine_write(store, 2, PAGE_TEXT, 52, NULL);
	engine_write(store, 3, PAGE_TEXT, 53, NULL);
	engine_write(store, 3, PAGE_TEXT, 3, NULL); /* the same again */
	write_out();
	ck_assert_uint_eq(ts_pack_publish(pack, &store->core), 2);
	engine_expect(store, 0, PAGE_ZERO, 0);
	engine_expect(store, 1, PAGE_TEXT, 51);
	engine_expect(store, 2, PAGE_TEXT, 52);
	engine_expect(store, 3, PAGE_TEXT, 3);
	ck_assert(!spilled(1) && !spilled(2) && !spilled(3));
	ck_assert(spilled(4) && spilled(5));
}
END_TEST

/* Overwritten and taken into the same pack once more: the last one counts. */
START_TEST(twice_in_one_pack)
{
	begin();
	engine_write(store, 7, PAGE_TEXT, 1, NULL);
	add(7);
	engine_write(store, 7, PAGE_TEXT, 2, NULL);
	add(7);
	write_out();
	ck_assert_uint_eq(ts_pack_publish(pack, &store->core), 1);
	ck_assert(spilled(7));
	engine_expect(store, 7, PAGE_TEXT, 2);
}
END_TEST

/* Marked by another pack meanwhile: not this one's any more. */
START_TEST(another_packs_mark)
{
	begin();
	engine_write(store, 7, PAGE_TEXT, 1, NULL);
	add(7);
	engine_write(store, 7, PAGE_TEXT, 2, NULL);
	pack->mark = 2;
	{
		struct ts_cluster cluster;

		ts_cluster_open(&store->core.clusters, 0, &cluster);
		ts_cluster_flag(&cluster, 7,
				ts_word_set_mark(cluster.words[7], 2));
		ts_cluster_close(&cluster);
	}
	pack->mark = 1;
	write_out();
	ck_assert_uint_eq(ts_pack_publish(pack, &store->core), 0);
	ck_assert(!spilled(7));
	engine_expect(store, 7, PAGE_TEXT, 2);
	ck_assert_uint_eq(ts_segments_free(segments()), segments()->n);
}
END_TEST

/* Nothing is lost with a write that fails, and its pages may go again. */
START_TEST(failed_write)
{
	begin();
	for (unsigned i = 0; i < 5; i++) {
		engine_write(store, i, PAGE_TEXT, i, NULL);
		add(i);
	}
	ts_pack_end(pack, store->core.media.spill);
	ts_pack_fail(pack, &store->core);
	for (unsigned i = 0; i < 5; i++) {
		ck_assert_uint_eq(ts_word_mark(engine_word(store, i)), 0);
		engine_expect(store, i, PAGE_TEXT, i);
	}
	ck_assert_uint_eq(ts_segments_free(segments()), segments()->n - 1);
	ts_segments_retry(segments());
	spill(0, 5);
}
END_TEST

/* Cleaning moves what lives, and only that. */
START_TEST(cleaning)
{
	spill(0, 200);
	spill(1000, 200);
	for (unsigned i = 0; i < 200; i++)
		if (i % 4)
			ts_store_discard(store, 4096, i * 4096);
	begin();
	ck_assert_uint_eq(ts_clean_into(&cleaner, pack), 2);
	ck_assert_uint_eq(pack->n, 50 + 200);
	/* One dies and one is rewritten on the way. */
	ts_store_discard(store, 4096, 0);
	engine_write(store, 4, PAGE_TEXT, 99, NULL);
	write_out();
	ck_assert_uint_eq(ts_pack_publish(pack, &store->core), 0);
	ck_assert_uint_eq(ts_segments_free(segments()), segments()->n - 1);
	engine_expect(store, 0, PAGE_ZERO, 0);
	engine_expect(store, 4, PAGE_TEXT, 99);
	for (unsigned i = 8; i < 200; i += 4)
		engine_expect(store, i, PAGE_TEXT, i);
	for (unsigned i = 1000; i < 1200; i++)
		engine_expect(store, i, PAGE_TEXT, i);
}
END_TEST

/* Segments that do not fit go in part, and the rest in the next pack. */
START_TEST(cleaning_in_part)
{
	const unsigned n = 250, n_live = 200;
	unsigned left = 3 * n_live, emptied;

	for (unsigned i = 0; i < 3; i++) {
		begin();
		for (unsigned k = 0; k < n; k++) {
			engine_write(store, i * n + k, PAGE_RANDOM, k, NULL);
			add(i * n + k);
		}
		write_out();
		ck_assert_uint_eq(ts_pack_publish(pack, &store->core), n);
		ts_store_discard(store, (n - n_live) * 4096, i * n * 4096);
	}
	while (left) {
		unsigned free_before = ts_segments_free(segments());

		begin();
		emptied = ts_clean_into(&cleaner, pack);
		ck_assert_uint_ge(emptied, 1);
		ck_assert_uint_eq(pack->n_emptied, emptied);
		if (left > pack->n)
			ck_assert_uint_ge(pack->n, n);
		left -= pack->n;
		write_out();
		ck_assert_uint_eq(ts_pack_publish(pack, &store->core), 0);
		ck_assert_uint_eq(ts_segments_free(segments()),
				  free_before - 1 + emptied);
		engine_check(store);
	}
	for (unsigned i = 0; i < 3; i++)
		for (unsigned k = n - n_live; k < n; k++)
			engine_expect(store, i * n + k, PAGE_RANDOM, k);
}
END_TEST

/* More than 15/16 live: not worth it. */
START_TEST(nearly_full_is_left)
{
	begin();
	for (unsigned k = 0; k < 250; k++) {
		engine_write(store, k, PAGE_RANDOM, k, NULL);
		add(k);
	}
	write_out();
	ck_assert_uint_eq(ts_pack_publish(pack, &store->core), 250);
	ts_store_discard(store, 10 * 4096, 0);
	begin();
	ck_assert_uint_eq(ts_clean_into(&cleaner, pack), 0);
	ck_assert_uint_eq(pack->n, 0);
	ts_store_discard(store, 10 * 4096, 10 * 4096);
	ck_assert_uint_eq(ts_clean_into(&cleaner, pack), 1);
	ck_assert_uint_eq(pack->n, 230);
	ts_pack_cancel(pack, &store->core);
}
END_TEST

/* A cancelled pack leaves what it was to move where it is. */
START_TEST(cancelled_cleaning)
{
	spill(0, 20);
	begin();
	ck_assert_uint_eq(ts_clean_into(&cleaner, pack), 1);
	ts_pack_cancel(pack, &store->core);
	ck_assert_uint_eq(ts_segments_free(segments()), segments()->n - 1);
	for (unsigned i = 0; i < 20; i++)
		engine_expect(store, i, PAGE_TEXT, i);
}
END_TEST

static void damage(uint32_t off)
{
	uint8_t page[4096] __attribute__((aligned(4096)));
	int fd = store->core.media.spill->file.fd;
	off_t at = (off_t)(ts_segment_off(0) + off) / 4096 * 4096;

	ck_assert_int_eq(pread(fd, page, 4096, at), 4096);
	page[off % 4096] ^= 1;
	ck_assert_int_eq(pwrite(fd, page, 4096, at), 4096);
}

/* Without the table every word is asked: nothing is lost. */
START_TEST(damaged_table)
{
	spill(0, 20);
	damage(segments()->segment[0].table_off + 3);
	begin();
	ck_assert_uint_eq(ts_clean_into(&cleaner, pack), 1);
	ck_assert_uint_eq(pack->n, 20);
	write_out();
	ts_pack_publish(pack, &store->core);
	for (unsigned i = 0; i < 20; i++)
		engine_expect(store, i, PAGE_TEXT, i);
}
END_TEST

/* A damaged record stays to be an error; its segment is not tried again. */
START_TEST(damaged_record)
{
	uint8_t page[PAGE_BYTES];

	spill(0, 20);
	damage(ts_word_spill_off(engine_word(store, 3)) + 5);
	begin();
	ck_assert_uint_eq(ts_clean_into(&cleaner, pack), 0);
	write_out();
	ts_pack_publish(pack, &store->core);
	for (unsigned i = 0; i < 20; i++) {
		if (i == 3)
			ck_assert_int_eq(ts_store_read(store, page, 4096,
						       i * 4096),
					 -EIO);
		else
			engine_expect(store, i, PAGE_TEXT, i);
	}
	begin();
	/* Only the segment that the others have moved to is left to clean. */
	ck_assert_uint_eq(ts_clean_into(&cleaner, pack), 1);
	ck_assert_uint_eq(pack->n, 19);
	ts_pack_cancel(pack, &store->core);
	engine_write(store, 3, PAGE_TEXT, 3, NULL);
	engine_expect(store, 3, PAGE_TEXT, 3);
}
END_TEST

/* Full packs: never past the segment, whatever is put in. */
START_TEST(fills_up)
{
	uint64_t slot = 0;

	begin();
	while (ts_pack_room(pack) >= 4096 + TS_PACK_EXTRA) {
		engine_write(store, slot, PAGE_TEXT, slot, NULL);
		add(slot++);
	}
	write_out();
	ck_assert_uint_le(pack->transfer.bytes, TS_SEGMENT_BYTES);
	ck_assert_uint_gt(pack->transfer.bytes, TS_SEGMENT_BYTES - 8192);
	ck_assert_uint_eq(ts_pack_publish(pack, &store->core), slot);
	for (uint64_t i = 0; i < slot; i++)
		engine_expect(store, i, PAGE_TEXT, i);
}
END_TEST

int main(void)
{
	TCase *tcase = tcase_create("pack");

	tcase_add_checked_fixture(tcase, setup, teardown);
	tcase_add_test(tcase, goes_and_comes_back);
	tcase_add_test(tcase, changed_on_the_way);
	tcase_add_test(tcase, twice_in_one_pack);
	tcase_add_test(tcase, another_packs_mark);
	tcase_add_test(tcase, failed_write);
	tcase_add_test(tcase, cleaning);
	tcase_add_test(tcase, cleaning_in_part);
	tcase_add_test(tcase, nearly_full_is_left);
	tcase_add_test(tcase, cancelled_cleaning);
	tcase_add_test(tcase, damaged_table);
	tcase_add_test(tcase, damaged_record);
	tcase_add_test(tcase, fills_up);
	return run_case(tcase);
}
