// SPDX-License-Identifier: BSD-3-Clause
/* front_fuse.c - thinswap-fuse: the engine behind a FUSE file
 *
 * It serves in a private directory and ends when the mount is gone. Before a
 * start, the mount that a dead instance left is taken away; loop devices on it
 * are gone by then (see ts_attach_reclaim()).
 *
 * Where the kernel can send requests again (Linux 6.9), the daemon mounts and
 * holds the connection (fuse/connection.h), the server keeps its memory, and
 * a successor goes on with both. Elsewhere the server mounts and keeps none:
 * what it had received and not answered would be waited for without end, so it
 * is better that all fails at once when it dies.
 */
#include "front.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#include "filereader.h"
#include "fuse/connection.h"
#include "loop.h"
#include "memory.h"
#include "swaparea.h"

#define MOUNT_NAME "fuse"
#define PROGRAM    "thinswap-fuse"

/* So that a read is not behind a write that compresses. */
#define MIN_THREADS 2

/* The server ends when the mount is gone; with MNT_DETACH, when the last user
 * is.
 */
static void fuse_tidy(const struct ts_runtime *rt, int fd)
{
	char path[TS_RUNTIME_PATH_BYTES];

	ts_runtime_path(rt, MOUNT_NAME, path);
	if (umount2(path, UMOUNT_NOFOLLOW) < 0 && errno == EBUSY)
		umount2(path, UMOUNT_NOFOLLOW | MNT_DETACH);
	rmdir(path);
	if (fd >= 0)
		close(fd);
}

/* The kernel ends a connection that has lost its last descriptor: a mount
 * under swap is then as lost as its pages, and no new one helps.
 */
static bool holds_swap(const struct ts_runtime *rt, char ret_device[32])
{
	struct ts_swap_use use;

	return ts_loop_find(rt->dir, ret_device, 32) == 0 &&
	       ts_swap_lookup(ret_device, &use) == 0;
}

static void fuse_abort(const struct ts_runtime *rt)
{
	char path[TS_RUNTIME_PATH_BYTES], device[32];

	if (!holds_swap(rt, device))
		umount2(ts_runtime_path(rt, MOUNT_NAME, path),
			UMOUNT_NOFOLLOW | MNT_FORCE);
}

unsigned ts_front_fuse_threads(const struct ts_config *config)
{
	unsigned n = (unsigned)config->tuning.threads;
	long cores = sysconf(_SC_NPROCESSORS_ONLN);

	if (cores < MIN_THREADS)
		cores = MIN_THREADS;
	if (!config->spill.path[0] && n > cores)
		n = (unsigned)cores;
	return n;
}

static int make_connection(const struct ts_config *config, const char *path,
			   int *ret_fd, struct ts_error *error)
{
	struct ts_fuse_connection connection;
	int err;

	err = ts_fuse_connection_open(path, ts_front_fuse_threads(config),
				      &connection, error);
	if (err < 0)
		return err;
	err = ts_fuse_connection_pack(&connection, ret_fd, error);
	ts_fuse_connection_close(&connection);
	return err;
}

static int fuse_prepare(const struct ts_config *config,
			const struct ts_runtime *rt, int *ret_fd,
			struct ts_error *error)
{
	char path[TS_RUNTIME_PATH_BYTES], device[32];
	int err = 0, fd = -1;

	if (holds_swap(rt, device))
		return ts_fail(error, -EBUSY, "%s is on as swap, and its FUSE "
			       "connection is lost", device);
	ts_runtime_path(rt, MOUNT_NAME, path);
	fuse_tidy(rt, -1);
	if (mkdir(path, 0700) < 0)
		return ts_fail(error, -errno, "mkdir %s: %m", path);
	if (ts_fuse_can_resend())
		err = make_connection(config, path, &fd, error);
	if (err < 0)
		fuse_tidy(rt, -1);
	else
		*ret_fd = fd;
	return err;
}

static void fuse_command(const struct ts_config *config,
			 const struct ts_runtime *rt, struct ts_args *args)
{
	const char *program = config->tuning.fuse, *beside;
	char path[PATH_MAX], file[TS_RUNTIME_PATH_BYTES];

	beside = ts_front_beside(PROGRAM, path, sizeof(path));
	if (strcmp(program, PROGRAM) == 0 && beside)
		program = beside;
	ts_args_add(args, "%s", program);
	ts_args_add(args, "--threads");
	ts_args_add(args, "%u", ts_front_fuse_threads(config));
	if (ts_fuse_can_resend()) {
		ts_args_add(args, "--connection");
		ts_args_add(args, "3");
	}
	ts_args_add(args, "%s", ts_runtime_path(rt, MOUNT_NAME, file));
	ts_args_add(args, "size=%" PRIu64, config->device.size_bytes);
	ts_args_add_engine(args, config, rt);
	if (ts_fuse_can_resend())
		ts_args_add(args, "keep=%s",
			    ts_runtime_path(rt, TS_MEMORY_FILE, file));
}

const struct ts_front_ops ts_front_fuse = {
	.path = MOUNT_NAME "/swap",
	.prepare = fuse_prepare,
	.tidy = fuse_tidy,
	.abort = fuse_abort,
	.command = fuse_command,
	.probe = &ts_filereader_ops,
};
