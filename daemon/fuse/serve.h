/* SPDX-License-Identifier: BSD-3-Clause */
/* serve.h - a mounted FUSE file and the threads that answer for it
 *
 *	ts_fuse_mount → ts_fuse_start → (serving) → the kernel lets go
 *	                                          → ts_fuse_free
 *
 * The kernel lets go when the last user has closed the file and the mount is
 * gone: by ts_fuse_unmount() or by anybody's umount. Until then the threads
 * serve, whatever happens to the process that started them.
 */
#ifndef TS_FUSE_SERVE_H
#define TS_FUSE_SERVE_H

#include "connection.h"
#include "error.h"
#include "thinswap.h"

#define TS_FUSE_THREADS_MAX TS_FUSE_FDS_MAX

struct ts_fuse;

struct ts_fuse_options {
	const char *mountpoint; /* an existing directory */
	int connection_fd;      /* of a connection that is mounted there already
				 * (connection.h); -1: make one */
	unsigned threads;       /* 1..TS_FUSE_THREADS_MAX */
	bool may_wait;          /* an answer may have to wait for a disk */
	uint64_t size_bytes;
};

/* Set aside everything that serving needs and mount, or take the connection
 * that there is over. Starts no thread.
 */
int ts_fuse_mount(const struct ts_fuse_options *options, struct ts_store *store,
		  struct ts_fuse **ret, struct ts_error *error);

/* Start the threads, and wait until the kernel has taken up a new connection. */
int ts_fuse_start(struct ts_fuse *fuse, struct ts_error *error);

/* Becomes readable when the kernel has let go. */
int ts_fuse_ended_fd(const struct ts_fuse *fuse);

/* Take the mount away. -EBUSY while the file is in use. */
int ts_fuse_unmount(struct ts_fuse *fuse);

/* Unmount if need be what ts_fuse_mount() has mounted, end the threads and
 * free all. NULL is fine. Only after the kernel has let go, or before
 * ts_fuse_start().
 */
void ts_fuse_free(struct ts_fuse *fuse);

#endif
