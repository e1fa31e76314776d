/* SPDX-License-Identifier: BSD-3-Clause */
/* kept.c - the shared segment, and how it outlives the process
 *
 * A segment of this boot that is named and gone means that pages are lost; a
 * server that started empty instead would hand zeroes to whoever swapped them
 * out. One that was being made, or removed, when its process was killed holds
 * nothing, and is removed now.
 */
#include "kept.h"
#include "block.h"
#include "fault.h"
#include "keepfile.h"
#include "util/atomic.h"
#include "util/filelock.h"
#include "word.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>
#include <xxhash.h>

#define MAGIC "thinswap"
#define HEAD_BYTES 4096u
#define KEY_TRIES 16u

_Static_assert(sizeof(struct ts_kept_head) <= HEAD_BYTES, "head is a page");

/* Of everything that another build could lay out differently. */
static uint64_t fingerprint(void)
{
	const uint64_t layout[] = {
		1, /* count up when a meaning changes and no number below does */
		TS_BLOCK_BYTES,
		TS_WORD_MARK_SHIFT,
		TS_WORD_PAYLOAD_SHIFT,
		TS_WORD_LEN_SHIFT,
		TS_WORD_OBJ_SHIFT,
		TS_WORD_RAW_PAGE_SHIFT,
		TS_WORD_SPILL_OFF_SHIFT,
		TS_WORD_SPILL_SEGMENT_SHIFT,
		TS_NONE, TS_ZERO, TS_FILL, TS_STAGED, TS_RAM, TS_RAW,
		TS_SPILL,
		TS_CODEC_REPEAT, TS_CODEC_ZSTD,
		TS_DICT_FIRST, TS_DICT_GENERATIONS, TS_DICT_BYTES,
		sizeof(struct ts_kept_head),
		sizeof(struct ts_kept_dict),
		sizeof(struct ts_kept_segment),
	};

	return XXH3_64bits(layout, sizeof(layout));
}

static size_t round_up(size_t n, size_t to)
{
	return (n + to - 1) / to * to;
}

struct ts_kept_layout ts_kept_lay_out(const struct ts_kept_size *size)
{
	struct ts_kept_layout at = { .dict = HEAD_BYTES };

	at.segment = at.dict + round_up(TS_DICT_GENERATIONS *
						sizeof(struct ts_kept_dict),
					4096);
	at.root = at.segment + round_up((size_t)size->n_segments *
						sizeof(struct ts_kept_segment),
					4096);
	at.blocks = round_up(at.root + size->root_bytes, TS_BLOCK_BYTES);
	at.bytes = at.blocks + ((size_t)size->n_blocks << TS_BLOCK_SHIFT);
	return at;
}

static void find_parts(struct ts_kept *kept, const struct ts_kept_size *size)
{
	struct ts_kept_layout at = ts_kept_lay_out(size);
	uint8_t *base = kept->shm.base;

	kept->head = (void *)base;
	kept->dict = (void *)(base + at.dict);
	kept->segment = (void *)(base + at.segment);
	kept->root = base + at.root;
	kept->root_bytes = size->root_bytes;
	kept->blocks = base + at.blocks;
}

bool ts_kept_readable(const struct ts_kept_head *head)
{
	return !memcmp(head->magic, MAGIC, sizeof(head->magic)) &&
	       head->fingerprint == fingerprint();
}

struct text {
	const char *path;
	char *at;
	size_t bytes;
};

__attribute__((format(printf, 3, 4))) static int
wrong(const struct text *t, int error, const char *format, ...)
{
	char why[256];
	va_list ap;

	va_start(ap, format);
	vsnprintf(why, sizeof(why), format, ap);
	va_end(ap);
	if (t->path)
		snprintf(t->at, t->bytes, "keep=%s: %s", t->path, why);
	else
		snprintf(t->at, t->bytes, "%s", why);
	return error;
}

static int open_file(struct ts_kept *kept, const struct text *t)
{
	struct stat st;

	kept->fd = open(t->path, O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC,
			0600);
	if (kept->fd < 0)
		return wrong(t, -errno, "cannot be opened: %s",
			     strerror(errno));
	if (ts_file_lock(kept->fd))
		return wrong(t, -EBUSY,
			     "another process serves the pages that it keeps");
	if (fstat(kept->fd, &st) || !S_ISREG(st.st_mode) ||
	    st.st_uid != geteuid() || (st.st_mode & 077))
		return wrong(t, -EPERM,
			     "must be a regular file of ours with mode 0600");
	kept->path = strdup(t->path);
	return kept->path ? 0 : -ENOMEM;
}

static int note(const struct ts_kept *kept, enum ts_keep_state state,
		int number, const struct text *t)
{
	int err = ts_keepfile_write(kept->fd,
				    (struct ts_keep_note){ state, number });

	return err ? wrong(t, err, "cannot be written: %s", strerror(-err)) :
		     0;
}

static int check_head(const struct ts_kept *kept,
		      const struct ts_kept_size *size, const struct text *t)
{
	const struct ts_kept_head *h = kept->head;

	if (!ts_kept_readable(h))
		return wrong(t, -EPROTO,
			     "the pages in segment %d were laid out by another version of thinswap; serve them with that one, or give them up with ipcrm -m %d and remove the file",
			     kept->shm.id, kept->shm.id);
	if (h->n_slots != size->n_slots || h->n_blocks < size->n_budget ||
	    h->n_segments != size->n_segments)
		return wrong(t, -EINVAL,
			     "the pages in segment %d are of a device of %llu bytes with %u spill segments, in memory of at most %llu bytes; use the same sizes, and ram up to that",
			     kept->shm.id,
			     (unsigned long long)h->n_slots * 4096,
			     h->n_segments,
			     (unsigned long long)h->n_blocks << TS_BLOCK_SHIFT);
	return 0;
}

/* Map what the file names. 0: adopted; 1: it was never finished. */
static int adopt(struct ts_kept *kept, const struct ts_kept_size *size, int id,
		 const struct text *t)
{
	struct ts_kept_size there = *size;
	int err = ts_shm_attach(&kept->shm, id);

	if (err == -EBUSY)
		return wrong(t, err, "another process has segment %d mapped",
			     id);
	if (err)
		return wrong(t, err,
			     "the memory it names (segment %d) is gone, and the pages in it: %s; if no swap is on this device any more, remove the file",
			     id, strerror(-err));
	/* In a process that has locked all its memory already. */
	ts_shm_unpin(&kept->shm);
	kept->head = (void *)kept->shm.base;
	if (kept->shm.bytes < HEAD_BYTES || !kept->head->made) {
		ts_shm_remove(id);
		ts_shm_free(&kept->shm);
		return 1;
	}
	kept->adopted = true;
	err = check_head(kept, size, t);
	there.n_blocks = kept->head->n_blocks;
	if (!err && kept->shm.bytes < ts_kept_lay_out(&there).bytes)
		err = wrong(t, -EPROTO, "segment %d is too short", id);
	if (!err)
		find_parts(kept, size);
	TS_FAULT_POINT("kept: adopted");
	return err;
}

/* A key that no segment has, noted before there is one with it. */
static int make_kept(struct ts_kept *kept, size_t bytes, const struct text *t)
{
	unsigned tries = 0;
	int key, err;

	do {
		if (getrandom(&key, sizeof(key), 0) != sizeof(key))
			return -errno;
		key = (key & INT32_MAX) | 1;
		err = note(kept, TS_KEEP_MAKING, key, t);
		TS_FAULT_POINT("kept: key noted");
		if (!err)
			err = ts_shm_new(&kept->shm, bytes, key);
	} while (err == -EEXIST && ++tries < KEY_TRIES);
	TS_FAULT_POINT("kept: segment made");
	return err;
}

static int make(struct ts_kept *kept, const struct ts_kept_size *size,
		const struct text *t)
{
	size_t bytes = ts_kept_lay_out(size).bytes;
	struct ts_kept_head *h;
	int err;

	err = t->path ? make_kept(kept, bytes, t) :
			ts_shm_new(&kept->shm, bytes, 0);
	if (err)
		return wrong(t, err,
			     "cannot set up a segment of %zu bytes of shared memory: %s",
			     bytes, strerror(-err));
	find_parts(kept, size);
	h = kept->head;
	memcpy(h->magic, MAGIC, sizeof(h->magic));
	h->fingerprint = fingerprint();
	h->n_slots = size->n_slots;
	h->n_blocks = size->n_blocks;
	h->n_segments = size->n_segments;
	h->dict_current = TS_CODEC_ZSTD;
	TS_FAULT_POINT("kept: head written");
	err = t->path ? note(kept, TS_KEEP_SEGMENT, kept->shm.id, t) : 0;
	TS_FAULT_POINT("kept: segment named");
	if (!err)
		ts_store_release(&h->made, 1u);
	TS_FAULT_POINT("kept: made");
	return err;
}

/* What was being made or removed when its process was killed. Only a segment
 * that is ours and that nobody uses: keys can coincide. -EBUSY: somebody does,
 * and without the file nobody would find it again.
 */
static int remove_remains(struct ts_keep_note found)
{
	int id = found.number, err;

	if (found.state == TS_KEEP_MAKING)
		id = ts_shm_find(found.number);
	err = id < 0 ? id : ts_shm_remove_unused(id);
	if (!err)
		TS_FAULT_POINT("kept: remains removed");
	return err == -EBUSY ? err : 0;
}

int ts_kept_forget(const char *path)
{
	int fd = open(path, O_RDONLY | O_NOFOLLOW | O_CLOEXEC), err = 0;
	struct ts_keep_note found;

	if (fd < 0)
		return 0;
	found = ts_keepfile_read(fd);
	close(fd);
	if (found.state == TS_KEEP_MAKING || found.state == TS_KEEP_ENDED)
		err = remove_remains(found);
	if (!err)
		unlink(path);
	return err;
}

int ts_kept_open(struct ts_kept *kept, const struct ts_kept_size *size,
		 const char *path, char *err, size_t err_bytes)
{
	struct text t = { .path = path, .at = err, .bytes = err_bytes };
	struct ts_keep_note found = { TS_KEEP_NOTHING, 0 };
	int error = 0;

	*kept = (struct ts_kept){ .fd = -1 };
	if (path) {
		error = open_file(kept, &t);
		if (error)
			return error;
		found = ts_keepfile_read(kept->fd);
	}
	if (found.state == TS_KEEP_SEGMENT) {
		error = adopt(kept, size, found.number, &t);
		if (error <= 0)
			return error;
	} else if (found.state != TS_KEEP_NOTHING && remove_remains(found)) {
		return wrong(&t, -EBUSY,
			     "a process that is ending has its memory mapped");
	}
	return make(kept, size, &t);
}

int ts_kept_prepare(const struct ts_kept_size *size, const char *path,
		    char *err, size_t err_bytes)
{
	struct text t = { .path = path, .at = err, .bytes = err_bytes };
	struct ts_kept kept = { .fd = -1 };
	struct ts_kept_size as_kept = *size;
	const uint8_t *base;
	int id, error;
	size_t bytes;

	id = ts_keepfile_segment(path);
	if (id < 0)
		return wrong(&t, id, "names no memory that could be taken over");
	error = ts_shm_prepare(id, &base, &bytes);
	if (error)
		return wrong(&t, error, "segment %d cannot be mapped: %s", id,
			     strerror(-error));
	if (bytes < HEAD_BYTES)
		return wrong(&t, -EPROTO, "segment %d is too short", id);
	kept.head = (struct ts_kept_head *)base;
	kept.shm.id = id;
	as_kept.n_segments = kept.head->n_segments;
	return check_head(&kept, &as_kept, &t);
}

int ts_kept_bind_spill(struct ts_kept *kept, const char *path,
		       const struct stat *st, bool sealed, char *err,
		       size_t err_bytes)
{
	struct ts_kept_head *h = kept->head;
	uint64_t dev = S_ISBLK(st->st_mode) ? st->st_rdev : st->st_dev;
	uint64_t ino = S_ISBLK(st->st_mode) ? 0 : st->st_ino;
	char *real = realpath(path, NULL);

	if (kept->adopted && h->spill_path[0] &&
	    (h->spill_dev != dev || h->spill_ino != ino ||
	     h->spill_sealed != sealed)) {
		free(real);
		snprintf(err, err_bytes,
			 "spill=%s: the pages that were kept are in another file, %s, %s; use that one as it was",
			 path, h->spill_path,
			 h->spill_sealed ? "encrypted" : "not encrypted");
		return -EINVAL;
	}
	h->spill_dev = dev;
	h->spill_ino = ino;
	h->spill_sealed = sealed;
	TS_FAULT_POINT("kept: spill file bound");
	/* Only for those who look for it: see peek.h. */
	snprintf(h->spill_path, sizeof(h->spill_path), "%s",
		 real ? real : path);
	free(real);
	return 0;
}

void ts_kept_close(struct ts_kept *kept)
{
	struct ts_keep_note ended = { TS_KEEP_ENDED, kept->shm.id };

	/* What was adopted and never served stays for the next try. */
	if (kept->head && kept->path && (kept->served || !kept->adopted)) {
		ts_keepfile_write(kept->fd, ended);
		TS_FAULT_POINT("kept: end noted");
		ts_shm_remove(kept->shm.id);
		TS_FAULT_POINT("kept: segment removed");
		unlink(kept->path);
		TS_FAULT_POINT("kept: file removed");
	}
	ts_shm_free(&kept->shm);
	if (kept->fd >= 0)
		close(kept->fd);
	free(kept->path);
	*kept = (struct ts_kept){ .fd = -1 };
}
