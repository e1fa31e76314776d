/* SPDX-License-Identifier: BSD-3-Clause */
/* pool.h - size-class memory for compressed objects, and pages
 *
 * Offset   Objects are named by their offset in the segment, in grains of 16
 *          bytes, so that another process can map the same pool.
 * Sizes    1..TS_OBJ_MAX_BYTES, rounded up to a class that cuts a block with
 *          little waste. Pages of 4096 bytes, aligned, are a class of their
 *          own: for words, and for page contents that do not compress. New
 *          memory holds whatever it held.
 * Reserve  Allocation takes only blocks that the keeper has touched (block.h)
 *          and so never faults; it fails with -ENOBUFS when there are none.
 * Locks    One lock a class, then the block list's. Callers may hold a
 *          cluster lock; never the other way round.
 * Moving   ts_pool_isolate() hands out a sparse block to be emptied. Owners
 *          of objects are the caller's to keep (an object's header, or
 *          ts_pool_page_note()); the pool knows only which are in use.
 */
#ifndef TS_POOL_H
#define TS_POOL_H

#include "block.h"
#include "word.h"

/* Seventeen objects to a block; a page that needs more is kept raw. */
#define TS_OBJ_MAX_BYTES 3840u
#define TS_OBJ_MIN_BYTES 128u

#define TS_CLASS_PAGE 0u
#define TS_POOL_CLASSES 105u
#define TS_BUCKETS 4u

struct ts_class {
	_Alignas(64) pthread_mutex_t lock;
	uint16_t obj_bytes;
	uint16_t per_block;
	uint32_t reciprocal; /* index = offset * reciprocal >> 32 */
	/* Under the lock: blocks that are neither full nor empty, by how full
	 * they are; the last bucket is the fullest.
	 */
	uint32_t bucket[TS_BUCKETS];
	uint64_t n_blocks;
	uint64_t n_used; /* objects */
};

struct ts_pool {
	struct ts_blocks *blocks;
	struct ts_class classes[TS_POOL_CLASSES];
	/* Class of an object by its size in grains, rounded up. */
	uint8_t class_of[TS_OBJ_MAX_BYTES / TS_GRAIN_BYTES + 1];
};

void ts_pool_init(struct ts_pool *pool, struct ts_blocks *blocks);
void ts_pool_fini(struct ts_pool *pool);

/* The class that serves a size: 1..TS_OBJ_MAX_BYTES, or 4096. */
unsigned ts_pool_class(const struct ts_pool *pool, unsigned bytes);

static inline void *ts_pool_addr(const struct ts_pool *pool, ts_obj obj)
{
	return pool->blocks->base + (obj.grains << TS_GRAIN_SHIFT);
}

/* Allocate objects for n pages in one go, n up to TS_POOL_BULK.
 *
 * @bytes[i]    size of object i: 1..TS_OBJ_MAX_BYTES, or 4096 for a page
 * @ret_obj[i]  the object; all n are set, or the call failed and none is held
 * Returns 0, -ENOBUFS or -ENOSPC as ts_block_take() does.
 */
#define TS_POOL_BULK 512u
int ts_pool_alloc(struct ts_pool *pool, unsigned n, const uint16_t *bytes,
		  ts_obj *ret_obj);

/* Free n objects or pages, n up to TS_POOL_BULK, of any classes. */
void ts_pool_free(struct ts_pool *pool, unsigned n, const ts_obj *obj);

/* Number of a page among all the pages of the segment, and back. */
static inline uint32_t ts_pool_page_index(ts_obj page)
{
	return (uint32_t)(page.grains >> (12 - TS_GRAIN_SHIFT));
}

static inline ts_obj ts_pool_page(uint32_t index)
{
	return (ts_obj){ (uint64_t)index << (12 - TS_GRAIN_SHIFT) };
}

/* Where the user of a page keeps a note on it: the owner slot of a raw page,
 * the cluster of a word page and how many of its slots live. Atomic, because
 * compaction looks at it without a lock; see compact.c.
 */
uint64_t *ts_pool_page_note(struct ts_pool *pool, ts_obj page);

/* How much room a class may keep before compaction looks at it. */
enum ts_slack {
	TS_SLACK_SOME, /* a block and a 32nd: moving does not start at once */
	TS_SLACK_NONE, /* memory is needed: whatever makes a block */
};

/* Take the emptiest block of a class out of circulation if the class has
 * more free objects than it may keep, so that its objects can be moved.
 *
 * @ret_obj[]  the objects that are in use now, up to TS_BLOCK_MAX_OBJECTS;
 *             any of them may be freed by its owner at any time
 * Returns their number, or 0 when there is nothing to gain.
 */
unsigned ts_pool_isolate(struct ts_pool *pool, unsigned size_class,
			 enum ts_slack slack, uint32_t *ret_block,
			 ts_obj *ret_obj);

/* Put what is left of an isolated block back into circulation. Returns whether
 * it was empty, and so was given back.
 */
bool ts_pool_unisolate(struct ts_pool *pool, uint32_t block);

/* For recovery, before anything else uses the pool, and by several threads at a
 * time: note that an object of @bytes is in use. Returns false when it cannot be one: out of range, between
 * objects, in use twice, or in a block of another class.
 */
bool ts_pool_adopt(struct ts_pool *pool, ts_obj obj, unsigned bytes);

/* All objects have been noted: put the blocks into circulation. */
void ts_pool_adopted(struct ts_pool *pool);

/* How many blocks compaction could free in a class. */
unsigned ts_pool_surplus(struct ts_pool *pool, unsigned size_class);

/* Walk every class and its blocks. Returns NULL or what is wrong. */
const char *ts_pool_check(struct ts_pool *pool);

#endif
