// SPDX-License-Identifier: BSD-3-Clause
/* exact.c - threads that share no byte, checked to the byte
 *
 * The first half of the device is dealt out in small strips, so that threads
 * meet in every cluster; the second in large pieces, so that whole clusters
 * come and go.
 */
#include "tests/model/run.h"

#include <stdlib.h>

#define STRIP_BYTES (37 * 4096ull)

struct exact {
	struct run *run;
	struct model model;
};

struct range {
	uint64_t off, len;
};

/* A random piece of the device that belongs to a thread. */
static struct range own_range(const struct exact *e, unsigned thread,
			      struct rng *rng)
{
	unsigned n = e->run->n_threads;
	uint64_t half = e->model.bytes / 2 / 4096 * 4096;
	uint64_t strips = half / STRIP_BYTES / n * n;
	struct range r;

	if (strips && rng_below(rng, 2)) {
		r.off = (rng_below(rng, strips / n) * n + thread) * STRIP_BYTES;
		r.len = STRIP_BYTES;
	} else {
		r.len = (e->model.bytes - half) / 4096 / n * 4096;
		r.off = half + thread * r.len;
	}
	return r;
}

/* A request inside it: of bytes, of slots, or long. */
static struct range request_in(struct range r, struct rng *rng)
{
	static const uint64_t max[] = {4096, 3 * 4096, 64 * 4096,
				       MODEL_MAX_BYTES};
	uint64_t most = max[rng_below(rng, 4)];
	bool whole = rng_below(rng, 4);
	struct range q;

	q.off = rng_below(rng, r.len);
	if (whole)
		q.off = q.off / 4096 * 4096;
	if (most > r.len - q.off)
		most = r.len - q.off;
	q.len = rng_range(rng, 0, most);
	if (whole && most >= 4096)
		q.len = (q.len + 4095) / 4096 * 4096;
	if (q.len > most)
		q.len = most;
	q.off += r.off;
	return q;
}

/* Drop every third slot: what is left is spread over sparse blocks, and only
 * compaction makes room for pages of another size.
 */
static void drop_thirds(struct exact *e, struct range r)
{
	for (uint64_t at = r.off; at + 4096 <= r.off + r.len; at += 3 * 4096)
		model_discard(&e->model, 4096, at);
}

static void one_op(struct exact *e, unsigned thread, struct rng *rng,
		   uint8_t *buf)
{
	struct range r = own_range(e, thread, rng);
	struct range q = request_in(r, rng);

	switch (rng_below(rng, 16)) {
	case 0 ... 6:
		model_content(rng, buf, q.len, q.off);
		if (!model_write(&e->model, buf, q.len, q.off))
			break;
		/* Full: make room, else all that follows is refused. */
		if (rng_below(rng, 4))
			drop_thirds(e, r);
		else
			model_discard(&e->model, r.len, r.off);
		break;
	case 7 ... 11:
		model_read(&e->model, q.len, q.off);
		break;
	case 12:
		model_discard(&e->model, q.len, q.off);
		break;
	case 13:
		model_zero(&e->model, q.len, q.off);
		break;
	case 14:
		model_extents(&e->model, q.len, q.off);
		break;
	default:
		drop_thirds(e, r);
	}
}

static void thread_main(void *opaque, unsigned thread)
{
	struct exact *e = opaque;
	struct rng rng = run_rng(e->run, thread);
	uint8_t *buf = malloc(MODEL_MAX_BYTES);

	if (!buf)
		rig_die("no memory for the test");
	for (uint64_t op = 0; op < e->run->n_ops; op++) {
		run_pause(e->run, thread, op);
		one_op(e, thread, &rng, buf);
	}
	free(buf);
}

void run_exact(struct run *run)
{
	struct exact e = {.run = run};

	model_init(&e.model, run->store, run->size_bytes);
	run_threads(run, thread_main, &e);
	model_compare(&e.model);
	model_extents(&e.model, run->size_bytes, 0);
	model_fini(&e.model);
}
