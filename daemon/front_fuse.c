// SPDX-License-Identifier: BSD-3-Clause
/* front_fuse.c - thinswap-fuse: the engine behind a FUSE file
 *
 * It mounts in a private directory and ends when the mount is gone. Before a
 * start, the mount that a dead instance left is taken away; loop devices on it
 * are gone by then (see ts_attach_reclaim()).
 *
 * It keeps no memory for a successor: when it dies, the kernel fails all that
 * its mount is asked, at once and for good, so that nothing could be served
 * from what was kept.
 */
#include "front.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#include "filereader.h"

#define MOUNT_NAME "fuse"
#define PROGRAM    "thinswap-fuse"

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
}

static int fuse_prepare(const struct ts_config *config,
			const struct ts_runtime *rt, int *ret_fd,
			struct ts_error *error)
{
	char path[TS_RUNTIME_PATH_BYTES];

	ts_runtime_path(rt, MOUNT_NAME, path);
	fuse_tidy(rt, -1);
	if (mkdir(path, 0700) < 0)
		return ts_fail(error, -errno, "mkdir %s: %m", path);
	*ret_fd = -1;
	return 0;
}

static void fuse_command(const struct ts_config *config,
			 const struct ts_runtime *rt, struct ts_args *args)
{
	const char *program = config->tuning.fuse, *beside;
	char path[PATH_MAX], mount[TS_RUNTIME_PATH_BYTES];

	beside = ts_front_beside(PROGRAM, path, sizeof(path));
	if (strcmp(program, PROGRAM) == 0 && beside)
		program = beside;
	ts_args_add(args, "%s", program);
	ts_args_add(args, "--threads");
	ts_args_add(args, "%d", config->tuning.threads);
	ts_args_add(args, "%s", ts_runtime_path(rt, MOUNT_NAME, mount));
	ts_args_add(args, "size=%" PRIu64, config->device.size_bytes);
	ts_args_add_engine(args, config, rt);
}

const struct ts_front_ops ts_front_fuse = {
	.path = MOUNT_NAME "/swap",
	.prepare = fuse_prepare,
	.tidy = fuse_tidy,
	.command = fuse_command,
	.probe = &ts_filereader_ops,
};
