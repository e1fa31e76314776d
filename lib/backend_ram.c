/* SPDX-License-Identifier: BSD-3-Clause */
/* backend_ram.c - compressed pages in the pool
 *
 *	object: | check 4 | owner slot 6 | compressed bytes ...
 *
 * The check covers the bytes and, as its seed, the slot. The owner lets
 * compaction find the word that names an object. Header fields are atomic
 * because compaction looks at objects that may just be being written; what it
 * reads there is only a hint, which the word confirms.
 */
#include "backend.h"
#include "fault.h"
#include "train.h"
#include "util/atomic.h"

#include <errno.h>
#include <string.h>

struct header {
	uint32_t check;
	uint32_t owner_low;
	uint16_t owner_high;
};

#define HEADER_BYTES 10u
#define MAX_LEN (TS_OBJ_MAX_BYTES - HEADER_BYTES)

_Static_assert(offsetof(struct header, owner_high) + 2 == HEADER_BYTES,
	       "data follows the header at once");

static unsigned encode(struct ts_batch *batch, unsigned i, void *ret_data,
		       enum ts_codec_id *ret_codec)
{
	if (batch->repeats >> i & 1) {
		*ret_codec = TS_CODEC_REPEAT;
		memcpy(ret_data, &batch->pattern[i], sizeof(uint64_t));
		return sizeof(uint64_t);
	}
	*ret_codec = batch->encoder->codec;
	return ts_codec_compress(batch->encoder, batch->page[i], ret_data,
				 MAX_LEN);
}

static void write_object(void *object, const void *data, unsigned len,
			 uint64_t slot)
{
	struct header *h = object;

	ts_store_relaxed(&h->check, ts_codec_check(data, len, slot));
	ts_store_relaxed(&h->owner_low, (uint32_t)slot);
	ts_store_relaxed(&h->owner_high, (uint16_t)(slot >> 32));
	TS_FAULT_POINT("object: header written");
	memcpy((uint8_t *)object + HEADER_BYTES, data, len);
	TS_FAULT_POINT("object: written");
}

static int place(struct ts_media *media, struct ts_batch *batch)
{
	uint8_t *data = batch->encoder->scratch;
	uint16_t len[TS_BATCH_PAGES], bytes[TS_BATCH_PAGES];
	uint8_t which[TS_BATCH_PAGES], codec[TS_BATCH_PAGES];
	uint64_t tried = 0, made_bytes = 0;
	ts_obj obj[TS_BATCH_PAGES];
	uint64_t start = ts_stats_start();
	unsigned n = 0;
	int err;

	for (uint64_t m = batch->todo; m; m &= m - 1) {
		unsigned i = ts_batch_first(m);
		enum ts_codec_id id;
		unsigned got;

		if (media->train)
			ts_train_offer(media->train, batch->page[i]);
		got = encode(batch, i, data, &id);
		tried++;
		made_bytes += got ? got : 4096;
		if (!got)
			continue;
		which[n] = (uint8_t)i;
		codec[n] = (uint8_t)id;
		len[n] = (uint16_t)got;
		bytes[n] = (uint16_t)(got + HEADER_BYTES);
		data += got;
		n++;
	}

	ts_stats_took(&media->stats, TS_HIST_compress, start,
		      (unsigned)tried);
	ts_stats_add(&media->stats, TS_STAT_compressed_pages, (int64_t)tried);
	ts_stats_add(&media->stats, TS_STAT_compressed_bytes,
		     (int64_t)made_bytes);
	if (!n)
		return 0;
	err = ts_media_alloc(media, n, bytes, obj);
	if (err)
		return err;
	data = batch->encoder->scratch;
	for (unsigned k = 0; k < n; k++) {
		write_object(ts_pool_addr(&media->pool, obj[k]), data, len[k],
			     batch->slot + which[k]);
		ts_dict_ref(&media->codec.dicts, codec[k], 1);
		ts_batch_place(batch, which[k],
			       ts_word_ram(obj[k], len[k], codec[k]));
		data += len[k];
	}
	return 0;
}

int ts_ram_put(struct ts_media *media, struct ts_batch *batch, unsigned i,
	       enum ts_codec_id codec, const void *data, unsigned len)
{
	uint16_t bytes = (uint16_t)(len + HEADER_BYTES);
	ts_obj obj;
	int err = ts_pool_alloc(&media->pool, 1, &bytes, &obj);

	if (err)
		return err;
	write_object(ts_pool_addr(&media->pool, obj), data, len,
		     batch->slot + i);
	ts_dict_ref(&media->codec.dicts, codec, 1);
	ts_batch_place(batch, i, ts_word_ram(obj, len, codec));
	return 0;
}

static void copy(struct ts_media *media, struct ts_reading *reading,
		 unsigned i)
{
	ts_word word = reading->word[i];

	memcpy(ts_reading_scratch(reading, i),
	       ts_pool_addr(&media->pool, ts_word_obj(word)),
	       HEADER_BYTES + ts_word_len(word));
}

static int restore_page(struct ts_reading *reading, unsigned i)
{
	const uint8_t *object = ts_reading_scratch(reading, i);
	ts_word word = reading->word[i];
	unsigned len = ts_word_len(word);
	uint32_t check;

	memcpy(&check, object, sizeof(check));
	if (check != ts_codec_check(object + HEADER_BYTES, len,
				    reading->slot + i))
		return -EBADMSG;
	return ts_codec_restore(reading->decoder, ts_word_codec(word),
				object + HEADER_BYTES, len,
				ts_reading_page(reading, i));
}

static void restore(struct ts_media *media, struct ts_reading *reading,
		    uint64_t mask)
{
	unsigned n = (unsigned)__builtin_popcountll(mask);
	uint64_t start = ts_stats_start();

	for (; mask; mask &= mask - 1) {
		unsigned i = ts_batch_first(mask);

		if (restore_page(reading, i))
			reading->bad |= 1ull << i;
	}
	ts_stats_took(&media->stats, TS_HIST_decompress, start, n);
}

unsigned ts_ram_object_bytes(ts_word word)
{
	return ts_word_len(word) + HEADER_BYTES;
}

const void *ts_ram_data(struct ts_pool *pool, ts_word word)
{
	uint8_t *object = ts_pool_addr(pool, ts_word_obj(word));

	return object + (ts_word_kind(word) == TS_RAM ? HEADER_BYTES : 0);
}

void ts_ram_drop(struct ts_media *media, unsigned n, const ts_word *word)
{
	ts_obj obj[TS_POOL_BULK];

	for (unsigned i = 0; i < n; i++) {
		obj[i] = ts_word_obj(word[i]);
		ts_dict_ref(&media->codec.dicts, ts_word_codec(word[i]), -1);
	}
	ts_pool_free(&media->pool, n, obj);
}

uint64_t ts_ram_owner(struct ts_pool *pool, ts_obj obj)
{
	struct header *h = ts_pool_addr(pool, obj);

	return ts_load_relaxed(&h->owner_low) |
	       (uint64_t)ts_load_relaxed(&h->owner_high) << 32;
}

static void move(struct ts_media *media, ts_word word, ts_obj to)
{
	struct header *from =
		ts_pool_addr(&media->pool, ts_word_obj(word));
	struct header *h = ts_pool_addr(&media->pool, to);

	ts_store_relaxed(&h->check, from->check);
	ts_store_relaxed(&h->owner_low, from->owner_low);
	ts_store_relaxed(&h->owner_high, from->owner_high);
	memcpy((uint8_t *)h + HEADER_BYTES, (uint8_t *)from + HEADER_BYTES,
	       ts_word_len(word));
}

const struct ts_backend ts_backend_ram = {
	.kind = TS_RAM,
	.encodes = true,
	.name = "ram",
	.place = place,
	.copy = copy,
	.restore = restore,
	.drop = ts_ram_drop,
	.move = move,
	.slots = TS_STAT_ram_slots,
};
