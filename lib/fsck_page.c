/* SPDX-License-Identifier: BSD-3-Clause */
/* fsck_page.c - whether what one word names is sound
 *
 * The bytes are fetched by way of peek.h, and then judged by the code that
 * serves reads.
 */
#include "fsck_page.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

static void open_spill(struct ts_examiner *x, const char *path)
{
	const struct ts_kept_head *h = &x->head;
	struct stat st;

	if (!h->n_segments)
		return;
	if (!path)
		path = h->spill_path;
	/* As the server reads it: what is in the page cache can be old. */
	x->spill_fd = open(path, O_RDONLY | O_DIRECT | O_CLOEXEC | O_NOCTTY);
	if (x->spill_fd < 0 && errno == EINVAL)
		x->spill_fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY);
	if (x->spill_fd < 0) {
		snprintf(x->why_unread, sizeof(x->why_unread), "%.180s: %s",
			 path, strerror(errno));
		return;
	}
	if (!fstat(x->spill_fd, &st) &&
	    (S_ISBLK(st.st_mode) ? st.st_rdev == h->spill_dev :
				   st.st_dev == h->spill_dev &&
					   st.st_ino == h->spill_ino))
		return;
	snprintf(x->why_unread, sizeof(x->why_unread),
		 "%.180s is not the spill file that the pages are in", path);
	close(x->spill_fd);
	x->spill_fd = -1;
}

static int init_codec(struct ts_examiner *x)
{
	int err = ts_stats_init(&x->media.stats);

	if (!err)
		err = ts_codec_init(&x->media.codec, TS_CODEC_LEVEL_DEFAULT, 0,
				    1);
	if (!err)
		x->decoder = ts_borrow(&x->media.codec.decoders);
	return err;
}

int ts_examiner_init(struct ts_examiner *x, const struct ts_peek *peek,
		     const char *spill_path)
{
	struct ts_kept_key key = { x->head.key, &x->head.has_key };
	int err;

	memset(x, 0, sizeof(*x));
	x->peek = peek;
	x->head = peek->head;
	x->spill_fd = -1;
	x->record_buf = ts_spill_buffer(TS_READ_BYTES);
	x->dict = calloc(TS_DICT_GENERATIONS, sizeof(*x->dict));
	if (!x->record_buf || !x->dict)
		return -ENOMEM;
	/* Pages and the key pass through here. */
	mlock(x, sizeof(*x));
	madvise(x->record_buf, TS_READ_BYTES, MADV_DONTDUMP);
	ts_pool_init(&x->media.pool, &x->media.blocks);
	err = init_codec(x);
	if (err)
		return err;
	open_spill(x, spill_path);
	if (x->spill_fd >= 0 && x->head.spill_sealed && !x->head.has_key) {
		/* Before the first record there is no key. */
		close(x->spill_fd);
		x->spill_fd = -1;
		snprintf(x->why_unread, sizeof(x->why_unread),
			 "there was no key yet");
	} else if (x->spill_fd >= 0) {
		err = ts_seal_init(&x->seal, x->head.spill_sealed, &key);
	}
	return err;
}

void ts_examiner_fini(struct ts_examiner *x)
{
	if (!x->peek)
		return;
	if (x->decoder)
		ts_return(&x->media.codec.decoders, x->decoder);
	ts_codec_fini(&x->media.codec);
	ts_stats_fini(&x->media.stats);
	ts_pool_fini(&x->media.pool);
	ts_seal_fini(&x->seal);
	if (x->spill_fd >= 0)
		close(x->spill_fd);
	free(x->record_buf);
	free(x->dict);
	explicit_bzero(x, sizeof(*x));
}

/* Make one generation of what is in the copies. */
static void make_dict(struct ts_examiner *x, unsigned i)
{
	struct ts_dicts *dicts = &x->media.codec.dicts;
	uint32_t n[TS_DICT_GENERATIONS];

	for (unsigned k = 0; k < TS_DICT_GENERATIONS; k++) {
		n[k] = x->dict[k].n_bytes;
		if (k != i)
			x->dict[k].n_bytes = 0;
	}
	dicts->dict[i].ddict = NULL;
	/* A bad one has no pages: those that use it fail. */
	ts_dicts_keep(dicts, &x->head, x->dict);
	for (unsigned k = 0; k < TS_DICT_GENERATIONS; k++)
		x->dict[k].n_bytes = n[k];
}

unsigned ts_examiner_dicts(struct ts_examiner *x)
{
	struct ts_kept_dict now;
	unsigned n = 0;

	for (unsigned i = 0; i < TS_DICT_GENERATIONS; i++) {
		if (ts_peek_read(x->peek, x->peek->at.dict + i * sizeof(now),
				 &now, sizeof(now)))
			continue;
		n += now.n_bytes != 0;
		if (!memcmp(&now, &x->dict[i], sizeof(now)))
			continue;
		x->dict[i] = now;
		make_dict(x, i);
	}
	return n;
}

bool ts_examiner_block(const struct ts_examiner *x, ts_word word,
		       uint32_t *ret_block, unsigned *ret_class)
{
	enum ts_kind kind = ts_word_kind(word);

	if (kind != TS_RAM && !ts_kind_plain(kind))
		return false;
	*ret_block = (uint32_t)(ts_word_obj(word).grains >>
				(TS_BLOCK_SHIFT - TS_GRAIN_SHIFT));
	*ret_class = kind == TS_RAM ?
			     ts_pool_class(&x->media.pool,
					   ts_ram_object_bytes(word)) :
			     TS_CLASS_PAGE;
	return true;
}

/* Whether a word names an object where there can be one. */
static bool object_is_possible(const struct ts_examiner *x, ts_word word)
{
	uint64_t off = ts_word_obj(word).grains << TS_GRAIN_SHIFT;
	const struct ts_class *c;
	unsigned size_class, in_block = off & (TS_BLOCK_BYTES - 1);
	uint32_t block;

	if (ts_word_kind(word) == TS_RAM &&
	    ts_ram_object_bytes(word) > TS_OBJ_MAX_BYTES)
		return false;
	ts_examiner_block(x, word, &block, &size_class);
	c = &x->media.pool.classes[size_class];
	return block < x->head.n_blocks && in_block % c->obj_bytes == 0 &&
	       in_block / c->obj_bytes < c->per_block;
}

static enum ts_fault_found judge(struct ts_examiner *x,
				 struct ts_reading *reading)
{
	const struct ts_backend *backend =
		ts_backend_of[ts_word_kind(reading->word[0])];

	backend->restore(&x->media, reading, 1);
	return reading->bad ? TS_FSCK_OBJECT : TS_FSCK_SOUND;
}

/* What backend->copy() does, from outside. */
static enum ts_fault_found examine_object(struct ts_examiner *x, uint64_t slot,
					  ts_word word,
					  struct ts_evidence *evidence)
{
	uint64_t off = ts_word_obj(word).grains << TS_GRAIN_SHIFT;
	uint8_t page[4096] __attribute__((aligned(8)));
	struct ts_reading reading = {
		.n = 1,
		.slot = slot,
		.data = page,
		.word = { word },
		.decoder = x->decoder,
	};
	bool plain = ts_kind_plain(ts_word_kind(word));

	if (!object_is_possible(x, word))
		return TS_FSCK_WORD;
	evidence->n = plain ? 4096 : ts_ram_object_bytes(word);
	if (ts_peek_blocks(x->peek, off, evidence->bytes, evidence->n))
		return TS_FSCK_UNREADABLE;
	memcpy(plain ? page : ts_reading_scratch(&reading, 0), evidence->bytes,
	       evidence->n);
	return judge(x, &reading);
}

/* Returns where in @record_buf it is, or NULL. */
static const uint8_t *read_record(struct ts_examiner *x, uint64_t off,
				  unsigned len)
{
	uint64_t from = off / 4096 * 4096;
	uint64_t to = (off + len + 4095) / 4096 * 4096;
	ssize_t n = pread(x->spill_fd, x->record_buf, to - from, (off_t)from);

	/* A file may end within its last page. */
	return n < (ssize_t)(off + len - from) ? NULL :
						 x->record_buf + (off - from);
}

static enum ts_fault_found examine_record(struct ts_examiner *x, uint64_t slot,
					  ts_word word,
					  struct ts_evidence *evidence,
					  bool *ret_unread)
{
	unsigned len = ts_word_len(word);
	uint32_t segment = ts_word_segment(word);
	struct ts_place place = { .slot = slot,
				  .off_bytes = ts_word_spill_off(word) };
	struct ts_kept_segment kept;
	uint8_t codec, data[4096 + TS_CODEC_SLACK_BYTES], page[4096];
	const uint8_t *record;

	if (segment >= x->head.n_segments ||
	    place.off_bytes + len + TS_RECORD_EXTRA > TS_SEGMENT_BYTES ||
	    ts_peek_read(x->peek, x->peek->at.segment + segment * sizeof(kept),
			 &kept, sizeof(kept)))
		return TS_FSCK_WORD;
	if (x->spill_fd < 0) {
		*ret_unread = true;
		return TS_FSCK_SOUND;
	}
	place.generation = kept.generation;
	record = read_record(x, ts_segment_off(segment) + place.off_bytes,
			     len + TS_RECORD_EXTRA);
	if (!record)
		return TS_FSCK_UNREADABLE;
	evidence->n = len + TS_RECORD_EXTRA + sizeof(kept.generation);
	memcpy(evidence->bytes, &kept.generation, sizeof(kept.generation));
	memcpy(evidence->bytes + sizeof(kept.generation), record,
	       len + TS_RECORD_EXTRA);
	if (ts_unseal_record(&x->seal, &place, record, len, &codec, data) ||
	    ts_codec_restore(x->decoder, codec, data, len, page))
		return TS_FSCK_RECORD;
	return TS_FSCK_SOUND;
}

enum ts_fault_found ts_examine(struct ts_examiner *x, uint64_t slot,
			       ts_word word, struct ts_evidence *evidence,
			       bool *ret_unread)
{
	evidence->n = 0;
	*ret_unread = false;
	switch (ts_word_kind(word)) {
	case TS_NONE:
		return word.bits ? TS_FSCK_WORD : TS_FSCK_SOUND;
	case TS_ZERO:
		return word.bits == TS_ZERO ? TS_FSCK_SOUND : TS_FSCK_WORD;
	case TS_FILL:
		return TS_FSCK_SOUND;
	case TS_STAGED:
	case TS_RAM:
	case TS_RAW:
		return examine_object(x, slot, word, evidence);
	case TS_SPILL:
		return examine_record(x, slot, word, evidence, ret_unread);
	default:
		return TS_FSCK_WORD;
	}
}
