/* SPDX-License-Identifier: BSD-3-Clause */
/* peek.c - look into a segment that another process serves, or has left
 *
 * A segment is a file of a tmpfs without a name. Once it is mapped, the kernel
 * lets us open that file (/proc/self/map_files, which takes the right to
 * checkpoint processes), and reading a file brings in no pages where it has
 * holes, as a mapping would. Without that right it stays mapped.
 *
 * A segment that goes with its process is marked as removed; Linux lets it be
 * mapped by its number as long as somebody has it mapped.
 */
#include "peek.h"
#include "cluster.h"
#include "util/atomic.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/shm.h>
#include <unistd.h>

static int refuse(char *err, size_t err_bytes, int error, int segment,
		  const char *why)
{
	snprintf(err, err_bytes, "segment %d: %s", segment, why);
	return error;
}

static int attach(struct ts_peek *peek)
{
	struct shmid_ds ds;
	char path[64];
	void *base;

	if (shmctl(peek->segment, IPC_STAT, &ds))
		return -errno;
	base = shmat(peek->segment, NULL, SHM_RDONLY);
	if (base == (void *)-1)
		return -errno;
	peek->bytes = ds.shm_segsz;
	snprintf(path, sizeof(path), "/proc/self/map_files/%lx-%lx",
		 (unsigned long)base,
		 (unsigned long)base + (peek->bytes + 4095) / 4096 * 4096);
	peek->fd = open(path, O_RDONLY | O_CLOEXEC);
	if (peek->fd >= 0) {
		shmdt(base);
	} else {
		peek->base = base;
		madvise(base, peek->bytes, MADV_DONTDUMP);
	}
	return 0;
}

static void lay_out(struct ts_peek *peek)
{
	const struct ts_kept_head *h = &peek->head;
	struct ts_kept_size size = {
		.n_slots = h->n_slots,
		.n_blocks = h->n_blocks,
		.n_segments = h->n_segments,
		.root_bytes = ts_clusters_root_bytes(h->n_slots),
	};

	peek->at = ts_kept_lay_out(&size);
	peek->n_leaves = (uint32_t)(size.root_bytes / sizeof(uint32_t));
	peek->n_clusters =
		(h->n_slots + TS_CLUSTER_SLOTS - 1) / TS_CLUSTER_SLOTS;
}

static int check_head(struct ts_peek *peek, char *err, size_t err_bytes)
{
	const struct ts_kept_head *h = &peek->head;

	if (ts_peek_read(peek, 0, &peek->head, sizeof(peek->head)) ||
	    memcmp(h->magic, "thinswap", sizeof(h->magic)) || !h->made)
		return refuse(err, err_bytes, -EINVAL, peek->segment,
			      "not a segment of thinswap");
	if (!ts_kept_readable(h))
		return refuse(err, err_bytes, -EPROTO, peek->segment,
			      "laid out by another version of thinswap; use the `thinswap` of that version");
	if (h->n_slots > TS_MAX_GRAINS || !h->n_slots)
		return refuse(err, err_bytes, -EINVAL, peek->segment,
			      "its head is damaged");
	lay_out(peek);
	if (peek->bytes < peek->at.bytes)
		return refuse(err, err_bytes, -EINVAL, peek->segment,
			      "its head is damaged: it is too short");
	return 0;
}

int ts_peek_open(struct ts_peek *peek, int segment, char *err,
		 size_t err_bytes)
{
	int error;

	*peek = (struct ts_peek){ .segment = segment, .fd = -1 };
	error = attach(peek);
	if (error == -EINVAL || error == -EIDRM)
		return refuse(err, err_bytes, -ENOENT, segment,
			      "there is no such segment of shared memory");
	if (error)
		return refuse(err, err_bytes, error, segment,
			      strerror(-error));
	error = check_head(peek, err, err_bytes);
	if (error)
		ts_peek_close(peek);
	return error;
}

void ts_peek_close(struct ts_peek *peek)
{
	if (peek->fd >= 0)
		close(peek->fd);
	if (peek->base)
		shmdt(peek->base);
	explicit_bzero(&peek->head, sizeof(peek->head));
	*peek = (struct ts_peek){ .fd = -1 };
}

/* In /proc/PID/maps, a segment's number stands where a file's inode does. */
int ts_peek_find(pid_t pid, char *err, size_t err_bytes)
{
	char path[32], line[512], why[256];
	struct ts_peek peek;
	int found = -ENOENT;
	FILE *maps;

	snprintf(path, sizeof(path), "/proc/%d/maps", (int)pid);
	maps = fopen(path, "re");
	if (!maps)
		found = errno == ENOENT ? -ESRCH : -errno;
	while (maps && found < 0 && fgets(line, sizeof(line), maps)) {
		int segment;

		if (!strstr(line, " /SYSV") ||
		    sscanf(line, "%*s %*s %*s %*s %d", &segment) != 1)
			continue;
		if (!ts_peek_open(&peek, segment, why, sizeof(why))) {
			ts_peek_close(&peek);
			found = segment;
		}
	}
	/* An empty file is what others than its owner see. */
	if (maps && found < 0 && ferror(maps))
		found = -EACCES;
	if (maps)
		fclose(maps);
	if (found < 0)
		snprintf(err, err_bytes, "process %d: %s", (int)pid,
			 found == -ENOENT ?
				 "serves no memory that can be looked at" :
				 strerror(found == -ESRCH ? ESRCH : -found));
	return found;
}

int ts_peek_read(const struct ts_peek *peek, uint64_t off, void *ret,
		 size_t bytes)
{
	if (off > peek->bytes || bytes > peek->bytes - off)
		return -ERANGE;
	if (peek->base) {
		memcpy(ret, peek->base + off, bytes);
		return 0;
	}
	return pread(peek->fd, ret, bytes, (off_t)off) == (ssize_t)bytes ?
		       0 :
		       -EIO;
}

int ts_peek_root(const struct ts_peek *peek, uint64_t leaf,
		 uint32_t *ret_block)
{
	int err = ts_peek_read(peek, peek->at.root + leaf * sizeof(uint32_t),
			       ret_block, sizeof(*ret_block));

	if (err)
		return err;
	*ret_block &= ~TS_ROOT_CLOSING;
	return *ret_block > peek->head.n_blocks ? -ERANGE : 0;
}

int ts_peek_entry(const struct ts_peek *peek, uint64_t cluster,
		  uint32_t *ret_page)
{
	uint32_t block;
	int err = ts_peek_root(peek, cluster / TS_LEAF_CLUSTERS, &block);

	*ret_page = 0;
	if (err || !block)
		return err;
	err = ts_peek_blocks(peek,
			     ((uint64_t)(block - 1) << TS_BLOCK_SHIFT) +
				     cluster % TS_LEAF_CLUSTERS *
					     sizeof(uint32_t),
			     ret_page, sizeof(*ret_page));
	if (err)
		return err;
	return *ret_page > (uint64_t)peek->head.n_blocks * TS_BLOCK_PAGES ?
		       -ERANGE :
		       0;
}

int ts_peek_word(const struct ts_peek *peek, uint64_t slot, ts_word *ret_word)
{
	uint32_t page;
	int err = ts_peek_entry(peek, slot / TS_CLUSTER_SLOTS, &page);

	*ret_word = ts_word_none();
	if (err || !page)
		return err;
	return ts_peek_blocks(peek,
			      (uint64_t)(page - 1) * 4096 +
				      slot % TS_CLUSTER_SLOTS *
					      sizeof(ts_word),
			      ret_word, sizeof(*ret_word));
}
