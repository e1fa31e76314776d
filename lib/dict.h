/* SPDX-License-Identifier: BSD-3-Clause */
/* dict.h - generations of trained dictionaries
 *
 * A dictionary made of what is really swapped gives zstd the tables that it
 * would else build for every page. Several generations live side by side: new
 * pages take the current one, old pages keep theirs, and one that no page
 * uses any more is given up. A generation is a codec number of word.h.
 *
 * Refs     each prepared or published word holds one on its generation.
 * Coders   use a generation only while they are borrowed; giving one up waits
 *          until all of them have been back.
 * Memory   all is made and touched at start: nothing here allocates later.
 */
#ifndef TS_DICT_H
#define TS_DICT_H

#include "word.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define TS_DICT_BYTES 16384u
#define TS_DICT_FIRST 3u /* codec number of the first */
#define TS_DICT_GENERATIONS 4u

struct ts_dict {
	void *cdict, *ddict; /* ZSTD_CDict and ZSTD_DDict, in the memory */
	uint8_t *bytes;      /* TS_DICT_BYTES */
	void *c_memory, *d_memory;
	size_t c_bytes, d_bytes;
	size_t n_bytes; /* of the dictionary */
	_Alignas(64) uint64_t refs; /* atomic */
	bool in_use;                /* written by the keeper alone */
};

struct ts_dicts {
	struct ts_dict dict[TS_DICT_GENERATIONS];
	struct ts_kept_head *head; /* or NULL */
	struct ts_kept_dict *kept;
	uint32_t current; /* codec number for new pages */
	uint32_t added;   /* how often one was added, atomic */
	int level;
};

/* Returns 0 or -ENOMEM. Until a dictionary is added, pages go without. */
int ts_dicts_init(struct ts_dicts *dicts, int level);
void ts_dicts_fini(struct ts_dicts *dicts);

/* Keep dictionaries where they outlive the process, and make those that are
 * there. Call before any is added. Returns 0 or -EBADMSG.
 */
struct ts_kept_head;
struct ts_kept_dict;
int ts_dicts_keep(struct ts_dicts *dicts, struct ts_kept_head *head,
		  struct ts_kept_dict *kept);

/* No page uses the generation any more. */
void ts_dict_give_up(struct ts_dicts *dicts, struct ts_dict *dict);

/* Touch the memory again, after a fork. No dictionary is in use. */
void ts_dicts_touch(struct ts_dicts *dicts);

static inline bool ts_codec_has_dict(unsigned codec)
{
	return codec >= TS_DICT_FIRST &&
	       codec < TS_DICT_FIRST + TS_DICT_GENERATIONS;
}

/* The generation behind a codec number, NULL for one without. */
static inline struct ts_dict *ts_dict_of(struct ts_dicts *dicts, unsigned codec)
{
	return ts_codec_has_dict(codec) ? &dicts->dict[codec - TS_DICT_FIRST] :
					  NULL;
}

/* Count words that use a codec. */
static inline void ts_dict_ref(struct ts_dicts *dicts, unsigned codec, int by)
{
	struct ts_dict *dict = ts_dict_of(dicts, codec);

	/* Release: who finds no refs may reuse what the words needed. */
	if (dict)
		__atomic_fetch_add(&dict->refs, (uint64_t)by,
				   __ATOMIC_ACQ_REL);
}

/* For the keeper: make a dictionary the current one. Returns 0, -EBUSY (every
 * generation still has pages) or -EINVAL (not a dictionary).
 */
int ts_dicts_add(struct ts_dicts *dicts, const void *bytes, size_t n_bytes);

/* A change of level, in two steps: memory first, which may fail; then, while
 * all encoders are held, the change. It takes the memory over.
 */
struct ts_dict_rooms {
	int level;
	size_t c_bytes;
	void *c_memory[TS_DICT_GENERATIONS];
};
int ts_dict_rooms_new(struct ts_dict_rooms *rooms, int level);
void ts_dicts_set_level(struct ts_dicts *dicts, struct ts_dict_rooms *rooms);

/* For the keeper: a generation that is not current and has no refs, or NULL.
 * It may be given up once all coders have been back.
 */
struct ts_dict *ts_dicts_unused(struct ts_dicts *dicts);

#endif
