/* SPDX-License-Identifier: BSD-3-Clause */
/* kept.c - the shared segment, and how it outlives the process
 *
 * The file holds one line: the segment's number and the kernel's boot id. A
 * number from another boot names nothing and is forgotten. A number of this
 * boot whose segment is gone means that pages are lost; a server that started
 * empty instead would hand zeroes to whoever swapped them out.
 */
#include "kept.h"
#include "block.h"
#include "word.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>
#include <xxhash.h>

#define MAGIC "thinswap"
#define HEAD_BYTES 4096u
#define BOOT_ID_BYTES 37u

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
		TS_NONE, TS_ZERO, TS_FILL, TS_RAM, TS_RAW, TS_SPILL,
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

/* Find the parts of a segment; @base NULL only measures. Returns its size. */
static size_t lay_out(struct ts_kept *kept, const struct ts_kept_size *size,
		      uint8_t *base)
{
	size_t dict_off = HEAD_BYTES;
	size_t segment_off =
		dict_off + round_up(TS_DICT_GENERATIONS *
					    sizeof(struct ts_kept_dict), 4096);
	size_t root_off =
		segment_off + round_up((size_t)size->n_segments *
					       sizeof(struct ts_kept_segment),
				       4096);
	size_t blocks_off = round_up(root_off + size->root_bytes,
				     TS_BLOCK_BYTES);

	if (base) {
		kept->head = (void *)base;
		kept->dict = (void *)(base + dict_off);
		kept->segment = (void *)(base + segment_off);
		kept->root = base + root_off;
		kept->root_bytes = size->root_bytes;
		kept->blocks = base + blocks_off;
	}
	return blocks_off + ((size_t)size->n_blocks << TS_BLOCK_SHIFT);
}

static void read_boot_id(char ret_id[BOOT_ID_BYTES])
{
	FILE *f = fopen("/proc/sys/kernel/random/boot_id", "re");

	snprintf(ret_id, BOOT_ID_BYTES, "unknown");
	if (!f)
		return;
	if (!fgets(ret_id, BOOT_ID_BYTES, f))
		snprintf(ret_id, BOOT_ID_BYTES, "unknown");
	fclose(f);
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
	if (flock(kept->fd, LOCK_EX | LOCK_NB))
		return wrong(t, -EBUSY,
			     "another process serves the pages that it keeps");
	if (fstat(kept->fd, &st) || !S_ISREG(st.st_mode) ||
	    st.st_uid != geteuid() || (st.st_mode & 077))
		return wrong(t, -EPERM,
			     "must be a regular file of ours with mode 0600");
	kept->path = strdup(t->path);
	return kept->path ? 0 : -ENOMEM;
}

/* The segment that the file names; -1: none, or of another boot. */
static int named_segment(const struct ts_kept *kept)
{
	char line[80] = "", boot[BOOT_ID_BYTES], now[BOOT_ID_BYTES];
	int id;

	if (pread(kept->fd, line, sizeof(line) - 1, 0) <= 0 ||
	    sscanf(line, "%d %36s", &id, boot) != 2)
		return -1;
	read_boot_id(now);
	return strcmp(boot, now) ? -1 : id;
}

static int name_segment(const struct ts_kept *kept, const struct text *t)
{
	char line[80], boot[BOOT_ID_BYTES];
	int n;

	read_boot_id(boot);
	n = snprintf(line, sizeof(line), "%d %s\n", kept->shm.id, boot);
	if (ftruncate(kept->fd, 0) || pwrite(kept->fd, line, (size_t)n, 0) != n)
		return wrong(t, -EIO, "cannot be written: %s",
			     strerror(errno));
	return 0;
}

static int check_head(const struct ts_kept *kept,
		      const struct ts_kept_size *size, const struct text *t)
{
	const struct ts_kept_head *h = kept->head;

	if (memcmp(h->magic, MAGIC, sizeof(h->magic)) ||
	    h->fingerprint != fingerprint())
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

	if (err)
		return wrong(t, err,
			     "the memory it names (segment %d) is gone, and the pages in it: %s; if no swap is on this device any more, remove the file",
			     id, strerror(-err));
	kept->head = (void *)kept->shm.base;
	if (kept->shm.bytes < HEAD_BYTES || !kept->head->made)
		return 1;
	kept->adopted = true;
	err = check_head(kept, size, t);
	there.n_blocks = kept->head->n_blocks;
	if (!err && kept->shm.bytes < lay_out(kept, &there, kept->shm.base))
		err = wrong(t, -EPROTO, "segment %d is too short", id);
	return err;
}

static int make(struct ts_kept *kept, const struct ts_kept_size *size,
		const struct text *t)
{
	size_t bytes = lay_out(kept, size, NULL);
	struct ts_kept_head *h;
	int err = ts_shm_new(&kept->shm, bytes, !t->path);

	if (err)
		return wrong(t, err,
			     "cannot set up a segment of %zu bytes of shared memory: %s",
			     bytes, strerror(-err));
	lay_out(kept, size, kept->shm.base);
	h = kept->head;
	memcpy(h->magic, MAGIC, sizeof(h->magic));
	h->fingerprint = fingerprint();
	h->n_slots = size->n_slots;
	h->n_blocks = size->n_blocks;
	h->n_segments = size->n_segments;
	h->dict_current = TS_CODEC_ZSTD;
	err = t->path ? name_segment(kept, t) : 0;
	h->made = !err;
	return err;
}

int ts_kept_open(struct ts_kept *kept, const struct ts_kept_size *size,
		 const char *path, char *err, size_t err_bytes)
{
	struct text t = { .path = path, .at = err, .bytes = err_bytes };
	int id = -1, error = 0;

	*kept = (struct ts_kept){ .fd = -1 };
	if (path) {
		error = open_file(kept, &t);
		if (error)
			return error;
		id = named_segment(kept);
	}
	if (id >= 0) {
		error = adopt(kept, size, id, &t);
		if (error <= 0)
			return error;
		ts_shm_remove(&kept->shm);
		ts_shm_free(&kept->shm);
	}
	return make(kept, size, &t);
}

void ts_kept_close(struct ts_kept *kept)
{
	/* What was adopted and never served stays for the next try. */
	if (kept->head && kept->path && (kept->served || !kept->adopted)) {
		ts_shm_remove(&kept->shm);
		unlink(kept->path);
	}
	ts_shm_free(&kept->shm);
	if (kept->fd >= 0)
		close(kept->fd);
	free(kept->path);
	*kept = (struct ts_kept){ .fd = -1 };
}
