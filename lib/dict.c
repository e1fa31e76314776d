/* SPDX-License-Identifier: BSD-3-Clause */
/* dict.c - generations of trained dictionaries
 *
 * Dictionaries are attached, not copied: for inputs of 4 KiB zstd then looks
 * matches up in the dictionary's own tables, and the cost of a page falls by
 * a quarter (thinswap-design(7) has the figures).
 */
#define ZSTD_STATIC_LINKING_ONLY
#include "dict.h"
#include "fault.h"
#include "kept.h"
#include "shm.h"
#include "util/atomic.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <zstd.h>

static ZSTD_compressionParameters c_params(int level)
{
	return ZSTD_getCParams(level, 4096, 0);
}

static void *touched(size_t bytes)
{
	void *memory = aligned_alloc(64, (bytes + 63) / 64 * 64);

	if (memory)
		memset(memory, 1, bytes);
	return memory;
}

int ts_dicts_init(struct ts_dicts *dicts, int level)
{
	memset(dicts, 0, sizeof(*dicts));
	dicts->level = level;
	dicts->current = TS_CODEC_ZSTD;
	for (unsigned i = 0; i < TS_DICT_GENERATIONS; i++) {
		struct ts_dict *d = &dicts->dict[i];

		d->c_bytes = ZSTD_estimateCDictSize_advanced(
			TS_DICT_BYTES, c_params(level), ZSTD_dlm_byRef);
		d->d_bytes = ZSTD_estimateDDictSize(TS_DICT_BYTES,
						    ZSTD_dlm_byRef);
		d->bytes = touched(TS_DICT_BYTES);
		d->c_memory = touched(d->c_bytes);
		d->d_memory = touched(d->d_bytes);
		if (!d->bytes || !d->c_memory || !d->d_memory)
			return -ENOMEM;
	}
	return 0;
}

void ts_dicts_fini(struct ts_dicts *dicts)
{
	for (unsigned i = 0; i < TS_DICT_GENERATIONS; i++) {
		free(dicts->dict[i].bytes);
		free(dicts->dict[i].c_memory);
		free(dicts->dict[i].d_memory);
	}
	memset(dicts, 0, sizeof(*dicts));
}

void ts_dicts_touch(struct ts_dicts *dicts)
{
	for (unsigned i = 0; i < TS_DICT_GENERATIONS; i++) {
		struct ts_dict *d = &dicts->dict[i];

		ts_shm_touch(d->bytes, TS_DICT_BYTES);
		ts_shm_touch(d->c_memory, d->c_bytes);
		ts_shm_touch(d->d_memory, d->d_bytes);
	}
}

static void make_cdict(struct ts_dicts *dicts, struct ts_dict *d)
{
	d->cdict = (void *)ZSTD_initStaticCDict(
		d->c_memory, d->c_bytes, d->bytes, d->n_bytes, ZSTD_dlm_byRef,
		ZSTD_dct_fullDict, c_params(dicts->level));
}

/* Make what zstd needs of a dictionary's bytes. */
static int make(struct ts_dicts *dicts, struct ts_dict *d, size_t n_bytes)
{
	d->n_bytes = n_bytes;
	make_cdict(dicts, d);
	d->ddict = (void *)ZSTD_initStaticDDict(d->d_memory, d->d_bytes,
						d->bytes, n_bytes,
						ZSTD_dlm_byRef,
						ZSTD_dct_fullDict);
	return d->cdict && d->ddict ? 0 : -EINVAL;
}

/* Pairs with the acquire of an encoder that takes the generation. */
static void set_current(struct ts_dicts *dicts, unsigned codec)
{
	ts_store_relaxed(&dicts->current, codec);
	ts_store_release(&dicts->added, dicts->added + 1);
}

int ts_dict_rooms_new(struct ts_dict_rooms *rooms, int level)
{
	bool all = true;

	*rooms = (struct ts_dict_rooms){
		.level = level,
		.c_bytes = ZSTD_estimateCDictSize_advanced(
			TS_DICT_BYTES, c_params(level), ZSTD_dlm_byRef),
	};
	for (unsigned i = 0; i < TS_DICT_GENERATIONS && all; i++) {
		rooms->c_memory[i] = touched(rooms->c_bytes);
		all = rooms->c_memory[i] != NULL;
	}
	for (unsigned i = 0; i < TS_DICT_GENERATIONS && !all; i++)
		free(rooms->c_memory[i]);
	return all ? 0 : -ENOMEM;
}

/* Only the current generation compresses; the others' tables can go. */
void ts_dicts_set_level(struct ts_dicts *dicts, struct ts_dict_rooms *rooms)
{
	struct ts_dict *current = ts_dict_of(dicts, dicts->current);

	ts_store_relaxed(&dicts->level, rooms->level);
	for (unsigned i = 0; i < TS_DICT_GENERATIONS; i++) {
		struct ts_dict *d = &dicts->dict[i];

		free(d->c_memory);
		d->c_memory = rooms->c_memory[i];
		d->c_bytes = rooms->c_bytes;
		d->cdict = NULL;
		if (d == current)
			make_cdict(dicts, d);
	}
}

int ts_dicts_keep(struct ts_dicts *dicts, struct ts_kept_head *head,
		  struct ts_kept_dict *kept)
{
	dicts->head = head;
	dicts->kept = kept;
	for (unsigned i = 0; i < TS_DICT_GENERATIONS; i++) {
		struct ts_dict *d = &dicts->dict[i];
		uint32_t n = kept[i].n_bytes;

		if (!n)
			continue;
		if (n > TS_DICT_BYTES)
			return -EBADMSG;
		memcpy(d->bytes, kept[i].bytes, n);
		if (make(dicts, d, n))
			return -EBADMSG;
		d->in_use = true;
	}
	if (ts_codec_has_dict(head->dict_current) &&
	    ts_dict_of(dicts, head->dict_current)->in_use)
		set_current(dicts, head->dict_current);
	return 0;
}

/* The bytes are complete before their length says so, and the generation
 * before a word can use it.
 */
static void keep(struct ts_dicts *dicts, unsigned i, size_t n_bytes)
{
	if (!dicts->kept)
		return;
	memcpy(dicts->kept[i].bytes, dicts->dict[i].bytes, n_bytes);
	TS_FAULT_POINT("dictionary: bytes kept");
	ts_store_release(&dicts->kept[i].n_bytes, (uint32_t)n_bytes);
	TS_FAULT_POINT("dictionary: valid");
	ts_store_release(&dicts->head->dict_current, i + TS_DICT_FIRST);
	TS_FAULT_POINT("dictionary: current");
}

int ts_dicts_add(struct ts_dicts *dicts, const void *bytes, size_t n_bytes)
{
	unsigned i = 0;
	int err;

	if (n_bytes > TS_DICT_BYTES)
		return -EINVAL;
	while (i < TS_DICT_GENERATIONS && dicts->dict[i].in_use)
		i++;
	if (i == TS_DICT_GENERATIONS)
		return -EBUSY;
	memcpy(dicts->dict[i].bytes, bytes, n_bytes);
	err = make(dicts, &dicts->dict[i], n_bytes);
	if (err)
		return err;
	dicts->dict[i].in_use = true;
	keep(dicts, i, n_bytes);
	set_current(dicts, i + TS_DICT_FIRST);
	return 0;
}

void ts_dict_give_up(struct ts_dicts *dicts, struct ts_dict *dict)
{
	if (dicts->kept)
		ts_store_release(&dicts->kept[dict - dicts->dict].n_bytes, 0);
	TS_FAULT_POINT("dictionary: given up");
	dict->in_use = false;
}

struct ts_dict *ts_dicts_unused(struct ts_dicts *dicts)
{
	for (unsigned i = 0; i < TS_DICT_GENERATIONS; i++) {
		struct ts_dict *d = &dicts->dict[i];

		if (d->in_use && dicts->current != i + TS_DICT_FIRST &&
		    !ts_load_acquire(&d->refs))
			return d;
	}
	return NULL;
}
