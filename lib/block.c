/* SPDX-License-Identifier: BSD-3-Clause */
/* block.c - the blocks of 64 KiB that all page memory is cut from
 *
 * A block is in one of four states:
 *
 *	fresh --touch--> touched --take--> taken
 *	                 ^   ^  `--punch--> cold   |
 *	                 |   `---------give--------'
 *	                 `---touch-- cold
 *
 * Fresh and cold blocks use no memory. Touched ones are a stack, so the block
 * given back last, still in the processor's cache, is taken first. Touching
 * and punching are system calls and happen outside the lock on blocks that
 * are in no list meanwhile; they count as taken.
 */
#include "block.h"
#include "fault.h"
#include "parallel.h"
#include "shm.h"
#include "util/atomic.h"
#include "util/lock.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#define GAP_BLOCKS 256u
#define MAP_BLOCKS 64u

_Static_assert(sizeof(struct ts_block) <= 168, "0.25 % of a block");

int ts_blocks_init(struct ts_blocks *blocks, void *base, uint32_t n,
		   uint32_t reserve)
{
	*blocks = (struct ts_blocks){
		.base = base,
		.n = n,
		.budget = n,
		.reserve = reserve < n ? reserve : n,
		.touched_head = TS_BLOCK_NONE,
		.cold_head = TS_BLOCK_NONE,
	};
	/* Sparse on purpose: a block's metadata is touched with the block. */
	blocks->meta = calloc(n, sizeof(*blocks->meta));
	if (!blocks->meta)
		return -ENOMEM;
	ts_mutex_init(&blocks->lock);
	ts_cond_init(&blocks->wake_keeper);
	ts_cond_init(&blocks->refilled);
	return 0;
}

int ts_blocks_set_budget(struct ts_blocks *blocks, uint64_t n)
{
	if (n > blocks->n)
		return -ERANGE;
	ts_lock(&blocks->lock);
	ts_store_relaxed(&blocks->budget, (uint32_t)n);
	/* Who waits for room may find some, or none. */
	pthread_cond_broadcast(&blocks->refilled);
	ts_unlock(&blocks->lock);
	return 0;
}

void ts_blocks_fini(struct ts_blocks *blocks)
{
	if (!blocks->meta)
		return;
	free(blocks->meta);
	pthread_mutex_destroy(&blocks->lock);
	pthread_cond_destroy(&blocks->wake_keeper);
	pthread_cond_destroy(&blocks->refilled);
	blocks->meta = NULL;
}

/* Early, while there still is memory without waiting for it. */
static uint32_t refill_mark(const struct ts_blocks *blocks)
{
	return blocks->reserve - (blocks->reserve + 3) / 4;
}

/* Blocks that could still be touched. */
static uint32_t untouched(const struct ts_blocks *blocks)
{
	uint32_t resident = blocks->n_taken + blocks->n_touched;

	return resident < blocks->budget ? blocks->budget - resident : 0;
}

/* Is there nothing to wait for? */
static bool used_up(const struct ts_blocks *blocks)
{
	return !untouched(blocks) && !blocks->n_coming;
}

/* Atomic for those who look at it without the lock. */
static void count_taken(struct ts_blocks *blocks, int by)
{
	ts_store_relaxed(&blocks->n_taken, blocks->n_taken + (uint32_t)by);
}

static uint32_t pop(struct ts_blocks *blocks, uint32_t *head)
{
	uint32_t block = *head;

	*head = blocks->meta[block].next;
	return block;
}

static void push(struct ts_blocks *blocks, uint32_t *head, uint32_t block)
{
	blocks->meta[block].next = *head;
	*head = block;
}

int ts_block_take(struct ts_blocks *blocks, uint32_t *ret_block)
{
	int err = 0;

	ts_lock(&blocks->lock);
	if (blocks->n_touched) {
		blocks->n_touched--;
		count_taken(blocks, 1);
		*ret_block = pop(blocks, &blocks->touched_head);
		TS_FAULT_POINT("block: taken");
	} else {
		err = used_up(blocks) ? -ENOSPC : -ENOBUFS;
	}
	if (blocks->n_touched == refill_mark(blocks))
		pthread_cond_signal(&blocks->wake_keeper);
	ts_unlock(&blocks->lock);
	return err;
}

static void put_touched(struct ts_blocks *blocks, uint32_t block)
{
	push(blocks, &blocks->touched_head, block);
	blocks->n_touched++;
	count_taken(blocks, -1);
	pthread_cond_broadcast(&blocks->refilled);
}

void ts_block_give(struct ts_blocks *blocks, uint32_t block)
{
	ts_lock(&blocks->lock);
	put_touched(blocks, block);
	TS_FAULT_POINT("block: given back");
	ts_unlock(&blocks->lock);
}

int ts_blocks_wait(struct ts_blocks *blocks)
{
	uint64_t deadline = ts_now_ns() + TS_BLOCKS_WAIT_NS;
	int err = 0;

	ts_lock(&blocks->lock);
	while (!blocks->n_touched && !err) {
		pthread_cond_signal(&blocks->wake_keeper);
		if (used_up(blocks) ||
		    ts_cond_wait_until(&blocks->refilled, &blocks->lock,
				       deadline))
			err = -ENOSPC;
	}
	ts_unlock(&blocks->lock);
	return err;
}

/* While recovery looks, a block's @next is its class + 1. */
bool ts_block_adopt(struct ts_blocks *blocks, uint32_t block,
		    unsigned size_class)
{
	uint32_t *found = &blocks->meta[block].next, none = 0;
	uint32_t end = ts_load_relaxed(&blocks->adopted_end);

	while (end <= block &&
	       !__atomic_compare_exchange_n(&blocks->adopted_end, &end,
					    block + 1, false, __ATOMIC_RELAXED,
					    __ATOMIC_RELAXED))
		;
	return __atomic_compare_exchange_n(found, &none, size_class + 1, false,
					   __ATOMIC_RELAXED,
					   __ATOMIC_RELAXED) ||
	       none == size_class + 1;
}

/* How many of the @n blocks from @block on are in memory altogether; bit i of
 * @ret_whole: block i is, of @ret_some: some page of it is.
 */
static void look_up_memory(struct ts_blocks *blocks, uint32_t block,
			   unsigned n, uint64_t *ret_whole, uint64_t *ret_some)
{
	unsigned char in_core[64 * TS_BLOCK_PAGES];

	*ret_whole = *ret_some = 0;
	if (mincore(ts_block_addr(blocks, block), (size_t)n << TS_BLOCK_SHIFT,
		    in_core))
		return;
	for (unsigned i = 0; i < n; i++) {
		unsigned pages = 0;

		for (unsigned k = 0; k < TS_BLOCK_PAGES; k++)
			pages += in_core[i * TS_BLOCK_PAGES + k] & 1;
		*ret_whole |= (uint64_t)(pages == TS_BLOCK_PAGES) << i;
		*ret_some |= (uint64_t)(pages > 0) << i;
	}
}

/* Behind the last block that may be in memory. Blocks are used in ascending
 * order, so that it ends where there is a large gap; what lies beyond, if
 * anything, is given back.
 */
static uint32_t end_of_memory(struct ts_blocks *blocks, uint32_t from)
{
	uint32_t end = from;
	uint64_t whole, some;

	for (uint32_t b = from; b < blocks->n && b < end + GAP_BLOCKS; b += 64) {
		unsigned n = blocks->n - b < 64 ? blocks->n - b : 64;

		look_up_memory(blocks, b, n, &whole, &some);
		if (some)
			end = b + 64 - (uint32_t)__builtin_clzll(some);
	}
	return end;
}

/* Punch and forget the free blocks [from, to). */
static void let_go(struct ts_blocks *blocks, uint32_t from, uint32_t to)
{
	if (from == to)
		return;
	ts_shm_punch(ts_block_addr(blocks, from),
		     (size_t)(to - from) << TS_BLOCK_SHIFT);
	TS_FAULT_POINT("recovery: free blocks given back");
	while (to > from)
		push(blocks, &blocks->cold_head, --to);
}

/* Sort the free blocks among n from @first on. */
static void sort_free(struct ts_blocks *blocks, uint32_t first, unsigned n,
		      uint32_t *keep)
{
	uint32_t from = first, n_used = 0;
	uint64_t whole = 0, some;

	for (uint32_t b = first; b < first + n; b++)
		n_used += blocks->meta[b].used > 0;
	if (n_used < n && *keep)
		look_up_memory(blocks, first, n, &whole, &some);
	for (uint32_t b = first; b < first + n; b++) {
		bool used = blocks->meta[b].used;

		if (!used && !(*keep && whole >> (b - first) & 1))
			continue;
		let_go(blocks, from, b);
		from = b + 1;
		if (used) {
			count_taken(blocks, 1);
			continue;
		}
		memset(&blocks->meta[b], 0, sizeof(*blocks->meta));
		push(blocks, &blocks->touched_head, b);
		blocks->n_touched++;
		--*keep;
	}
	let_go(blocks, from, first + n);
}

void ts_blocks_adopted(struct ts_blocks *blocks)
{
	uint32_t end = end_of_memory(blocks, blocks->adopted_end);
	uint32_t used = 0, keep = 2 * blocks->reserve;

	for (uint32_t b = 0; b < blocks->adopted_end; b++)
		used += blocks->meta[b].used > 0;
	if (used + (uint64_t)keep > blocks->budget)
		keep = blocks->budget > used ? blocks->budget - used : 0;
	for (uint32_t b = 0; b < end; b += 64)
		sort_free(blocks, b, end - b < 64 ? end - b : 64, &keep);
	blocks->fresh = end;
	if (end < blocks->n)
		ts_shm_punch(ts_block_addr(blocks, end),
			     (size_t)(blocks->n - end) << TS_BLOCK_SHIFT);
	TS_FAULT_POINT("recovery: blocks sorted");
}

/* The blocks that several threads map, some at a time. */
struct mapping {
	struct ts_blocks *blocks;
	uint32_t next;
};

static void map_run(struct ts_blocks *blocks, uint32_t from, uint32_t to)
{
	if (from < to)
		ts_shm_touch(ts_block_addr(blocks, from),
			     (size_t)(to - from) << TS_BLOCK_SHIFT);
}

static void map_some(void *arg)
{
	struct mapping *mapping = arg;
	struct ts_blocks *blocks = mapping->blocks;
	uint32_t b;

	while ((b = ts_add_relaxed(&mapping->next, MAP_BLOCKS)) <
	       blocks->adopted_end) {
		uint32_t end = b + MAP_BLOCKS, from = b;

		if (end > blocks->adopted_end)
			end = blocks->adopted_end;
		for (; b < end; b++) {
			if (blocks->meta[b].used)
				continue;
			map_run(blocks, from, b);
			from = b + 1;
		}
		map_run(blocks, from, end);
	}
}

void ts_blocks_map(struct ts_blocks *blocks)
{
	struct mapping mapping = { .blocks = blocks };

	ts_in_parallel(blocks->adopted_end / MAP_BLOCKS + 1, map_some,
		       &mapping);
	for (uint32_t b = blocks->touched_head; b != TS_BLOCK_NONE;
	     b = blocks->meta[b].next)
		map_run(blocks, b, b + 1);
}

bool ts_blocks_wants_refill(const struct ts_blocks *blocks)
{
	return blocks->n_touched <= refill_mark(blocks) && untouched(blocks);
}

/* Reserve a block to be touched, outside the lock. */
static bool begin_touch(struct ts_blocks *blocks, uint32_t *ret_block)
{
	bool found = false;

	ts_lock(&blocks->lock);
	if (blocks->n_touched < blocks->reserve && untouched(blocks)) {
		if (blocks->cold_head != TS_BLOCK_NONE)
			*ret_block = pop(blocks, &blocks->cold_head);
		else
			*ret_block = blocks->fresh++;
		count_taken(blocks, 1);
		blocks->n_coming++;
		found = true;
	}
	ts_unlock(&blocks->lock);
	return found;
}

unsigned ts_blocks_refill(struct ts_blocks *blocks, unsigned max)
{
	unsigned done = 0;
	uint32_t block;

	while (done < max && begin_touch(blocks, &block)) {
		int err = ts_shm_touch(ts_block_addr(blocks, block),
				       TS_BLOCK_BYTES);

		TS_FAULT_POINT("block: touched");
		memset(&blocks->meta[block], 0, sizeof(*blocks->meta));
		ts_lock(&blocks->lock);
		blocks->n_coming--;
		if (err) {
			push(blocks, &blocks->cold_head, block);
			count_taken(blocks, -1);
		} else {
			put_touched(blocks, block);
		}
		ts_unlock(&blocks->lock);
		if (err)
			break;
		done++;
	}
	return done;
}

unsigned ts_blocks_shrink(struct ts_blocks *blocks, uint32_t keep,
			  unsigned max)
{
	unsigned done;

	for (done = 0; done < max; done++) {
		uint32_t block = TS_BLOCK_NONE;
		int err;

		ts_lock(&blocks->lock);
		if (blocks->n_touched > keep) {
			block = pop(blocks, &blocks->touched_head);
			blocks->n_touched--;
			count_taken(blocks, 1);
		}
		ts_unlock(&blocks->lock);
		if (block == TS_BLOCK_NONE)
			break;

		err = ts_shm_punch(ts_block_addr(blocks, block),
				   TS_BLOCK_BYTES);
		TS_FAULT_POINT("block: emptied");
		ts_lock(&blocks->lock);
		if (err) {
			put_touched(blocks, block);
		} else {
			push(blocks, &blocks->cold_head, block);
			count_taken(blocks, -1);
		}
		ts_unlock(&blocks->lock);
		if (err)
			break;
	}
	return done;
}

uint32_t ts_blocks_free_touched(struct ts_blocks *blocks)
{
	uint32_t n;

	ts_lock(&blocks->lock);
	n = blocks->n_touched;
	ts_unlock(&blocks->lock);
	return n;
}

uint32_t ts_blocks_room(struct ts_blocks *blocks)
{
	uint32_t room;

	ts_lock(&blocks->lock);
	room = blocks->budget > blocks->n_taken ?
		       blocks->budget - blocks->n_taken :
		       0;
	ts_unlock(&blocks->lock);
	return room;
}

uint64_t ts_blocks_resident_bytes(struct ts_blocks *blocks)
{
	uint64_t n;

	ts_lock(&blocks->lock);
	n = (uint64_t)blocks->n_taken + blocks->n_touched;
	ts_unlock(&blocks->lock);
	return n << TS_BLOCK_SHIFT;
}

static bool list_has(struct ts_blocks *blocks, uint32_t head, uint64_t n)
{
	while (head != TS_BLOCK_NONE && n) {
		if (head >= blocks->fresh)
			return false;
		head = blocks->meta[head].next;
		n--;
	}
	return head == TS_BLOCK_NONE && !n;
}

const char *ts_blocks_check(struct ts_blocks *blocks)
{
	const char *wrong = NULL;

	ts_lock(&blocks->lock);
	if (blocks->fresh > blocks->n)
		wrong = "more blocks in use than there are";
	else if (!list_has(blocks, blocks->touched_head, blocks->n_touched))
		wrong = "touched blocks: list and count disagree";
	else if (!list_has(blocks, blocks->cold_head,
			   (uint64_t)blocks->fresh - blocks->n_taken -
				   blocks->n_touched))
		wrong = "cold blocks: list and count disagree";
	ts_unlock(&blocks->lock);
	return wrong;
}

uint32_t ts_blocks_headroom(const struct ts_blocks *blocks)
{
	uint32_t taken = ts_load_relaxed(&blocks->n_taken);
	uint32_t budget = ts_load_relaxed(&blocks->budget);

	return budget > taken ? budget - taken : 0;
}
