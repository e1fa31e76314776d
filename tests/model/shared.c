// SPDX-License-Identifier: BSD-3-Clause
/* shared.c - threads that write, drop and read the same slots (cases 18, 19)
 *
 * Each page written tells its slot, its writer and the writer's generation
 * for that slot. A thread remembers the newest generation that it has seen of
 * each writer: going back would be a page from the past.
 */
#include "tests/model/run.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define MAX_RUN_SLOTS 80u

struct shared {
	struct run *run;
	unsigned n_slots;
};

struct view {
	struct shared *s;
	unsigned thread;
	struct rng rng;
	/* [slot * PAGE_STAMP_WRITERS + writer]; never seen is 0 */
	uint16_t *seen;
	uint16_t *given; /* [slot], this thread's last generation */
	uint8_t *buf;
};

/* Generations count round. */
static bool is_older(unsigned a, unsigned b)
{
	return (a - b) % PAGE_GENERATIONS > PAGE_GENERATIONS / 2;
}

static void judge(struct view *v, unsigned slot, const uint8_t *page)
{
	struct page_stamp stamp;
	uint16_t *seen;

	switch (page_read_stamp(page, &stamp)) {
	case PAGE_IS_ZERO:
		return;
	case PAGE_IS_WRONG:
		rig_die("slot %u holds no whole write", slot);
	default:
		break;
	}
	if (stamp.slot != slot)
		rig_die("slot %u holds a page of slot %u", slot, stamp.slot);
	seen = &v->seen[slot * PAGE_STAMP_WRITERS + stamp.writer];
	if (is_older(stamp.generation, *seen))
		rig_die("slot %u went back from generation %u to %u of %u",
			slot, *seen, stamp.generation, stamp.writer);
	*seen = (uint16_t)stamp.generation;
}

static void read_some(struct view *v, unsigned slot, unsigned n)
{
	int err = ts_store_read(v->s->run->store, v->buf, n * 4096ull,
				slot * 4096ull);

	if (err)
		rig_die("read: %s", strerror(-err));
	for (unsigned i = 0; i < n; i++)
		judge(v, slot + i, v->buf + i * 4096ull);
}

static void write_some(struct view *v, unsigned slot, unsigned n)
{
	int err;

	for (unsigned i = 0; i < n; i++) {
		uint16_t *given = &v->given[slot + i];
		struct page_stamp stamp = {
			.slot = slot + i,
			.writer = v->thread,
			.generation = (*given + 1u) % PAGE_GENERATIONS,
			.kind = (enum page_kind)rng_range(&v->rng, PAGE_NARROW,
							  PAGE_RANDOM),
		};

		*given = (uint16_t)stamp.generation;
		page_make_stamped(v->buf + i * 4096ull, &stamp);
	}
	err = ts_store_write(v->s->run->store, v->buf, n * 4096ull,
			     slot * 4096ull);
	if (err && err != -ENOSPC)
		rig_die("write: %s", strerror(-err));
	for (unsigned i = 0; i < n && !err; i++)
		v->seen[(slot + i) * PAGE_STAMP_WRITERS + v->thread] =
			v->given[slot + i];
	/* Refused, perhaps after some slots: make room for what follows. */
	if (err)
		ts_store_discard(v->s->run->store, v->s->n_slots / 4 * 4096ull,
				 rng_below(&v->rng, 4) * (v->s->n_slots / 4) *
					 4096ull);
}

static void one_op(struct view *v)
{
	struct ts_store *store = v->s->run->store;
	unsigned n = (unsigned)rng_range(&v->rng, 1, MAX_RUN_SLOTS);
	unsigned slot = (unsigned)rng_below(&v->rng, v->s->n_slots);

	/* Half of the work meets on few slots. */
	if (rng_below(&v->rng, 2))
		slot %= 97;
	if (n > v->s->n_slots - slot)
		n = v->s->n_slots - slot;
	switch (rng_below(&v->rng, 8)) {
	case 0 ... 2:
		write_some(v, slot, n);
		break;
	case 3 ... 5:
		read_some(v, slot, n);
		break;
	case 6:
		if (ts_store_discard(store, n * 4096ull, slot * 4096ull))
			rig_die("discard failed");
		break;
	default:
		if (ts_store_zero(store, n * 4096ull, slot * 4096ull))
			rig_die("zero failed");
	}
}

static void thread_main(void *opaque, unsigned thread)
{
	struct shared *s = opaque;
	struct view v = {
		.s = s,
		.thread = thread,
		.rng = run_rng(s->run, thread),
		.seen = calloc(s->n_slots * PAGE_STAMP_WRITERS,
			       sizeof(*v.seen)),
		.given = calloc(s->n_slots, sizeof(*v.given)),
		.buf = malloc(MAX_RUN_SLOTS * 4096ull),
	};

	if (!v.seen || !v.given || !v.buf)
		rig_die("no memory for the test");
	for (uint64_t op = 0; op < s->run->n_ops; op++) {
		run_pause(s->run, thread, op);
		one_op(&v);
	}
	for (unsigned slot = 0; slot < s->n_slots; slot++)
		read_some(&v, slot, 1);
	free(v.seen);
	free(v.given);
	free(v.buf);
}

void run_shared(struct run *run)
{
	struct shared s = {
		.run = run,
		.n_slots = (unsigned)(run->size_bytes / 4096),
	};

	if (s.n_slots > PAGE_STAMP_SLOTS)
		rig_die("at most %u slots", PAGE_STAMP_SLOTS);
	run_threads(run, thread_main, &s);
}
