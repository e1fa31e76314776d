/* SPDX-License-Identifier: BSD-3-Clause */
/* runtime.h - the runtime directory: one owner, its sockets and its notes
 *
 * Everything an instance leaves on the file system lies in one directory
 * (default /run/thinswap). Instances with different directories do not meet.
 *
 *   lock         held as long as the daemon lives; names its pid
 *   socket       NBD, served by nbdkit; not on the FUSE route
 *   control      the control socket of `thinswap`
 *   nbdkit.pid   the server: pid and start time
 *   stats        statistics of the store; everybody may read them
 *   device       the attached block device and its route
 *   memory       names the memory that nbdkit keeps over its death; memory.h
 *   fuse/        where thinswap-fuse mounts its file
 *
 * Owner    ts_runtime_open() takes the lock or fails with -EBUSY and names
 *          who has it. Whoever holds the lock may replace what the dead left.
 */
#ifndef TS_DAEMON_RUNTIME_H
#define TS_DAEMON_RUNTIME_H

#include <stdbool.h>
#include <sys/types.h>

#include "error.h"

/* Leaves room for "/control" and a temporary name in a sockaddr_un. */
#define TS_RUNTIME_DIR_BYTES 80
#define TS_RUNTIME_PATH_BYTES 128

struct ts_runtime {
	char dir[TS_RUNTIME_DIR_BYTES];
	int lock_fd;
};

/* The directory used when none is given: /run/thinswap for root, thinswap in
 * $XDG_RUNTIME_DIR for others. Returns @buf, or NULL when there is none.
 */
const char *ts_runtime_default_dir(char *buf, size_t room);

/* Make the directory if need be (0755, and ours alone to write), and take the
 * lock. Touches nothing else in it.
 *
 * @lock_fd  the lock as the image before an upgrade held it, which is used or
 *           closed; -1 where there was none
 */
int ts_runtime_open(const char *dir, int lock_fd, struct ts_runtime *ret,
		    struct ts_error *error);

/* Give the lock back. The directory stays. */
void ts_runtime_close(struct ts_runtime *rt);

/* "<dir>/<name>"; returns @buf. */
char *ts_runtime_path(const struct ts_runtime *rt, const char *name,
		      char buf[static TS_RUNTIME_PATH_BYTES]);

/* Make a listening unix socket at <dir>/<name>. It has its exact mode and
 * group, and listens, before it is visible under that name. A stale socket is
 * replaced in one step; one that somebody serves is left alone: -EADDRINUSE.
 *
 * @gid  (gid_t)-1 keeps the group
 */
int ts_runtime_listen(const struct ts_runtime *rt, const char *name,
		      mode_t mode, gid_t gid, int *ret_fd,
		      struct ts_error *error);

/* Give an existing socket another mode and group. */
int ts_runtime_set_access(const struct ts_runtime *rt, const char *name,
			  mode_t mode, gid_t gid, struct ts_error *error);

/* Notes: one short line each, replaced in one step. Reading one that is not
 * there is -ENOENT; forgetting it is no error.
 */
int ts_runtime_note(const struct ts_runtime *rt, const char *name,
		    const char *text);
int ts_runtime_read_note(const struct ts_runtime *rt, const char *name,
			 char *ret_text, size_t room);
void ts_runtime_forget(const struct ts_runtime *rt, const char *name);

#endif
