/* SPDX-License-Identifier: BSD-3-Clause */
/* file.h - the one file that thinswap-fuse shows, as FUSE operations
 *
 * The root is a private directory (0700) with the regular file "swap" (0600)
 * in it, as long as the device; neither can be renamed, removed or resized.
 * Every operation is at most one call of the store and answers in the thread
 * that received it.
 *
 * Reading   clipped at the end of the file, as of any file.
 * Writing   clipped too; what begins at or beyond the end is EFBIG.
 * Holes     punching and zeroing drop whole slots, which then cost nothing.
 *           Nothing can be preallocated (EOPNOTSUPP).
 * Syncing   is left unimplemented on purpose: the kernel asks once and then
 *           answers by itself. Memory has no durability to lose.
 */
#ifndef TS_FUSE_FILE_H
#define TS_FUSE_FILE_H

#include "thinswap.h"

#define FUSE_USE_VERSION FUSE_MAKE_VERSION(3, 14)
#include <fuse_lowlevel.h>

#define TS_FUSE_FILE "swap"

/* The longest read or write: what libfuse negotiates (256 pages). */
#define TS_FUSE_MAX_BYTES (1u << 20)

struct ts_fuse_file {
	struct ts_store *store;
	uint64_t size_bytes;
	struct timespec started;
	unsigned max_background; /* requests that the kernel sends at once */
	int inited_fd;           /* eventfd, written when the kernel is ready */
};

/* The userdata of the session is a struct ts_fuse_file. */
extern const struct fuse_lowlevel_ops ts_fuse_file_ops;

/* Page-aligned room of TS_FUSE_MAX_BYTES for the calling thread's answer; the
 * request's header stays intact. Supplied by serve.c.
 */
void *ts_fuse_answer_buffer(void);

#endif
