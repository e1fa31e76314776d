// SPDX-License-Identifier: BSD-3-Clause
/* test_seal.c - records: what was sealed comes back, and only there */
#include "spill/seal.h"
#include "run.h"
#include "tests/common/rng.h"

#include <errno.h>
#include <string.h>

#define LEN 1000u

static struct ts_seal seal;
static uint8_t data[4096], record[4096 + TS_RECORD_EXTRA], back[4096];
static const struct ts_place place = { 7, 12345, 4097 };

static const enum ts_cipher ciphers[] = { TS_CIPHER_NONE, TS_CIPHER_AES256GCM,
					  TS_CIPHER_XCHACHA20 };

static bool use(enum ts_cipher cipher)
{
	struct rng rng = { 1 };

	for (unsigned i = 0; i < sizeof(data); i++)
		data[i] = (uint8_t)rng_next(&rng);
	ck_assert_int_eq(ts_seal_init(&seal, cipher != TS_CIPHER_NONE,
				      NULL),
			 0);
	if (cipher == TS_CIPHER_AES256GCM &&
	    seal.cipher != TS_CIPHER_AES256GCM)
		return false;
	seal.cipher = cipher;
	return true;
}

static int open_at(struct ts_place at, unsigned len)
{
	uint8_t codec;

	return ts_unseal_record(&seal, &at, record, len, &codec, back);
}

START_TEST(comes_back)
{
	static const unsigned lens[] = { 1, 8, 15, 16, 17, 3830, 4096 };
	uint8_t codec;

	if (!use(ciphers[_i]))
		return;
	for (unsigned i = 0; i < sizeof(lens) / sizeof(*lens); i++) {
		ts_seal_record(&seal, &place, 2, data, lens[i], record);
		memset(back, 0, sizeof(back));
		ck_assert_int_eq(ts_unseal_record(&seal, &place, record,
						  lens[i], &codec, back),
				 0);
		ck_assert_uint_eq(codec, 2);
		ck_assert_mem_eq(back, data, lens[i]);
	}
	/* Sealed where it lies, it is the same. */
	for (unsigned len = 1; len <= sizeof(data); len++) {
		static uint8_t in_place[sizeof(record)];

		memcpy(in_place + TS_RECORD_DATA, data, len);
		ts_seal_record(&seal, &place, 2, in_place + TS_RECORD_DATA,
			       len, in_place);
		ts_seal_record(&seal, &place, 2, data, len, record);
		ck_assert_mem_eq(in_place, record, len + TS_RECORD_EXTRA);
	}
	ts_seal_fini(&seal);
}
END_TEST

START_TEST(any_bit_matters)
{
	if (!use(ciphers[_i]))
		return;
	ts_seal_record(&seal, &place, 2, data, LEN, record);
	for (unsigned bit = 0; bit < (LEN + TS_RECORD_EXTRA) * 8; bit++) {
		record[bit / 8] ^= (uint8_t)(1u << bit % 8);
		ck_assert_int_eq(open_at(place, LEN), -EBADMSG);
		record[bit / 8] ^= (uint8_t)(1u << bit % 8);
	}
	ck_assert_int_eq(open_at(place, LEN), 0);
	ck_assert_int_eq(open_at(place, LEN - 1), -EBADMSG);
	ts_seal_fini(&seal);
}
END_TEST

START_TEST(only_in_its_place)
{
	struct ts_place other = place;

	if (!use(ciphers[_i]))
		return;
	ts_seal_record(&seal, &place, 2, data, LEN, record);
	other.slot++;
	ck_assert_int_eq(open_at(other, LEN), -EBADMSG);
	other = place;
	other.generation--;
	ck_assert_int_eq(open_at(other, LEN), -EBADMSG);
	other = place;
	other.off_bytes++;
	ck_assert_int_eq(open_at(other, LEN), -EBADMSG);
	ck_assert_int_eq(open_at(place, LEN), 0);
	ts_seal_fini(&seal);
}
END_TEST

/* Not the text, not the same twice, not readable with another key. */
START_TEST(is_secret)
{
	uint8_t first[sizeof(record)];
	struct ts_place next = place;

	if (!use(ciphers[_i]))
		return;
	memset(data, 'A', sizeof(data));
	ts_seal_record(&seal, &place, 2, data, LEN, record);
	ck_assert(!memmem(record, LEN, "AAAA", 4));
	memcpy(first, record, sizeof(record));
	next.generation++;
	ts_seal_record(&seal, &next, 2, data, LEN, record);
	ck_assert_mem_ne(first + 1, record + 1, 16);
	next = place;
	next.off_bytes++;
	ts_seal_record(&seal, &next, 2, data, LEN, record);
	ck_assert_mem_ne(first + 1, record + 1, 16);
	memcpy(record, first, sizeof(record));
	ts_seal_fini(&seal);
	use(ciphers[_i]);
	ck_assert_int_eq(open_at(place, LEN), -EBADMSG);
	ts_seal_fini(&seal);
}
END_TEST

START_TEST(key_is_wiped)
{
	static const uint8_t none[sizeof(seal.key)];

	use(TS_CIPHER_XCHACHA20);
	ck_assert_mem_ne(seal.key, none, sizeof(none));
	ck_assert_str_eq(ts_seal_name(&seal), "XChaCha20-Poly1305");
	ts_seal_fini(&seal);
	ck_assert_mem_eq(seal.key, none, sizeof(none));
}
END_TEST

int main(void)
{
	TCase *tcase = tcase_create("seal");

	tcase_add_loop_test(tcase, comes_back, 0, 3);
	tcase_add_loop_test(tcase, any_bit_matters, 0, 3);
	tcase_add_loop_test(tcase, only_in_its_place, 0, 3);
	tcase_add_loop_test(tcase, is_secret, 1, 3);
	tcase_add_test(tcase, key_is_wiped);
	return run_case(tcase);
}
