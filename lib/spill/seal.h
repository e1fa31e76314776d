/* SPDX-License-Identifier: BSD-3-Clause */
/* seal.h - records of the spill file: sealed, so that bytes never lie
 *
 *	record: | codec 1 | ciphertext, len bytes | tag 16 |
 *
 * AES-256-GCM where the processor has it, else XChaCha20-Poly1305, both from
 * libsodium. The key is made at start and never leaves memory.
 *
 * Nonce   the segment's generation (64 bits) and the record's offset in the
 *         segment (32 bits). A generation is given out once for each time a
 *         segment is filled, counting up for as long as the key lives, and
 *         within one filling no two records begin at one offset. So no nonce
 *         is used twice under a key.
 * Place   slot, generation and codec are authenticated: a record that is read
 *         in another place, or is an older one of the same place, fails.
 *
 * Without encryption the tag is a 128-bit XXH3 of the same things: it finds
 * damage, not malice.
 */
#ifndef TS_SPILL_SEAL_H
#define TS_SPILL_SEAL_H

#include <stdbool.h>
#include <stdint.h>

#include <sodium.h>

#define TS_RECORD_EXTRA 17u /* bytes of a record beside its data */
#define TS_RECORD_DATA	1u  /* where the data begins */

enum ts_cipher { TS_CIPHER_NONE, TS_CIPHER_AES256GCM, TS_CIPHER_XCHACHA20 };

struct ts_seal {
	_Alignas(16) crypto_aead_aes256gcm_state aes;
	uint8_t key[32];
	enum ts_cipher cipher;
	bool locked; /* the key cannot be swapped out */
};

/* Where a record belongs. */
struct ts_place {
	uint64_t generation;
	uint64_t slot;
	uint32_t off_bytes;
};

/* Where a key outlives the process, or is found again. */
struct ts_kept_key {
	uint8_t *key; /* 32 bytes */
	uint32_t *has_key;
};

/* @kept may be NULL: then the key goes with the process. Returns 0 or -ENOSYS
 * (libsodium does not start).
 */
int ts_seal_init(struct ts_seal *seal, bool encrypt,
		 const struct ts_kept_key *kept);

/* Wipe the key. */
void ts_seal_fini(struct ts_seal *seal);

const char *ts_seal_name(const struct ts_seal *seal);

/* Make a record of len + TS_RECORD_EXTRA bytes. @data may be in its place in the
 * record already.
 */
void ts_seal_record(const struct ts_seal *seal, const struct ts_place *place,
		    uint8_t codec, const void *data, unsigned len,
		    uint8_t *ret_record);

/* Open a record. Returns 0, or -EBADMSG and @ret_data is then undefined. */
int ts_unseal_record(const struct ts_seal *seal, const struct ts_place *place,
		     const uint8_t *record, unsigned len, uint8_t *ret_codec,
		     void *ret_data);

#endif
