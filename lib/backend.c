/* SPDX-License-Identifier: BSD-3-Clause */
/* backend.c - the registry of backends, and what they share */
#include "backend.h"
#include "util/lock.h"

#include <errno.h>

const struct ts_backend *const ts_backends[] = {
	&ts_backend_zero, &ts_backend_fill, &ts_backend_staged,
	&ts_backend_ram,  &ts_backend_raw,  &ts_backend_spill,
	NULL,
};

const struct ts_backend *const ts_backend_of[TS_KINDS] = {
	[TS_NONE] = &ts_backend_none, [TS_ZERO] = &ts_backend_zero,
	[TS_FILL] = &ts_backend_fill, [TS_STAGED] = &ts_backend_staged,
	[TS_RAM] = &ts_backend_ram,   [TS_RAW] = &ts_backend_raw,
	[TS_SPILL] = &ts_backend_spill,
};

/* One object after another, so that each block that the keeper touches brings
 * this forward, however few there are: waiting for all at once could be for
 * ever. The wait has an end for the whole.
 */
static int alloc_slowly(struct ts_media *media, unsigned n,
			const uint16_t *bytes, ts_obj *ret_obj)
{
	uint64_t deadline = ts_now_ns() + TS_BLOCKS_WAIT_NS;
	unsigned done = 0;
	int err = 0;

	while (done < n && !err) {
		err = ts_pool_alloc(&media->pool, 1, &bytes[done],
				    &ret_obj[done]);
		if (!err)
			done++;
		else if (err == -ENOBUFS)
			err = ts_now_ns() < deadline ?
				      ts_blocks_wait(&media->blocks) :
				      -ENOSPC;
	}
	if (err)
		ts_pool_free(&media->pool, done, ret_obj);
	return err;
}

int ts_media_alloc(struct ts_media *media, unsigned n, const uint16_t *bytes,
		   ts_obj *ret_obj)
{
	int err = ts_pool_alloc(&media->pool, n, bytes, ret_obj);

	return err == -ENOBUFS ? alloc_slowly(media, n, bytes, ret_obj) : err;
}

static void drop_kind(struct ts_media *media, const struct ts_backend *backend,
		      unsigned n, const ts_word *word)
{
	ts_word mine[TS_POOL_BULK];
	unsigned n_mine = 0;

	for (unsigned i = 0; i < n; i++) {
		if (ts_word_kind(word[i]) != backend->kind)
			continue;
		mine[n_mine++] = word[i];
		if (n_mine == TS_POOL_BULK) {
			backend->drop(media, n_mine, mine);
			n_mine = 0;
		}
	}
	if (n_mine)
		backend->drop(media, n_mine, mine);
}

void ts_media_drop(struct ts_media *media, unsigned n, const ts_word *word)
{
	for (unsigned i = 0; ts_backends[i]; i++)
		if (ts_backends[i]->drop)
			drop_kind(media, ts_backends[i], n, word);
}
