/* SPDX-License-Identifier: BSD-3-Clause */
/* seal.c - records of the spill file: sealed, so that bytes never lie */
#include "spill/seal.h"
#include "fault.h"

#include <errno.h>
#include <string.h>
#include <xxhash.h>

#define TAG_BYTES 16

_Static_assert(crypto_aead_aes256gcm_ABYTES == TAG_BYTES, "tag");
_Static_assert(crypto_aead_xchacha20poly1305_ietf_ABYTES == TAG_BYTES, "tag");
_Static_assert(crypto_aead_aes256gcm_NPUBBYTES == 12, "nonce");

/* Authenticated beside the data. */
struct associated {
	uint64_t generation, slot;
	uint32_t off_bytes, codec;
};

static void make_key(struct ts_seal *seal, const struct ts_kept_key *kept)
{
	if (kept && *kept->has_key) {
		memcpy(seal->key, kept->key, sizeof(seal->key));
		return;
	}
	randombytes_buf(seal->key, sizeof(seal->key));
	if (!kept)
		return;
	memcpy(kept->key, seal->key, sizeof(seal->key));
	TS_FAULT_POINT("seal: key written");
	__atomic_store_n(kept->has_key, 1, __ATOMIC_RELEASE);
	TS_FAULT_POINT("seal: key valid");
}

int ts_seal_init(struct ts_seal *seal, bool encrypt,
		 const struct ts_kept_key *kept)
{
	memset(seal, 0, sizeof(*seal));
	if (!encrypt)
		return 0;
	if (sodium_init() < 0)
		return -ENOSYS;
	seal->locked = !sodium_mlock(seal, sizeof(*seal));
	make_key(seal, kept);
	seal->cipher = TS_CIPHER_XCHACHA20;
	if (crypto_aead_aes256gcm_is_available()) {
		seal->cipher = TS_CIPHER_AES256GCM;
		crypto_aead_aes256gcm_beforenm(&seal->aes, seal->key);
	}
	return 0;
}

void ts_seal_fini(struct ts_seal *seal)
{
	if (seal->cipher == TS_CIPHER_NONE)
		return;
	sodium_munlock(seal, sizeof(*seal)); /* wipes it, too */
}

const char *ts_seal_name(const struct ts_seal *seal)
{
	static const char *const names[] = {
		[TS_CIPHER_NONE] = "none (plaintext)",
		[TS_CIPHER_AES256GCM] = "AES-256-GCM",
		[TS_CIPHER_XCHACHA20] = "XChaCha20-Poly1305",
	};

	return names[seal->cipher];
}

static struct associated associate(const struct ts_place *place, uint8_t codec)
{
	return (struct associated){
		.generation = place->generation,
		.slot = place->slot,
		.off_bytes = place->off_bytes,
		.codec = codec,
	};
}

/* XChaCha takes 24 bytes; the rest stays zero. */
static void make_nonce(const struct ts_place *place, uint8_t ret_nonce[24])
{
	memset(ret_nonce, 0, 24);
	memcpy(ret_nonce, &place->generation, 8);
	memcpy(ret_nonce + 8, &place->off_bytes, 4);
}

static void make_hash(const struct associated *with, const void *data,
		      unsigned len, uint8_t ret_tag[TAG_BYTES])
{
	XXH128_canonical_t canonical;

	XXH128_canonicalFromHash(
		&canonical,
		XXH3_128bits_withSeed(data, len,
				      XXH3_64bits(with, sizeof(*with))));
	memcpy(ret_tag, canonical.digest, TAG_BYTES);
}

void ts_seal_record(const struct ts_seal *seal, const struct ts_place *place,
		    uint8_t codec, const void *data, unsigned len,
		    uint8_t *ret_record)
{
	struct associated with = associate(place, codec);
	uint8_t nonce[24], *text = ret_record + TS_RECORD_DATA;

	ret_record[0] = codec;
	make_nonce(place, nonce);
	switch (seal->cipher) {
	case TS_CIPHER_NONE:
		memmove(text, data, len);
		make_hash(&with, text, len, text + len);
		break;
	case TS_CIPHER_AES256GCM:
		crypto_aead_aes256gcm_encrypt_afternm(
			text, NULL, data, len, (const uint8_t *)&with,
			sizeof(with), NULL, nonce, &seal->aes);
		break;
	case TS_CIPHER_XCHACHA20:
		crypto_aead_xchacha20poly1305_ietf_encrypt(
			text, NULL, data, len, (const uint8_t *)&with,
			sizeof(with), NULL, nonce, seal->key);
		break;
	}
}

int ts_unseal_record(const struct ts_seal *seal, const struct ts_place *place,
		     const uint8_t *record, unsigned len, uint8_t *ret_codec,
		     void *ret_data)
{
	struct associated with = associate(place, record[0]);
	uint8_t nonce[24], tag[TAG_BYTES];
	const uint8_t *text = record + TS_RECORD_DATA;
	int bad = -1;

	make_nonce(place, nonce);
	switch (seal->cipher) {
	case TS_CIPHER_NONE:
		make_hash(&with, text, len, tag);
		bad = memcmp(tag, text + len, TAG_BYTES);
		memcpy(ret_data, text, len);
		break;
	case TS_CIPHER_AES256GCM:
		bad = crypto_aead_aes256gcm_decrypt_afternm(
			ret_data, NULL, NULL, text, len + TAG_BYTES,
			(const uint8_t *)&with, sizeof(with), nonce,
			&seal->aes);
		break;
	case TS_CIPHER_XCHACHA20:
		bad = crypto_aead_xchacha20poly1305_ietf_decrypt(
			ret_data, NULL, NULL, text, len + TAG_BYTES,
			(const uint8_t *)&with, sizeof(with), nonce,
			seal->key);
		break;
	}
	*ret_codec = record[0];
	return bad ? -EBADMSG : 0;
}
