// SPDX-License-Identifier: BSD-3-Clause
/* model.c - a store and the plain array that it must equal */
#include "tests/common/model.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#define SLOT 4096ull

static uint8_t *buffer_of(uint64_t len)
{
	/* To the byte, so that a sanitizer sees one too many. */
	uint8_t *buf = malloc(len ? len : 1);

	if (!buf)
		rig_die("no memory for the test");
	return buf;
}

void model_init(struct model *model, struct ts_store *store, uint64_t bytes)
{
	*model = (struct model){.store = store, .bytes = bytes};
	model->array = calloc(1, bytes);
	if (!model->array)
		rig_die("no memory for the model");
}

void model_fini(struct model *model)
{
	free(model->array);
}

static uint64_t slot_end(uint64_t off, uint64_t end)
{
	uint64_t next = (off / SLOT + 1) * SLOT;

	return next < end ? next : end;
}

static void must(int err, const char *what, uint64_t len, uint64_t off)
{
	if (err)
		rig_die("%s %" PRIu64 "+%" PRIu64 ": %s", what, off, len,
			strerror(-err));
}

/* After a failed change to @data, or to zeroes if NULL. */
static void take_over(struct model *model, const uint8_t *data, uint64_t len,
		      uint64_t off)
{
	static const uint8_t zeroes[SLOT];
	uint8_t *now = buffer_of(len);
	uint64_t at = off, end = off + len;

	must(ts_store_read(model->store, now, len, off), "read after ENOSPC",
	     len, off);
	while (at < end) {
		uint64_t n = slot_end(at, end) - at;
		const uint8_t *new = data ? data + (at - off) : zeroes;

		if (memcmp(now + (at - off), model->array + at, n) &&
		    memcmp(now + (at - off), new, n))
			rig_die("a failed write of %" PRIu64 "+%" PRIu64
				" left neither old nor new data at %" PRIu64,
				off, len, at);
		memcpy(model->array + at, now + (at - off), n);
		at += n;
	}
	free(now);
}

int model_write(struct model *model, const void *data, uint64_t len,
		uint64_t off)
{
	int err = ts_store_write(model->store, data, len, off);

	if (err == -ENOSPC) {
		take_over(model, data, len, off);
		return err;
	}
	must(err, "write", len, off);
	memcpy(model->array + off, data, len);
	return 0;
}

int model_zero(struct model *model, uint64_t len, uint64_t off)
{
	int err = ts_store_zero(model->store, len, off);

	if (err == -ENOSPC) {
		take_over(model, NULL, len, off);
		return err;
	}
	must(err, "zero", len, off);
	memset(model->array + off, 0, len);
	return 0;
}

void model_discard(struct model *model, uint64_t len, uint64_t off)
{
	uint64_t from = (off + SLOT - 1) / SLOT * SLOT;
	uint64_t to = (off + len) / SLOT * SLOT;

	must(ts_store_discard(model->store, len, off), "discard", len, off);
	if (from < to)
		memset(model->array + from, 0, to - from);
}

void model_read(struct model *model, uint64_t len, uint64_t off)
{
	uint8_t *buf = buffer_of(len);
	uint64_t i;

	must(ts_store_read(model->store, buf, len, off), "read", len, off);
	if (memcmp(buf, model->array + off, len)) {
		for (i = 0; buf[i] == model->array[off + i]; i++)
			;
		rig_die("read %" PRIu64 "+%" PRIu64 ": byte %" PRIu64
			" is %02x, not %02x",
			off, len, off + i, buf[i], model->array[off + i]);
	}
	free(buf);
}

struct walk {
	const struct model *model;
	uint64_t at, end;
	int last; /* type of the run before, or -1 */
};

static int see_extent(void *opaque, uint64_t off, uint64_t len,
		      enum ts_extent type)
{
	struct walk *walk = opaque;
	const uint8_t *p = walk->model->array + off;

	if (off != walk->at || !len || off + len > walk->end)
		rig_die("extent %" PRIu64 "+%" PRIu64 " after %" PRIu64, off,
			len, walk->at);
	if ((int)type == walk->last)
		rig_die("two extents of one type meet at %" PRIu64, off);
	if (type != TS_EXTENT_DATA &&
	    (p[0] || (len > 1 && memcmp(p, p + 1, len - 1))))
		rig_die("extent %" PRIu64 "+%" PRIu64 " hides data", off, len);
	walk->at += len;
	walk->last = (int)type;
	return 0;
}

void model_extents(struct model *model, uint64_t len, uint64_t off)
{
	struct walk walk = {
		.model = model, .at = off, .end = off + len, .last = -1};

	must(ts_store_extents(model->store, len, off, see_extent, &walk),
	     "extents", len, off);
	if (walk.at != walk.end)
		rig_die("extents of %" PRIu64 "+%" PRIu64 " end at %" PRIu64,
			off, len, walk.at);
}

void model_compare(struct model *model)
{
	for (uint64_t off = 0; off < model->bytes; off += MIB)
		model_read(model,
			   model->bytes - off < MIB ? model->bytes - off : MIB,
			   off);
}

void model_content(struct rng *rng, uint8_t *ret_data, uint64_t len,
		   uint64_t off)
{
	uint64_t at = off, end = off + len;
	uint8_t page[PAGE_BYTES];

	while (at < end) {
		uint64_t n = slot_end(at, end) - at;

		page_make(page, (enum page_kind)rng_below(rng, PAGE_KINDS),
			  rng_next(rng));
		memcpy(ret_data + (at - off), page + at % SLOT, n);
		at += n;
	}
}
