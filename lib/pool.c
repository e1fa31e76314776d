/* SPDX-License-Identifier: BSD-3-Clause */
/* pool.c - size-class memory for compressed objects, and pages
 *
 * Classes follow zsmalloc's idea that sizes which cut a block into the same
 * number of objects belong together. Sizes are multiples of a grain; where a
 * block of 64 KiB holds n objects of up to floor(64 KiB / n), the class is
 * that. Below 1 KiB the grain decides, above it the number, and a stored page
 * of usual size wastes about 1.5 % (measured: see thinswap-design(7)).
 *
 * A block knows its objects by one bit each; nothing is written into free
 * objects, so freeing does not pull their cold lines into the cache, and a
 * double free is caught. Invariants, under the class lock:
 *
 *  1. used == number of bits set in the map
 *  2. 0 < used < per_block and not isolated <=> the block is in bucket
 *     used * TS_BUCKETS / per_block of its class
 *  3. a block whose last object goes is given back to the block list at
 *     once, or when it ceases to be isolated
 */
#include "pool.h"
#include "fault.h"
#include "util/atomic.h"
#include "util/lock.h"

#include <errno.h>
#include <string.h>

#define CHAIN_END UINT16_MAX

_Static_assert(TS_BLOCK_BYTES / TS_OBJ_MIN_BYTES <= TS_BLOCK_MAX_OBJECTS,
	       "a block's map holds its smallest objects");

static void init_class(struct ts_class *c, unsigned obj_bytes)
{
	c->obj_bytes = (uint16_t)obj_bytes;
	c->per_block = (uint16_t)(TS_BLOCK_BYTES / obj_bytes);
	/* Rounded up: exact for offsets below 64 KiB and any class size. */
	c->reciprocal = (uint32_t)((1ull << 32) / obj_bytes + 1);
	ts_mutex_init(&c->lock);
	for (unsigned i = 0; i < TS_BUCKETS; i++)
		c->bucket[i] = TS_BLOCK_NONE;
}

void ts_pool_init(struct ts_pool *pool, struct ts_blocks *blocks)
{
	unsigned n_classes = 1, grains = 0;

	*pool = (struct ts_pool){ .blocks = blocks };
	init_class(&pool->classes[TS_CLASS_PAGE], 4096);

	for (unsigned bytes = TS_OBJ_MIN_BYTES; bytes <= TS_OBJ_MAX_BYTES;
	     bytes += TS_GRAIN_BYTES) {
		unsigned per_block = TS_BLOCK_BYTES / bytes;

		/* A larger size that still cuts as many takes this one in. */
		if (TS_BLOCK_BYTES / (bytes + TS_GRAIN_BYTES) == per_block)
			continue;
		assert(n_classes < TS_POOL_CLASSES);
		init_class(&pool->classes[n_classes], bytes);
		while (grains * TS_GRAIN_BYTES <= bytes)
			pool->class_of[grains++] = (uint8_t)n_classes;
		n_classes++;
	}
	assert(n_classes == TS_POOL_CLASSES);
	assert(grains == TS_OBJ_MAX_BYTES / TS_GRAIN_BYTES + 1);
}

void ts_pool_fini(struct ts_pool *pool)
{
	if (!pool->blocks)
		return;
	for (unsigned i = 0; i < TS_POOL_CLASSES; i++)
		pthread_mutex_destroy(&pool->classes[i].lock);
	pool->blocks = NULL;
}

unsigned ts_pool_class(const struct ts_pool *pool, unsigned bytes)
{
	if (bytes == 4096)
		return TS_CLASS_PAGE;
	assert(bytes >= 1 && bytes <= TS_OBJ_MAX_BYTES);
	return pool->class_of[(bytes + TS_GRAIN_BYTES - 1) / TS_GRAIN_BYTES];
}

static struct ts_block *meta_of(struct ts_pool *pool, uint32_t block)
{
	return &pool->blocks->meta[block];
}

static uint32_t block_of(ts_obj obj)
{
	return (uint32_t)(obj.grains >> (TS_BLOCK_SHIFT - TS_GRAIN_SHIFT));
}

static unsigned index_of(const struct ts_class *c, ts_obj obj)
{
	uint64_t off = obj.grains << TS_GRAIN_SHIFT & (TS_BLOCK_BYTES - 1);

	return (unsigned)(off * c->reciprocal >> 32);
}

static ts_obj obj_at(const struct ts_class *c, uint32_t block, unsigned index)
{
	return (ts_obj){ ((uint64_t)block << TS_BLOCK_SHIFT |
			  index * c->obj_bytes) >>
			 TS_GRAIN_SHIFT };
}

static bool in_bucket(const struct ts_class *c, const struct ts_block *m)
{
	return m->used > 0 && m->used < c->per_block && !m->isolated;
}

static void link_block(struct ts_pool *pool, struct ts_class *c,
		       uint32_t block)
{
	struct ts_block *m = meta_of(pool, block);
	uint32_t *head;

	m->bucket = (uint8_t)(m->used * TS_BUCKETS / c->per_block);
	head = &c->bucket[m->bucket];
	m->prev = TS_BLOCK_NONE;
	m->next = *head;
	if (*head != TS_BLOCK_NONE)
		meta_of(pool, *head)->prev = block;
	*head = block;
}

static void unlink_block(struct ts_pool *pool, struct ts_class *c,
			 uint32_t block)
{
	struct ts_block *m = meta_of(pool, block);

	if (m->prev != TS_BLOCK_NONE)
		meta_of(pool, m->prev)->next = m->next;
	else
		c->bucket[m->bucket] = m->next;
	if (m->next != TS_BLOCK_NONE)
		meta_of(pool, m->next)->prev = m->prev;
}

static void give_block(struct ts_pool *pool, struct ts_class *c,
		       uint32_t block)
{
	c->n_blocks--;
	ts_block_give(pool->blocks, block);
}

/* Count objects of a block in or out and keep invariants 2 and 3. */
static void change_used(struct ts_pool *pool, struct ts_class *c,
			uint32_t block, int by)
{
	struct ts_block *m = meta_of(pool, block);
	bool was_in = in_bucket(c, m);
	unsigned used = (unsigned)(m->used + by);

	if (was_in && used > 0 && used < c->per_block &&
	    used * TS_BUCKETS / c->per_block == m->bucket) {
		m->used = (uint16_t)used;
		return;
	}
	if (was_in)
		unlink_block(pool, c, block);
	m->used = (uint16_t)used;
	if (in_bucket(c, m))
		link_block(pool, c, block);
	if (!used && !m->isolated)
		give_block(pool, c, block);
}

/* A block with room, the fullest first; a new one where there is none. */
static int find_room(struct ts_pool *pool, struct ts_class *c,
		     uint32_t *ret_block)
{
	struct ts_block *m;
	int err;

	for (unsigned i = TS_BUCKETS; i-- > 0;) {
		if (c->bucket[i] != TS_BLOCK_NONE) {
			*ret_block = c->bucket[i];
			return 0;
		}
	}
	err = ts_block_take(pool->blocks, ret_block);
	if (err)
		return err;
	m = meta_of(pool, *ret_block);
	memset(m, 0, sizeof(*m));
	m->size_class = (uint16_t)(c - pool->classes);
	c->n_blocks++;
	return 0;
}

/* Take up to @want objects out of one block. Returns how many. */
static unsigned take_from(struct ts_pool *pool, struct ts_class *c,
			  uint32_t block, unsigned want, ts_obj *ret_obj)
{
	struct ts_block *m = meta_of(pool, block);
	unsigned got = 0, n_maps = (c->per_block + 63u) / 64u;

	for (unsigned i = 0; i < n_maps && got < want; i++) {
		unsigned here = c->per_block - i * 64u;
		uint64_t all = here < 64 ? (1ull << here) - 1 : ~0ull;
		uint64_t room = ~m->map[i] & all;

		while (room && got < want) {
			unsigned bit = (unsigned)__builtin_ctzll(room);

			room &= room - 1;
			m->map[i] |= 1ull << bit;
			ret_obj[got++] = obj_at(c, block, i * 64u + bit);
		}
	}
	TS_FAULT_POINT("pool: objects marked");
	change_used(pool, c, block, (int)got);
	c->n_used += got;
	return got;
}

/* Allocate n objects of one class, or as many as there is room for. */
static int alloc_class(struct ts_pool *pool, struct ts_class *c, unsigned n,
		       ts_obj *ret_obj, unsigned *ret_got)
{
	unsigned got = 0;
	uint32_t block;
	int err = 0;

	ts_lock(&c->lock);
	while (got < n) {
		err = find_room(pool, c, &block);
		if (err)
			break;
		got += take_from(pool, c, block, n - got, ret_obj + got);
	}
	ts_unlock(&c->lock);
	*ret_got = got;
	return err;
}

/* Objects of a bulk call chained by class, so that a class is locked once.
 * Classes are met in the order of the objects: most calls have a few objects,
 * and looking at all classes would cost more than all the rest.
 */
struct chains {
	uint16_t head[TS_POOL_CLASSES];
	uint16_t next[TS_POOL_BULK];
	uint8_t size_class[TS_POOL_BULK];
};

_Static_assert(TS_POOL_CLASSES <= UINT8_MAX, "a class fits in a byte");

static void chain_init(struct chains *chains)
{
	memset(chains->head, 0xff, sizeof(chains->head));
}

static void chain_add(struct chains *chains, unsigned size_class, unsigned i)
{
	chains->next[i] = chains->head[size_class];
	chains->head[size_class] = (uint16_t)i;
	chains->size_class[i] = (uint8_t)size_class;
}

/* Take the chain of object i's class: its first, and CHAIN_END from then on. */
static unsigned chain_take(struct chains *chains, unsigned i)
{
	unsigned head = chains->head[chains->size_class[i]];

	chains->head[chains->size_class[i]] = CHAIN_END;
	return head;
}

int ts_pool_alloc(struct ts_pool *pool, unsigned n, const uint16_t *bytes,
		  ts_obj *ret_obj)
{
	struct chains chains;
	ts_obj held[TS_POOL_BULK];
	unsigned n_held = 0;

	assert(n <= TS_POOL_BULK);
	chain_init(&chains);
	for (unsigned i = n; i-- > 0;)
		chain_add(&chains, ts_pool_class(pool, bytes[i]), i);

	for (unsigned first = 0; first < n; first++) {
		unsigned head = chain_take(&chains, first), want = 0, got;
		int err;

		for (unsigned i = head; i != CHAIN_END; i = chains.next[i])
			want++;
		if (!want)
			continue;
		err = alloc_class(pool,
				  &pool->classes[chains.size_class[first]],
				  want, held + n_held, &got);
		if (err) {
			ts_pool_free(pool, n_held + got, held);
			return err;
		}
		for (unsigned i = head; i != CHAIN_END; i = chains.next[i])
			ret_obj[i] = held[n_held++];
	}
	return 0;
}

static void free_locked(struct ts_pool *pool, struct ts_class *c, ts_obj obj)
{
	uint32_t block = block_of(obj);
	struct ts_block *m = meta_of(pool, block);
	unsigned index = index_of(c, obj);
	uint64_t bit = 1ull << (index & 63);

	assert(m->map[index / 64] & bit);
	m->map[index / 64] &= ~bit;
	TS_FAULT_POINT("pool: object freed");
	c->n_used--;
	change_used(pool, c, block, -1);
}

void ts_pool_free(struct ts_pool *pool, unsigned n, const ts_obj *obj)
{
	struct chains chains;

	assert(n <= TS_POOL_BULK);
	chain_init(&chains);
	/* A block's class cannot change while it holds one of our objects. */
	for (unsigned i = n; i-- > 0;)
		chain_add(&chains, meta_of(pool, block_of(obj[i]))->size_class,
			  i);
	for (unsigned first = 0; first < n; first++) {
		struct ts_class *c = &pool->classes[chains.size_class[first]];
		unsigned head = chain_take(&chains, first);

		if (head == CHAIN_END)
			continue;
		ts_lock(&c->lock);
		for (unsigned i = head; i != CHAIN_END; i = chains.next[i])
			free_locked(pool, c, obj[i]);
		ts_unlock(&c->lock);
	}
}

uint64_t *ts_pool_page_note(struct ts_pool *pool, ts_obj page)
{
	unsigned in_block = ts_pool_page_index(page) % TS_BLOCK_PAGES;

	return &meta_of(pool, block_of(page))->page.note[in_block];
}

/* Blocks that the class's free objects would fill. */
static unsigned surplus_locked(const struct ts_class *c, enum ts_slack slack)
{
	uint64_t room = c->n_blocks * c->per_block - c->n_used;
	uint64_t keep = slack == TS_SLACK_SOME ?
				c->per_block + c->n_used / 32 :
				0;

	return room > keep ? (unsigned)((room - keep) / c->per_block) : 0;
}

unsigned ts_pool_surplus(struct ts_pool *pool, unsigned size_class)
{
	struct ts_class *c = &pool->classes[size_class];
	unsigned surplus;

	ts_lock(&c->lock);
	surplus = surplus_locked(c, TS_SLACK_NONE);
	ts_unlock(&c->lock);
	return surplus;
}

static uint32_t emptiest_block(const struct ts_class *c)
{
	for (unsigned i = 0; i < TS_BUCKETS; i++)
		if (c->bucket[i] != TS_BLOCK_NONE)
			return c->bucket[i];
	return TS_BLOCK_NONE;
}

unsigned ts_pool_isolate(struct ts_pool *pool, unsigned size_class,
			 enum ts_slack slack, uint32_t *ret_block,
			 ts_obj *ret_obj)
{
	struct ts_class *c = &pool->classes[size_class];
	uint32_t block = TS_BLOCK_NONE;
	unsigned n = 0;

	ts_lock(&c->lock);
	if (surplus_locked(c, slack))
		block = emptiest_block(c);
	if (block != TS_BLOCK_NONE) {
		struct ts_block *m = meta_of(pool, block);

		unlink_block(pool, c, block);
		m->isolated = true;
		TS_FAULT_POINT("pool: block isolated");
		for (unsigned i = 0; i < c->per_block; i++)
			if (m->map[i / 64] >> (i & 63) & 1)
				ret_obj[n++] = obj_at(c, block, i);
		*ret_block = block;
	}
	ts_unlock(&c->lock);
	return n;
}

bool ts_pool_unisolate(struct ts_pool *pool, uint32_t block)
{
	struct ts_block *m = meta_of(pool, block);
	struct ts_class *c = &pool->classes[m->size_class];
	bool empty;

	ts_lock(&c->lock);
	m->isolated = false;
	TS_FAULT_POINT("pool: block back in circulation");
	empty = !m->used;
	if (empty)
		give_block(pool, c, block);
	else if (in_bucket(c, m))
		link_block(pool, c, block);
	ts_unlock(&c->lock);
	return empty;
}

bool ts_pool_adopt(struct ts_pool *pool, ts_obj obj, unsigned bytes)
{
	unsigned k = ts_pool_class(pool, bytes), index;
	const struct ts_class *c = &pool->classes[k];
	struct ts_block *m;
	uint64_t bit;

	if (obj.grains >= (uint64_t)pool->blocks->n
				  << (TS_BLOCK_SHIFT - TS_GRAIN_SHIFT))
		return false;
	m = meta_of(pool, block_of(obj));
	index = index_of(c, obj);
	bit = 1ull << (index & 63);
	if (obj_at(c, block_of(obj), index).grains != obj.grains ||
	    index >= c->per_block ||
	    !ts_block_adopt(pool->blocks, block_of(obj), k) ||
	    __atomic_fetch_or(&m->map[index / 64], bit, __ATOMIC_RELAXED) & bit)
		return false;
	ts_add_relaxed(&m->used, 1);
	return true;
}

void ts_pool_adopted(struct ts_pool *pool)
{
	for (uint32_t b = 0; b < pool->blocks->adopted_end; b++) {
		struct ts_block *m = meta_of(pool, b);
		struct ts_class *c;

		if (!m->used)
			continue;
		m->size_class = (uint16_t)ts_block_adopted_class(m);
		if (m->size_class >= TS_POOL_CLASSES)
			continue;
		c = &pool->classes[m->size_class];
		c->n_blocks++;
		c->n_used += m->used;
		if (in_bucket(c, m))
			link_block(pool, c, b);
	}
}

static const char *check_block(struct ts_pool *pool, struct ts_class *c,
			       uint32_t block, unsigned bucket)
{
	struct ts_block *m = meta_of(pool, block);
	unsigned bits = 0;

	for (unsigned i = 0; i < (c->per_block + 63u) / 64u; i++)
		bits += (unsigned)__builtin_popcountll(m->map[i]);
	if (bits != m->used)
		return "a block's map and its count disagree";
	if (!in_bucket(c, m))
		return "a full, empty or isolated block is in a bucket";
	if (m->bucket != bucket ||
	    m->used * TS_BUCKETS / c->per_block != bucket)
		return "a block is in the wrong bucket";
	if (&pool->classes[m->size_class] != c)
		return "a block is in the wrong class";
	return NULL;
}

static const char *check_class(struct ts_pool *pool, struct ts_class *c)
{
	uint64_t partial_blocks = 0, partial_used = 0;

	for (unsigned i = 0; i < TS_BUCKETS; i++) {
		for (uint32_t b = c->bucket[i]; b != TS_BLOCK_NONE;
		     b = meta_of(pool, b)->next) {
			const char *wrong = check_block(pool, c, b, i);

			if (wrong)
				return wrong;
			partial_blocks++;
			partial_used += meta_of(pool, b)->used;
		}
	}
	if (partial_blocks > c->n_blocks)
		return "a class has more partial blocks than blocks";
	if (partial_used + (c->n_blocks - partial_blocks) * c->per_block !=
	    c->n_used)
		return "a class's blocks and its objects disagree";
	return NULL;
}

const char *ts_pool_check(struct ts_pool *pool)
{
	const char *wrong = NULL;

	for (unsigned k = 0; k < TS_POOL_CLASSES && !wrong; k++) {
		struct ts_class *c = &pool->classes[k];

		ts_lock(&c->lock);
		wrong = check_class(pool, c);
		ts_unlock(&c->lock);
	}
	return wrong;
}
