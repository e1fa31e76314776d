/* SPDX-License-Identifier: BSD-3-Clause */
/* peek.h - look into a segment that another process serves, or has left
 *
 * Read-only, and nobody notices: the server is not asked, so it may be
 * stalled or dead; the segment is mapped for a moment only, so a successor is
 * not kept from taking it over; and reading brings in no memory where the
 * segment has none. What is read can change at any time: read it again before
 * believing it.
 */
#ifndef TS_PEEK_H
#define TS_PEEK_H

#include "kept.h"
#include "word.h"

#include <sys/types.h>

struct ts_peek {
	int segment;
	int fd;              /* of the segment's pages, or -1: it is mapped */
	const uint8_t *base; /* then */
	size_t bytes;
	struct ts_kept_head head; /* as it was when it was opened */
	struct ts_kept_layout at;
	uint64_t n_clusters;
	uint32_t n_leaves;
};

/* Open a segment. Returns 0, or -errno with a sentence in @err: -ENOENT (there
 * is none), -EACCES, -EPROTO (of another version), -EINVAL (not one of ours).
 */
int ts_peek_open(struct ts_peek *peek, int segment, char *err,
		 size_t err_bytes);
void ts_peek_close(struct ts_peek *peek);

/* The segment that a living process serves, kept or not; -errno with a
 * sentence in @err: -ENOENT (it has none), -ESRCH (no such process), -EACCES.
 */
int ts_peek_find(pid_t pid, char *err, size_t err_bytes);

/* Read a range. Returns 0, -ERANGE or -EIO. */
int ts_peek_read(const struct ts_peek *peek, uint64_t off, void *ret,
		 size_t bytes);

/* Read a range of the blocks. */
static inline int ts_peek_blocks(const struct ts_peek *peek, uint64_t off,
				 void *ret, size_t bytes)
{
	return ts_peek_read(peek, peek->at.blocks + off, ret, bytes);
}

/* The steps from a slot to its word. What is outside the memory is -ERANGE;
 * what is not there is 0, with an entry of 0 or the word none.
 *
 * @ret_block  number of the leaf's block + 1
 * @ret_page   number of the page of words + 1
 */
int ts_peek_root(const struct ts_peek *peek, uint64_t leaf,
		 uint32_t *ret_block);
int ts_peek_entry(const struct ts_peek *peek, uint64_t cluster,
		  uint32_t *ret_page);
int ts_peek_word(const struct ts_peek *peek, uint64_t slot, ts_word *ret_word);

#endif
