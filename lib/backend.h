/* SPDX-License-Identifier: BSD-3-Clause */
/* backend.h - where pages can be: one table of operations a kind of word
 *
 * A batch of pages is offered to the backends in the order of ts_backends[];
 * each places what it can and leaves the rest. Adding a backend is a file
 * with a table, and a line in backend.c.
 *
 * Everything a backend needs is in struct ts_media. None of the operations
 * allocates from the system; which may wait is said at each.
 */
#ifndef TS_BACKEND_H
#define TS_BACKEND_H

#include "block.h"
#include "codec.h"
#include "pool.h"
#include "stats.h"
#include "word.h"

#include <stdbool.h>

struct ts_spill;
struct ts_stage;
struct ts_train;

struct ts_media {
	struct ts_blocks blocks;
	struct ts_pool pool;
	struct ts_codec codec;
	struct ts_stats stats;
	struct ts_spill *spill; /* or NULL */
	struct ts_train *train; /* or NULL: no dictionaries */
	struct ts_stage *stage; /* or NULL: no write-behind */
};

/* Pages on their way to becoming words. */
struct ts_batch {
	unsigned n;    /* 1..TS_BATCH_PAGES */
	uint64_t slot; /* of the first page; the others follow */
	const uint8_t *page[TS_BATCH_PAGES];
	struct ts_coder *encoder; /* or NULL while nothing needs compressing */

	uint64_t repeats; /* bit i: page i is pattern[i] all over */
	uint64_t pattern[TS_BATCH_PAGES];

	uint64_t todo;   /* bit i: page i has no place yet */
	uint64_t staged; /* bit i: page i is in a frame; see stage.h */
	ts_word word[TS_BATCH_PAGES];
};

/* The lowest page that has no place; todo must not be 0. */
static inline unsigned ts_batch_first(uint64_t todo)
{
	return (unsigned)__builtin_ctzll(todo);
}

static inline void ts_batch_place(struct ts_batch *batch, unsigned i,
				  ts_word word)
{
	batch->word[i] = word;
	batch->todo &= ~(1ull << i);
}

/* Words on their way to becoming pages. */
struct ts_reading {
	unsigned n;    /* 1..TS_BATCH_PAGES */
	uint64_t slot; /* of the first word; the others follow */
	uint8_t *data; /* n pages */
	ts_word word[TS_BATCH_PAGES];
	uint64_t bad; /* bit i: page i could not be made */
	struct ts_coder *decoder;
};

static inline uint8_t *ts_reading_page(const struct ts_reading *r, unsigned i)
{
	return r->data + (size_t)i * 4096;
}

/* Room of a page for what copy() takes. */
static inline uint8_t *ts_reading_scratch(const struct ts_reading *r,
					  unsigned i)
{
	return r->decoder->scratch + (size_t)i * 4096;
}

struct ts_backend {
	enum ts_kind kind;
	bool encodes; /* place() needs an encoder */
	const char *name;

	/* Store what the backend can of the pages in @batch->todo, and place
	 * their words. NULL: no page is new here. Nothing is published yet.
	 * May wait for the keeper. On an error, nothing that this call stored
	 * is left.
	 * Returns 0 or -ENOSPC.
	 */
	int (*place)(struct ts_media *media, struct ts_batch *batch);

	/* Take what restore() needs of page i. Runs under the cluster's lock.
	 * NULL: the word says all.
	 */
	void (*copy)(struct ts_media *media, struct ts_reading *reading,
		     unsigned i);

	/* Make the pages in @mask, all of this kind, without any lock. Those
	 * that are damaged or cannot be read are added to @reading->bad.
	 */
	void (*restore)(struct ts_media *media, struct ts_reading *reading,
			uint64_t mask);

	/* Free what n words of this kind named, n <= TS_POOL_BULK. They are no
	 * longer published. NULL: nothing to free, or not ours to free.
	 */
	void (*drop)(struct ts_media *media, unsigned n, const ts_word *word);

	/* Copy an object to another of its size class, for moving it within
	 * the pool. Runs under the lock of the owner's cluster. NULL: the kind
	 * is not in the pool.
	 */
	void (*move)(struct ts_media *media, ts_word word, ts_obj to);

	enum ts_stat slots; /* the gauge that counts this kind */
};

/* The slot that an object of the pool says it belongs to. May be anything
 * when the object is not published; the word of that slot confirms it.
 */
uint64_t ts_ram_owner(struct ts_pool *pool, ts_obj obj);
uint64_t ts_raw_owner(struct ts_pool *pool, ts_obj obj);

/* The copy() and restore() of pages that are in the pool as they are. */
void ts_raw_copy(struct ts_media *media, struct ts_reading *reading,
		 unsigned i);
void ts_raw_restore(struct ts_media *media, struct ts_reading *reading,
		    uint64_t mask);

/* Copy a page into a page of the pool. Returns its check. */
uint32_t ts_raw_store(struct ts_pool *pool, ts_obj obj, const void *page,
		      uint64_t slot);

/* Place page i of a batch by bytes that were stored before, for the same slot:
 * nothing is compressed. The caller keeps the codec's dictionary alive. Does not
 * wait. Returns 0, -ENOBUFS or -ENOSPC.
 */
int ts_ram_put(struct ts_media *media, struct ts_batch *batch, unsigned i,
	       enum ts_codec_id codec, const void *data, unsigned len);
int ts_raw_put(struct ts_media *media, struct ts_batch *batch, unsigned i,
	       const void *page);

/* The drop() of compressed and of raw pages. */
void ts_ram_drop(struct ts_media *media, unsigned n, const ts_word *word);

/* The size of the object that a ram word names. */
unsigned ts_ram_object_bytes(ts_word word);

/* The stored bytes of a ram or raw word, ts_word_len() of them. Under the
 * lock of its cluster.
 */
const void *ts_ram_data(struct ts_pool *pool, ts_word word);

extern const struct ts_backend ts_backend_none, ts_backend_zero,
	ts_backend_fill, ts_backend_staged, ts_backend_ram, ts_backend_raw,
	ts_backend_spill;

/* In the order in which they are offered pages; ends with NULL. */
extern const struct ts_backend *const ts_backends[];

/* The backend of a kind; NULL for a kind that there is none of. */
extern const struct ts_backend *const ts_backend_of[TS_KINDS];

/* ts_pool_alloc(), waiting for the keeper while it has yet to touch memory.
 * Returns 0 or -ENOSPC.
 */
int ts_media_alloc(struct ts_media *media, unsigned n, const uint16_t *bytes,
		   ts_obj *ret_obj);

/* Drop words of any kinds that are no longer published; any number. */
void ts_media_drop(struct ts_media *media, unsigned n, const ts_word *word);

#endif
