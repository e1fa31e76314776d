/* SPDX-License-Identifier: BSD-3-Clause */
/* block.h - the blocks of 64 KiB that all page memory is cut from
 *
 * Budget   There are as many blocks as the budget allows. What lives in
 *          blocks (objects, words, directory leaves, the reserve) is thereby
 *          counted without counting.
 * Reserve  Taking a block never faults memory in: only blocks that the keeper
 *          has touched are handed out. ts_blocks_tend() keeps some ahead of
 *          demand and gives those far beyond it back to the system.
 * Locks    One, a leaf: nothing else is locked while it is held, and no
 *          system call is made under it.
 */
#ifndef TS_BLOCK_H
#define TS_BLOCK_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define TS_BLOCK_SHIFT 16
#define TS_BLOCK_BYTES (1u << TS_BLOCK_SHIFT)
#define TS_BLOCK_PAGES (TS_BLOCK_BYTES / 4096)
#define TS_BLOCK_NONE UINT32_MAX
#define TS_BLOCK_MAX_OBJECTS 512

/* What is known of a block, private to the process and rebuilt from the words
 * when need be. The owner of the block (a pool class, or the directory)
 * guards its fields; while the block is free, the block list does.
 */
struct ts_block {
	uint32_t prev, next; /* in a class bucket; next alone in a free list */
	uint16_t size_class;
	uint16_t used; /* objects in use */
	uint8_t bucket;
	bool isolated; /* being emptied: out of every bucket */
	union {
		uint64_t map[TS_BLOCK_MAX_OBJECTS / 64]; /* 1: in use */
		struct {
			uint64_t map0;
			uint64_t note[TS_BLOCK_PAGES];
		} page; /* a block of pages: a note on each */
	};
};

struct ts_blocks {
	uint8_t *base; /* block 0 */
	struct ts_block *meta;
	uint32_t n;       /* blocks that the segment holds */
	uint32_t budget;  /* blocks that may be touched at a time */
	uint32_t reserve; /* free blocks to keep touched */
	uint32_t adopted_end; /* behind the last one that recovery found */

	pthread_mutex_t lock;
	pthread_cond_t wake_keeper;
	pthread_cond_t refilled;
	/* All below under the lock. */
	uint32_t touched_head; /* free and touched */
	uint32_t cold_head;    /* free, given back before */
	uint32_t fresh;        /* blocks from here on were never used */
	uint32_t n_touched;    /* free and touched */
	uint32_t n_taken;      /* handed out, or on the way between states */
	uint32_t n_coming;     /* of these, being touched */
};

/* Metadata for n blocks at @base, all of which are the budget at first.
 * Returns 0 or -ENOMEM.
 */
int ts_blocks_init(struct ts_blocks *blocks, void *base, uint32_t n,
		   uint32_t reserve);

/* Change the budget, up to n blocks: returns 0 or -ERANGE. What is in use
 * beyond a lowered budget stays.
 */
int ts_blocks_set_budget(struct ts_blocks *blocks, uint64_t n);
void ts_blocks_fini(struct ts_blocks *blocks);

static inline void *ts_block_addr(const struct ts_blocks *blocks, uint32_t i)
{
	return blocks->base + ((size_t)i << TS_BLOCK_SHIFT);
}

/* Take a touched block; its contents are whatever they were.
 *
 * Returns 0, -ENOBUFS (the reserve is empty: wait with ts_blocks_wait(), then
 * try again) or -ENOSPC (the budget is used up).
 */
int ts_block_take(struct ts_blocks *blocks, uint32_t *ret_block);

/* Give an empty block back. */
void ts_block_give(struct ts_blocks *blocks, uint32_t block);

/* After -ENOBUFS: wait, at most TS_BLOCKS_WAIT_NS, until the keeper has filled
 * the reserve. That is long, for the kernel takes an error for a broken device
 * and memory comes back; and shorter than the kernel waits for a request. The
 * caller holds no lock that the keeper takes. Returns 0 (try again) or -ENOSPC
 * (the budget is used up, or the system has no memory).
 */
#define TS_BLOCKS_WAIT_NS 30000000000ull
int ts_blocks_wait(struct ts_blocks *blocks);

/* For recovery, by several threads at a time: something that lives in a block
 * has been found. Returns false if it is not what else lives there: a block
 * has one size class.
 */
bool ts_block_adopt(struct ts_blocks *blocks, uint32_t block,
		    unsigned size_class);

/* For recovery: the class that a block was found to have; -1: none. */
static inline int ts_block_adopted_class(const struct ts_block *m)
{
	return (int)m->next - 1;
}

/* For recovery: all has been found, and put in order. Blocks in which there is
 * something are taken. Of the others, those that are in memory stay there, up to
 * twice the reserve: to give them back and ask for new ones would be to wait for
 * memory. The rest goes back to the system.
 */
void ts_blocks_adopted(struct ts_blocks *blocks);

/* After that, before anything is used: map what is in memory, so that the
 * request path does not fault.
 */
void ts_blocks_map(struct ts_blocks *blocks);

/* For the keeper, under the lock: a quarter of the reserve is gone, and there
 * is memory to fill it with.
 */
bool ts_blocks_wants_refill(const struct ts_blocks *blocks);

/* For the keeper: touch blocks until the reserve is full, at most @max.
 * Returns how many it touched.
 */
unsigned ts_blocks_refill(struct ts_blocks *blocks, unsigned max);

/* For the keeper: give free blocks back to the system while more than @keep
 * are touched, at most @max. Returns how many it gave back.
 */
unsigned ts_blocks_shrink(struct ts_blocks *blocks, uint32_t keep,
			  unsigned max);

/* Free and touched blocks; a hint when called without the lock. */
uint32_t ts_blocks_free_touched(struct ts_blocks *blocks);

/* What the budget leaves beside the blocks handed out. */
uint32_t ts_blocks_room(struct ts_blocks *blocks);

/* Bytes of block memory that are resident. */
uint64_t ts_blocks_resident_bytes(struct ts_blocks *blocks);

/* Walk the lists. Returns NULL or what is wrong. */
const char *ts_blocks_check(struct ts_blocks *blocks);

/* Blocks that may yet be taken within the budget; a glance without a lock. */
uint32_t ts_blocks_headroom(const struct ts_blocks *blocks);

#endif
