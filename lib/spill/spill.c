/* SPDX-License-Identifier: BSD-3-Clause */
/* spill.c - the spill tier's parts in one place, and reading from it */
#include "spill/spill.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

uint8_t *ts_spill_buffer(size_t bytes)
{
	uint8_t *buf = aligned_alloc(4096, (bytes + 4095) / 4096 * 4096);

	if (buf)
		memset(buf, 0, bytes);
	return buf;
}

/* What a reader of the log should know of the engine; said once. */
static void report_engine(struct ts_spill *spill,
			  const struct ts_events *events, const char *why)
{
	if (!spill->uring)
		snprintf(spill->why_not_uring, sizeof(spill->why_not_uring),
			 "%s", why);
	if (!spill->uring && spill->wants_uring)
		ts_event(events, TS_EVENT_WARNING,
			 "spill: pread and pwrite are used: %s", why);
	else if (spill->uring && *why)
		ts_event(events, TS_EVENT_WARNING, "spill: %s", why);
}

static int add_readers(struct ts_spill *spill, const struct ts_events *events)
{
	size_t bytes = TS_IO_DEPTH * TS_READ_BYTES;
	char why[TS_IO_WHY_BYTES];

	for (unsigned i = 0; i < TS_READERS; i++) {
		struct ts_spill_reader *r = calloc(1, sizeof(*r));

		if (!r)
			return -ENOMEM;
		r->buf = ts_spill_buffer(bytes);
		if (!r->buf) {
			free(r);
			return -ENOMEM;
		}
		/* One refusal is enough: the others would get the same. */
		ts_io_init(&r->io, &spill->file, r->buf, bytes,
			   spill->uring, why);
		if (!i) {
			spill->uring = r->io.uring;
			report_engine(spill, events, why);
		}
		ts_return(&spill->readers, r);
	}
	return 0;
}

static void free_readers(struct ts_spill *spill)
{
	while (spill->readers.free) {
		struct ts_spill_reader *r = ts_borrow(&spill->readers);

		ts_io_fini(&r->io);
		free(r->buf);
		free(r);
	}
	ts_lend_fini(&spill->readers);
}

int ts_spill_new(const struct ts_spill_params *params,
		 struct ts_spill **ret_spill, char *err, size_t err_bytes)
{
	struct ts_spill *spill;
	int error;

	spill = aligned_alloc(64, (sizeof(*spill) + 63) / 64 * 64);
	if (!spill)
		return -ENOMEM;
	memset(spill, 0, sizeof(*spill));
	ts_lend_init(&spill->readers);
	spill->encrypt = params->encrypt;
	spill->wants_uring = spill->uring = params->use_uring;
	error = ts_spill_file_open(&spill->file, params->path,
				   params->size_bytes, params->force, err,
				   err_bytes);
	if (!error) {
		error = ts_segments_init(&spill->segments,
					 spill->file.n_segments);
		if (error)
			snprintf(err, err_bytes, "spill=%s: no memory",
				 params->path);
	}
	if (error)
		ts_spill_free(spill);
	else
		*ret_spill = spill;
	return error;
}

static void report_file(const struct ts_spill *spill,
			const struct ts_events *events)
{
	if (!spill->encrypt)
		ts_event(events, TS_EVENT_WARNING,
			 "spill: encrypt=false: whoever can read the device can read what was swapped");
	if (!spill->file.firm)
		ts_event(events, TS_EVENT_WARNING,
			 "spill: the file system cannot reserve room: the size is best effort");
	if (!spill->file.direct)
		ts_event(events, TS_EVENT_INFO,
			 "spill: no O_DIRECT here: the page cache is used and emptied each time");
}

int ts_spill_start(struct ts_spill *spill, const struct ts_events *events)
{
	int err = ts_seal_init(&spill->seal, spill->encrypt,
			       spill->key.key ? &spill->key : NULL);

	if (err)
		return err;
	report_file(spill, events);
	if (spill->encrypt && !spill->seal.locked)
		ts_event(events, TS_EVENT_WARNING,
			 "spill: the key's memory cannot be locked");
	return add_readers(spill, events);
}

void ts_spill_free(struct ts_spill *spill)
{
	if (!spill)
		return;
	free_readers(spill);
	ts_segments_fini(&spill->segments);
	ts_seal_fini(&spill->seal);
	ts_spill_file_close(&spill->file);
	free(spill);
}

/* The aligned range of the file around a record. */
static void cover(const struct ts_spill *spill, const struct ts_fetch *f,
		  struct ts_transfer *ret_transfer, unsigned *ret_skip)
{
	uint64_t align = spill->file.align;
	uint64_t from = ts_segment_off(f->segment) + f->off;
	uint64_t start = from / align * align;
	uint64_t end = from + f->len + TS_RECORD_EXTRA;

	end = (end + align - 1) / align * align;
	assert(end - start <= TS_READ_BYTES);
	ret_transfer->off = start;
	ret_transfer->bytes = (uint32_t)(end - start);
	*ret_skip = (unsigned)(from - start);
}

void ts_spill_fetch(struct ts_spill *spill, unsigned n, struct ts_fetch *fetch)
{
	struct ts_spill_reader *r = ts_borrow(&spill->readers);
	struct ts_transfer transfer[TS_IO_DEPTH];
	unsigned skip[TS_IO_DEPTH];

	assert(n <= TS_IO_DEPTH);
	for (unsigned i = 0; i < n; i++) {
		transfer[i] = (struct ts_transfer){
			.buf = r->buf + i * TS_READ_BYTES,
		};
		cover(spill, &fetch[i], &transfer[i], &skip[i]);
		/* One alone gains nothing from a ring. */
		if (n == 1)
			ts_io_now(&r->io, &transfer[i]);
		else
			ts_io_start(&r->io, &transfer[i]);
	}
	ts_io_drain(&r->io);
	for (unsigned i = 0; i < n; i++) {
		struct ts_fetch *f = &fetch[i];
		struct ts_place place = { f->generation, f->slot, f->off };

		ts_spill_file_uncache(&spill->file, transfer[i].off,
				      transfer[i].bytes, false);
		f->ret_error = transfer[i].result;
		if (!f->ret_error)
			f->ret_error = ts_unseal_record(
				&spill->seal, &place,
				(uint8_t *)transfer[i].buf + skip[i], f->len,
				&f->ret_codec, f->ret_data);
	}
	ts_return(&spill->readers, r);
}
