// SPDX-License-Identifier: BSD-3-Clause
/* file.c - the one file that thinswap-fuse shows, as FUSE operations
 *
 * The file is opened for direct I/O, whoever opens it: so its page cache
 * stays empty, which would be a second, uncompressed copy of what is stored,
 * and it cannot be mapped. FOPEN_PARALLEL_DIRECT_WRITES lets writes share the
 * inode's lock; libfuse 3.14 has no name for it yet, hence the plain reply.
 *
 * No copies: libfuse hands out the request where it was received (splicing is
 * switched off, since it copies by way of a pipe's pages), and the engine
 * restores pages where the answer is sent from. What is left is the kernel's
 * own copy between its pages and ours, which the protocol asks for.
 *
 * Loop's direct I/O arrives as background requests, page-outs and faults
 * alike, and the kernel holds back those beyond max_background in one queue,
 * first in, first out. So the limit is above what a loop device has in flight:
 * then a fault is here as soon as a thread is free.
 */
#include "file.h"

#include <errno.h>
#include <linux/falloc.h>
#include <linux/fuse.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#define FILE_INO        2
#define ATTR_TIMEOUT_S  0.0 /* st_blocks changes with every page */
#define ENTRY_TIMEOUT_S 3600.0
#define BLOCK_BYTES     512

#ifndef FOPEN_PARALLEL_DIRECT_WRITES
#define FOPEN_PARALLEL_DIRECT_WRITES (1 << 6)
#endif

static struct ts_fuse_file *file_of(fuse_req_t req)
{
	return fuse_req_userdata(req);
}

static void op_init(void *opaque, struct fuse_conn_info *conn)
{
	struct ts_fuse_file *file = opaque;

	conn->want &= ~(FUSE_CAP_SPLICE_READ | FUSE_CAP_SPLICE_WRITE |
			FUSE_CAP_SPLICE_MOVE | FUSE_CAP_AUTO_INVAL_DATA);
	conn->max_write = TS_FUSE_MAX_BYTES;
	conn->max_background = file->max_background;
	/* Congestion only tells the page cache's write-back to slow down. */
	conn->congestion_threshold = file->max_background;
	eventfd_write(file->inited_fd, 1);
}

/* A link count of 1 tells find and others not to count on subdirectories. */
static void describe(const struct ts_fuse_file *file, fuse_ino_t ino,
		     struct stat *ret)
{
	struct ts_counters now;

	*ret = (struct stat){
		.st_ino = ino,
		.st_nlink = 1,
		.st_uid = geteuid(),
		.st_gid = getegid(),
		.st_blksize = TS_SLOT_BYTES,
		.st_atim = file->started,
		.st_mtim = file->started,
		.st_ctim = file->started,
	};
	if (ino == FUSE_ROOT_ID) {
		ret->st_mode = S_IFDIR | 0700;
		return;
	}
	ts_store_counters(file->store, &now);
	ret->st_mode = S_IFREG | 0600;
	ret->st_size = (off_t)file->size_bytes;
	ret->st_blocks = (now.stored_bytes + BLOCK_BYTES - 1) / BLOCK_BYTES;
}

static void op_lookup(fuse_req_t req, fuse_ino_t parent, const char *name)
{
	struct fuse_entry_param entry = {
		.ino = FILE_INO,
		.generation = 1,
		.attr_timeout = ATTR_TIMEOUT_S,
		.entry_timeout = ENTRY_TIMEOUT_S,
	};

	if (parent != FUSE_ROOT_ID || strcmp(name, TS_FUSE_FILE) != 0) {
		fuse_reply_err(req, ENOENT);
		return;
	}
	describe(file_of(req), FILE_INO, &entry.attr);
	fuse_reply_entry(req, &entry);
}

static void op_getattr(fuse_req_t req, fuse_ino_t ino,
		       struct fuse_file_info *fi)
{
	struct stat st;

	describe(file_of(req), ino, &st);
	fuse_reply_attr(req, &st, ATTR_TIMEOUT_S);
}

/* Setting what cannot change to what it is does no harm, and touch(1) may
 * believe that it has set a time.
 */
static void op_setattr(fuse_req_t req, fuse_ino_t ino, struct stat *attr,
		       int to_set, struct fuse_file_info *fi)
{
	struct stat st;

	describe(file_of(req), ino, &st);
	if ((to_set & FUSE_SET_ATTR_SIZE && attr->st_size != st.st_size) ||
	    (to_set & FUSE_SET_ATTR_MODE && attr->st_mode != st.st_mode) ||
	    (to_set & FUSE_SET_ATTR_UID && attr->st_uid != st.st_uid) ||
	    (to_set & FUSE_SET_ATTR_GID && attr->st_gid != st.st_gid))
		fuse_reply_err(req, EPERM);
	else
		fuse_reply_attr(req, &st, ATTR_TIMEOUT_S);
}

static void op_readdir(fuse_req_t req, fuse_ino_t ino, size_t room, off_t off,
		       struct fuse_file_info *fi)
{
	static const struct {
		const char *name;
		fuse_ino_t ino;
		mode_t mode;
	} entries[] = {
		{".", FUSE_ROOT_ID, S_IFDIR},
		{"..", FUSE_ROOT_ID, S_IFDIR},
		{TS_FUSE_FILE, FILE_INO, S_IFREG},
	};
	size_t n = sizeof(entries) / sizeof(*entries), used = 0;
	char buf[512];

	if (room > sizeof(buf))
		room = sizeof(buf);
	for (size_t i = (size_t)off; i < n; i++) {
		struct stat st = {.st_ino = entries[i].ino,
				  .st_mode = entries[i].mode};
		size_t len =
			fuse_add_direntry(req, buf + used, room - used,
					  entries[i].name, &st, (off_t)i + 1);

		if (len > room - used)
			break;
		used += len;
	}
	fuse_reply_buf(req, buf, used);
}

static void op_open(fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *fi)
{
	struct fuse_open_out out = {
		.open_flags = FOPEN_DIRECT_IO | FOPEN_PARALLEL_DIRECT_WRITES,
	};

	if (fi->flags & O_TRUNC)
		fuse_reply_err(req, EPERM);
	else
		fuse_reply_buf(req, (const char *)&out, sizeof(out));
}

/* The part of a request that lies inside the file. */
static size_t clip(const struct ts_fuse_file *file, size_t len, off_t off)
{
	uint64_t at = (uint64_t)off;

	if (at >= file->size_bytes)
		return 0;
	return len > file->size_bytes - at ? file->size_bytes - at : len;
}

static void op_read(fuse_req_t req, fuse_ino_t ino, size_t len, off_t off,
		    struct fuse_file_info *fi)
{
	struct ts_fuse_file *file = file_of(req);
	void *buf = ts_fuse_answer_buffer();
	int err = 0;

	len = clip(file, len, off);
	if (len > TS_FUSE_MAX_BYTES)
		err = -EINVAL;
	else if (len)
		err = ts_store_read(file->store, buf, len, (uint64_t)off);
	if (err)
		fuse_reply_err(req, -err);
	else
		fuse_reply_buf(req, buf, len);
}

static void op_write(fuse_req_t req, fuse_ino_t ino, const char *data,
		     size_t len, off_t off, struct fuse_file_info *fi)
{
	struct ts_fuse_file *file = file_of(req);
	size_t inside = clip(file, len, off);
	int err = len ? -EFBIG : 0;

	if (inside)
		err = ts_store_write(file->store, data, inside, (uint64_t)off);
	if (err)
		fuse_reply_err(req, -err);
	else
		fuse_reply_write(req, inside);
}

/* Whole slots are discarded, which cannot fail; pieces of slots are written
 * as zeroes, which may.
 */
static int zero(struct ts_fuse_file *file, uint64_t len, uint64_t off)
{
	if ((len | off) % TS_SLOT_BYTES == 0)
		return ts_store_discard(file->store, len, off);
	return ts_store_zero(file->store, len, off);
}

static void op_fallocate(fuse_req_t req, fuse_ino_t ino, int mode, off_t off,
			 off_t len, struct fuse_file_info *fi)
{
	struct ts_fuse_file *file = file_of(req);
	uint64_t at = (uint64_t)off, n = (uint64_t)len, left;
	int err = 0;

	left = at < file->size_bytes ? file->size_bytes - at : 0;
	if ((mode & ~FALLOC_FL_KEEP_SIZE) != FALLOC_FL_PUNCH_HOLE &&
	    (mode & ~FALLOC_FL_KEEP_SIZE) != FALLOC_FL_ZERO_RANGE)
		err = -EOPNOTSUPP;
	else if (!(mode & FALLOC_FL_KEEP_SIZE) && n > left)
		err = -EFBIG;
	else if (left)
		err = zero(file, n > left ? left : n, at);
	fuse_reply_err(req, -err);
}

struct seek {
	bool for_hole;
	uint64_t found;
};

static int seek_extent(void *opaque, uint64_t off, uint64_t len,
		       enum ts_extent type)
{
	struct seek *seek = opaque;

	if ((type == TS_EXTENT_HOLE) != seek->for_hole)
		return 0;
	seek->found = off;
	return 1;
}

static void op_lseek(fuse_req_t req, fuse_ino_t ino, off_t off, int whence,
		     struct fuse_file_info *fi)
{
	struct ts_fuse_file *file = file_of(req);
	struct seek seek = {.for_hole = whence == SEEK_HOLE};
	uint64_t at = (uint64_t)off;
	int found;

	if (at >= file->size_bytes) {
		fuse_reply_err(req, ENXIO);
		return;
	}
	found = ts_store_extents(file->store, file->size_bytes - at, at,
				 seek_extent, &seek);
	if (found < 0)
		fuse_reply_err(req, -found);
	else if (found)
		fuse_reply_lseek(req, (off_t)seek.found);
	else if (seek.for_hole)
		fuse_reply_lseek(req, (off_t)file->size_bytes);
	else
		fuse_reply_err(req, ENXIO);
}

static void op_statfs(fuse_req_t req, fuse_ino_t ino)
{
	struct ts_fuse_file *file = file_of(req);
	struct statvfs st = {
		.f_bsize = TS_SLOT_BYTES,
		.f_frsize = TS_SLOT_BYTES,
		.f_blocks = file->size_bytes / TS_SLOT_BYTES,
		.f_files = 1,
		.f_namemax = sizeof(TS_FUSE_FILE) - 1,
	};
	struct ts_counters now;

	ts_store_counters(file->store, &now);
	st.f_bfree = st.f_blocks - (now.zero_slots + now.fill_slots +
				    now.staged_slots + now.ram_slots +
				    now.raw_slots + now.spill_slots);
	st.f_bavail = st.f_bfree;
	fuse_reply_statfs(req, &st);
}

const struct fuse_lowlevel_ops ts_fuse_file_ops = {
	.init = op_init,
	.lookup = op_lookup,
	.getattr = op_getattr,
	.setattr = op_setattr,
	.readdir = op_readdir,
	.open = op_open,
	.read = op_read,
	.write = op_write,
	.fallocate = op_fallocate,
	.lseek = op_lseek,
	.statfs = op_statfs,
};
