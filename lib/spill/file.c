/* SPDX-License-Identifier: BSD-3-Clause */
/* file.c - the file or block device that pages spill to
 *
 * Every way in which a path can be wrong has its own sentence: a spill tier
 * that silently is not there is found out on the worst day.
 */
#include "spill/file.h"
#include "fault.h"
#include "util/filelock.h"
#include "util/size.h"

#include <blkid/blkid.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/falloc.h>
#include <linux/fs.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <unistd.h>

#define HEADER_BYTES 4096
#define SEGMENTS_MIN 9u /* one of them for the header */
static const char magic[16] = "thinswap spill\n";

struct text {
	char *at;
	size_t bytes;
	const char *path;
};

/* Say what is wrong with the path, and return @error. */
__attribute__((format(printf, 3, 4))) static int
wrong(const struct text *t, int error, const char *format, ...)
{
	char why[200];
	va_list ap;

	va_start(ap, format);
	vsnprintf(why, sizeof(why), format, ap);
	va_end(ap);
	snprintf(t->at, t->bytes, "spill=%s: %s", t->path, why);
	return error;
}

/* Devices go by links (/dev/disk/by-partuuid/...), and nobody but root can
 * make those; files do not.
 */
static int open_link(const struct text *t, int *ret_fd)
{
	int fd = open(t->path, O_RDWR | O_CLOEXEC | O_NOCTTY);
	struct stat st;

	if (fd >= 0 && !fstat(fd, &st) && S_ISBLK(st.st_mode)) {
		*ret_fd = fd;
		return 0;
	}
	if (fd >= 0)
		close(fd);
	return wrong(t, -ELOOP, "is a symbolic link; give the file itself");
}

static int open_path(const struct text *t, int *ret_fd)
{
	int fd = open(t->path,
		      O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC | O_NOCTTY,
		      0600);

	if (fd >= 0) {
		*ret_fd = fd;
		return 0;
	}
	switch (errno) {
	case ELOOP:
		return open_link(t, ret_fd);
	case EISDIR:
		return wrong(t, -EISDIR,
			     "is a directory; give a file in it or a block device");
	case ENOENT:
	case ENOTDIR:
		return wrong(t, -errno, "the folder that should hold it does not exist");
	default:
		return wrong(t, -errno, "cannot be opened: %s", strerror(errno));
	}
}

static int lock_file(const struct text *t, int fd)
{
	int err = ts_file_lock(fd);

	if (err == -EBUSY)
		return wrong(t, err,
			     "is in use by another process, perhaps another thinswap");
	return err ? wrong(t, err, "cannot be locked: %s", strerror(-err)) : 0;
}

/* Whether the file has our header. -errno when it cannot be read. */
static int has_header(int fd)
{
	char head[sizeof(magic)];
	ssize_t n = pread(fd, head, sizeof(head), 0);

	if (n < 0)
		return -errno;
	return n == (ssize_t)sizeof(head) && !memcmp(head, magic, sizeof(head));
}

static int check_regular(const struct text *t, int fd, const struct stat *st,
			 bool force)
{
	if (st->st_uid != geteuid())
		return wrong(t, -EPERM, "belongs to another user (uid %u)",
			     (unsigned)st->st_uid);
	if (st->st_nlink > 1)
		return wrong(t, -EPERM, "has more than one name (hard links)");
	if (st->st_size > 0 && !force && has_header(fd) <= 0)
		return wrong(t, -EEXIST,
			     "exists and is not a spill file of thinswap; remove it, or say spill-force=true");
	/* Last: nothing of a file that is not ours is changed. */
	if (fchmod(fd, 0600))
		return wrong(t, -errno, "its mode cannot be set to 0600: %s",
			     strerror(errno));
	return 0;
}

static int check_size(const struct text *t, uint64_t bytes)
{
	char need[TS_SIZE_TEXT_BYTES];

	if (bytes >> TS_SEGMENT_SHIFT >= SEGMENTS_MIN)
		return 0;
	return wrong(t, -EINVAL, "too small, at least %s are needed",
		     ts_size_format((uint64_t)SEGMENTS_MIN << TS_SEGMENT_SHIFT,
				    need, sizeof(need)));
}

static int write_header(const struct text *t, int fd)
{
	char page[HEADER_BYTES] = { 0 };

	memcpy(page, magic, sizeof(magic));
	if (pwrite(fd, page, sizeof(page), 0) != sizeof(page))
		return wrong(t, -EIO, "cannot be written: %s",
			     strerror(errno));
	TS_FAULT_POINT("spill file: header written");
	return 0;
}

/* Reserve the room. A file system that cannot do that gives a sparse file. */
static int reserve(const struct text *t, struct ts_spill_file *file,
		   uint64_t bytes)
{
	char room[TS_SIZE_TEXT_BYTES];
	int n;

	if (ftruncate(file->fd, (off_t)bytes))
		return wrong(t, -errno, "cannot be made %s long: %s",
			     ts_size_format(bytes, room, sizeof(room)),
			     strerror(errno));
	do {
		n = fallocate(file->fd, 0, 0, (off_t)bytes);
	} while (n && errno == EINTR);
	file->firm = !n;
	if (n && errno != EOPNOTSUPP && errno != ENOSYS)
		return wrong(t, -errno, "there is no room for %s: %s",
			     ts_size_format(bytes, room, sizeof(room)),
			     strerror(errno));
	TS_FAULT_POINT("spill file: room reserved");
	return 0;
}

static int set_up_regular(const struct text *t, struct ts_spill_file *file,
			  const struct stat *st, uint64_t size, bool force,
			  uint64_t *ret_bytes)
{
	int err = check_regular(t, file->fd, st, force);

	if (err)
		return err;
	if (!size && !st->st_size)
		return wrong(t, -EINVAL,
			     "a new file needs a size; give spill-size as well");
	*ret_bytes = size ? size : (uint64_t)st->st_size;
	err = check_size(t, *ret_bytes);
	/* First, so that a file that is never finished is known as ours. */
	if (!err && !st->st_size)
		err = write_header(t, file->fd);
	if (!err)
		err = reserve(t, file, *ret_bytes);
	/* What was reserved in part would only fill the file system. */
	if (err && !st->st_size)
		(void)!ftruncate(file->fd, 0);
	return err;
}

/* What the device holds, by name, or NULL. */
static const char *signature(int fd, char *ret_name, size_t name_bytes)
{
	blkid_probe probe = blkid_new_probe();
	const char *type = NULL, *found = NULL;

	if (!probe)
		return "contents that cannot be examined";
	blkid_probe_enable_partitions(probe, 1);
	if (blkid_probe_set_device(probe, fd, 0, 0) ||
	    blkid_do_safeprobe(probe) < 0) {
		found = "contents that cannot be examined";
	} else if (!blkid_probe_lookup_value(probe, "TYPE", &type, NULL) ||
		   !blkid_probe_lookup_value(probe, "PTTYPE", &type, NULL)) {
		snprintf(ret_name, name_bytes, "a signature of type %s", type);
		found = ret_name;
	}
	blkid_free_probe(probe);
	return found;
}

static int set_up_block(const struct text *t, struct ts_spill_file *file,
			uint64_t size, bool force, uint64_t *ret_bytes)
{
	char name[80], have[TS_SIZE_TEXT_BYTES];
	const char *found;
	uint64_t bytes = 0;
	int fd;

	/* The kernel's own word on use: mounts, swap, LVM, RAID. */
	snprintf(name, sizeof(name), "/proc/self/fd/%d", file->fd);
	fd = open(name, O_RDWR | O_EXCL | O_CLOEXEC);
	if (fd < 0 && errno == EBUSY)
		return wrong(t, -EBUSY,
			     "the device is mounted, used as swap or in use by another device");
	if (fd < 0)
		return wrong(t, -errno, "cannot be opened: %s",
			     strerror(errno));
	close(file->fd);
	file->fd = fd;
	file->block = file->firm = true;
	if (ioctl(fd, BLKGETSIZE64, &bytes))
		return wrong(t, -errno, "its size cannot be read: %s",
			     strerror(errno));
	if (size > bytes)
		return wrong(t, -ENOSPC, "the device has only %s",
			     ts_size_format(bytes, have, sizeof(have)));
	if (!force && has_header(fd) <= 0) {
		found = signature(fd, name, sizeof(name));
		if (found)
			return wrong(t, -EEXIST,
				     "the device holds %s; wipe it, or say spill-force=true",
				     found);
	}
	*ret_bytes = size ? size : bytes;
	return check_size(t, *ret_bytes) ?: lock_file(t, fd);
}

static bool read_works(int fd, void *buf, unsigned bytes)
{
	return pread(fd, buf, bytes, bytes) == (ssize_t)bytes;
}

/* Turn the page cache off if the file system lets us, and find the smallest
 * unit that it then accepts.
 */
static void probe_direct(struct ts_spill_file *file)
{
	int flags = fcntl(file->fd, F_GETFL);
	void *buf = aligned_alloc(4096, 4096);

	file->align = 0;
	if (buf && !fcntl(file->fd, F_SETFL, flags | O_DIRECT)) {
		if (read_works(file->fd, buf, 512))
			file->align = 512;
		else if (read_works(file->fd, buf, 4096))
			file->align = 4096;
	}
	file->direct = file->align;
	if (!file->direct) {
		/* Whole pages of the cache. */
		file->align = 4096;
		fcntl(file->fd, F_SETFL, flags);
		/* No read-ahead into a cache that is to stay small. */
		posix_fadvise(file->fd, 0, 0, POSIX_FADV_RANDOM);
	}
	free(buf);
}

static int set_up(const struct text *t, struct ts_spill_file *file,
		  uint64_t size, bool force)
{
	uint64_t bytes = 0;
	struct stat st;
	int err;

	if (fstat(file->fd, &st))
		return wrong(t, -errno, "%s", strerror(errno));
	if (S_ISREG(st.st_mode)) {
		err = lock_file(t, file->fd);
		if (!err)
			err = set_up_regular(t, file, &st, size, force,
					     &bytes);
	} else if (S_ISBLK(st.st_mode)) {
		err = set_up_block(t, file, size, force, &bytes);
	} else {
		err = wrong(t, -EINVAL,
			    "is neither a regular file nor a block device");
	}
	if (err)
		return err;
	file->n_segments = (uint32_t)(bytes >> TS_SEGMENT_SHIFT) - 1;
	err = write_header(t, file->fd);
	if (!err)
		probe_direct(file);
	return err;
}

int ts_spill_file_open(struct ts_spill_file *file, const char *path,
		       uint64_t size, bool force, char *err, size_t err_bytes)
{
	struct text t = { .at = err, .bytes = err_bytes, .path = path };
	int error;

	*file = (struct ts_spill_file){ .fd = -1 };
	error = open_path(&t, &file->fd);
	if (!error)
		error = set_up(&t, file, size, force);
	if (error)
		ts_spill_file_close(file);
	return error;
}

void ts_spill_file_close(struct ts_spill_file *file)
{
	if (file->fd >= 0)
		close(file->fd);
	file->fd = -1;
}

bool ts_spill_file_can_discard(const struct ts_spill_file *file)
{
	/* A file keeps the room that is reserved for it. */
	return !file->no_discard && (file->block || !file->firm);
}

void ts_spill_file_discard(struct ts_spill_file *file, uint32_t segment,
			   uint32_t n)
{
	uint64_t range[2] = { ts_segment_off(segment),
			      (uint64_t)n << TS_SEGMENT_SHIFT };
	int err;

	if (file->block)
		err = ioctl(file->fd, BLKDISCARD, range);
	else
		err = fallocate(file->fd,
				FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE,
				(off_t)range[0], (off_t)range[1]);
	if (err && errno != EINTR && errno != EAGAIN)
		file->no_discard = true;
}

void ts_spill_file_uncache(const struct ts_spill_file *file, uint64_t off,
			   uint64_t bytes, bool written)
{
	if (file->direct)
		return;
	/* Only clean pages leave the cache. */
	if (written)
		sync_file_range(file->fd, (off_t)off, (off_t)bytes,
				SYNC_FILE_RANGE_WAIT_BEFORE |
					SYNC_FILE_RANGE_WRITE |
					SYNC_FILE_RANGE_WAIT_AFTER);
	posix_fadvise(file->fd, (off_t)off, (off_t)bytes, POSIX_FADV_DONTNEED);
}
