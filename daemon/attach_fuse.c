// SPDX-License-Identifier: BSD-3-Clause
/* attach_fuse.c - the route over FUSE and a loop device
 *
 * thinswap-fuse holds the engine and shows it as one file in a private
 * directory, and a loop device with direct I/O makes a block device of it. It
 * needs neither kernel nbd nor netlink, and is what containers and many cloud
 * kernels have.
 *
 * The limit is in the kernel: loop's worker and FUSE allocate memory on the
 * path of a page-out and may not use the reserves, so that whole-machine
 * pressure can stop it for good, whatever this side does. Inside a memory
 * cgroup the rest of the machine has memory, and it works.
 */
#include "attach.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <linux/falloc.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "fuse/connection.h"
#include "log.h"
#include "loop.h"
#include "stop.h"
#include "swaparea.h"
#include "util/harden.h"

#define WARM_THREADS 16
#define WARM_BYTES (1u << 20)
#define WARM_ROUNDS 20
#define WARM_READS 4
#define WARM_STACK_BYTES (128u << 10)

static int fuse_usable(const struct ts_config *config, struct ts_error *error)
{
	const char *fuse[] = { config->tuning.modprobe, "fuse", NULL };
	const char *loop[] = { config->tuning.modprobe, "loop", NULL };
	struct ts_error told;

	if (!ts_harden_has_capability(CAP_SYS_ADMIN))
		return ts_fail(error, -EPERM, "a loop device and its mount "
			       "need root (CAP_SYS_ADMIN)");
	if (access("/dev/fuse", F_OK) < 0)
		ts_run(fuse, 10000, &told);
	if (access("/dev/fuse", R_OK | W_OK) < 0)
		return ts_fail(error, -errno, "/dev/fuse: %m");
	if (access("/dev/loop-control", F_OK) < 0)
		ts_run(loop, 10000, &told);
	if (access("/dev/loop-control", R_OK | W_OK) < 0)
		return ts_fail(error, -errno, "/dev/loop-control: %m");
	return 0;
}

struct warmer {
	int fd;
	size_t bytes;
	int err;
};

static void *warm_thread(void *opaque)
{
	struct warmer *warmer = opaque;
	uint64_t *buf;

	if (posix_memalign((void **)&buf, 4096, warmer->bytes) != 0) {
		warmer->err = -ENOMEM;
		return NULL;
	}
	ts_nbd_warm_pattern(buf, warmer->bytes);
	if (pwrite(warmer->fd, buf, warmer->bytes, 0) < 0)
		warmer->err = -errno;
	for (int i = 0; i < WARM_READS && warmer->err == 0; i++)
		if (pread(warmer->fd, buf, warmer->bytes, 0) < 0)
			warmer->err = -errno;
	free(buf);
	return NULL;
}

static int warm_round(int fd, size_t bytes, struct ts_error *error)
{
	struct warmer warmers[WARM_THREADS];
	pthread_t threads[WARM_THREADS];
	unsigned started = 0;
	pthread_attr_t attr;
	int err = 0;

	pthread_attr_init(&attr);
	pthread_attr_setstacksize(&attr, WARM_STACK_BYTES);
	while (started < WARM_THREADS && err == 0) {
		warmers[started] = (struct warmer){ .fd = fd, .bytes = bytes };
		err = -pthread_create(&threads[started], &attr, warm_thread,
				      &warmers[started]);
		if (err == 0)
			started++;
	}
	pthread_attr_destroy(&attr);
	while (started--) {
		pthread_join(threads[started], NULL);
		if (warmers[started].err < 0)
			err = warmers[started].err;
	}
	return err < 0 ? ts_fail(error, err, "warm-up through FUSE: %m") : 0;
}

static uint64_t faults_of(const struct ts_attach *attach)
{
	struct ts_harden_facts server = {0};

	ts_harden_observe(attach->server->pid, &server);
	return server.minor_faults + server.major_faults;
}

/* As ts_nbd_warm(), through the file. */
static int warm_file(struct ts_attach *attach, const char *file,
		     struct ts_error *error)
{
	size_t bytes = attach->size_bytes < WARM_BYTES ? attach->size_bytes :
							 WARM_BYTES;
	int fd = open(file, O_RDWR | O_DIRECT | O_CLOEXEC), err = 0;

	if (fd < 0)
		return ts_fail(error, -errno, "open %s: %m", file);
	attach->warmth = (struct ts_nbd_warmth){0};
	while (err == 0 && attach->warmth.rounds < WARM_ROUNDS) {
		uint64_t before = faults_of(attach);

		if (ts_stop_is_requested())
			err = ts_fail(error, -ECANCELED, "told to stop");
		else
			err = warm_round(fd, bytes, error);
		attach->warmth.rounds++;
		attach->warmth.last_faults = faults_of(attach) - before;
		if (attach->warmth.rounds > 2 &&
		    attach->warmth.last_faults == 0)
			break;
	}
	if (err == 0 && fallocate(fd, FALLOC_FL_PUNCH_HOLE |
				      FALLOC_FL_KEEP_SIZE, 0, bytes) < 0)
		err = ts_fail(error, -errno, "discard after warm-up: %m");
	close(fd);
	return err;
}

static int fuse_attach(struct ts_attach *attach, struct ts_error *error)
{
	char file[TS_RUNTIME_PATH_BYTES];
	struct ts_error second;
	struct stat st;
	int err;

	ts_runtime_path(attach->rt, ts_front_fuse.path, file);
	if (stat(file, &st) < 0)
		return ts_fail(error, -errno, "%s: %m", file);
	attach->size_bytes = st.st_size;
	attach->connections = ts_front_fuse_threads(attach->config);
	err = warm_file(attach, file, error);
	if (err < 0)
		return err;
	err = ts_loop_attach(file, attach->device, sizeof(attach->device),
			     &attach->device_fd, error);
	if (err < 0)
		goto out;
	err = ts_attach_note(attach, error);
	if (err == 0)
		return 0;
	if (ts_loop_detach(attach->device, attach->device_fd, &second) < 0)
		ts_log(LOG_ERR, "%s", second.text);
	attach->device_fd = -1;
out:
	attach->device[0] = '\0';
	return err;
}

static int fuse_detach(struct ts_attach *attach, struct ts_error *error)
{
	int err = ts_loop_detach(attach->device, attach->device_fd, error);

	attach->device_fd = -1;
	ts_attach_forget(attach);
	return err;
}

/* The loop device never knew that the server was another: the connection is
 * the same, and the successor has had the kernel send again what was open.
 */
static int fuse_reconnect(struct ts_attach *attach, struct ts_error *error)
{
	attach->warmth = (struct ts_nbd_warmth){0};
	return 0;
}

static const char *fuse_lacks_successor(void)
{
	return ts_fuse_can_resend() ? NULL : "Linux 6.9 (FUSE_NOTIFY_RESEND)";
}

/* By the backing file: whatever the note says, and also without one. */
static int fuse_reclaim(const struct ts_runtime *rt, const char *device,
			struct ts_error *error)
{
	char found[TS_DEVICE_BYTES];
	struct ts_swap_use use;

	if (ts_loop_find(rt->dir, found, sizeof(found)) == 0 &&
	    ts_swap_lookup(found, &use) == 0)
		return ts_fail(error, -EBUSY, "%s is on as swap, with a file "
			       "that a dead instance serves: run swapoff %s "
			       "(what its server no longer has is lost) or "
			       "reboot", found, found);
	return ts_loop_reclaim(rt->dir, NULL, error);
}

const struct ts_attach_ops ts_attach_fuse = {
	.name = "fuse",
	.front = &ts_front_fuse,
	.usable = fuse_usable,
	.attach = fuse_attach,
	.detach = fuse_detach,
	.reconnect = fuse_reconnect,
	.reclaim = fuse_reclaim,
	.limits = "loop and FUSE allocate in the kernel while they write "
		  "pages out: this route serves memory cgroups, and can hang "
		  "when the whole machine runs out of memory",
	.lacks_successor = fuse_lacks_successor,
};
