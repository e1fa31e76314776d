// SPDX-License-Identifier: BSD-3-Clause
/* adopt.c - what a dead instance left in use is taken over, not replaced
 *
 * The kernel is asked what is on as swap, the notes only what it belongs to.
 * A server that lives still has its listening socket, which ours was a copy
 * of; should it die later, a new socket takes that one's place.
 */
#include "adopt.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "daemon.h"
#include "log.h"
#include "memory.h"
#include "place.h"
#include "server.h"

static int take_server(struct ts_daemon *d, pid_t pid,
		       const struct ts_args *wanted, struct ts_error *error)
{
	int err;

	err = ts_server_adopt(&d->rt, pid, wanted, &d->server_args,
			      &d->server, error);
	if (err < 0)
		return err;
	d->adopted = true;
	d->server_lived = true;
	ts_log(LOG_NOTICE, "taking over %s (pid %d), that a dead instance "
	       "left", d->server.name, pid);
	d->server_differs = !ts_args_equal(&d->server_args, wanted);
	return 0;
}

/* The daemon may have been killed between starting a successor and connecting
 * the device to it; then the kernel waits for connections.
 */
static bool must_connect(const struct ts_attach *found, pid_t orphan)
{
	return found->ops->reconnect && found->served_by != orphan;
}

/* A loop device goes when its last user closes it; swap is one, so are we. */
static void hold_device(struct ts_attach *attach)
{
	if (attach->ops == &ts_attach_fuse)
		attach->device_fd = open(attach->device, O_RDWR | O_CLOEXEC);
}

/* A FUSE connection lives as long as somebody holds it: what was handed over
 * does, and what the server was lent.
 */
static void take_connection(struct ts_daemon *d, const struct ts_attach *found,
			    pid_t orphan)
{
	int pidfd;

	if (found->ops->front->has_socket || d->listen_fd >= 0 ||
	    (found->ops->lacks_successor && found->ops->lacks_successor()))
		return;
	d->listen_fd = ts_place_handed_over();
	if (d->listen_fd >= 0 || !orphan)
		return;
	pidfd = syscall(SYS_pidfd_open, orphan, 0);
	if (pidfd >= 0) {
		d->listen_fd = syscall(SYS_pidfd_getfd, pidfd,
				       TS_SPAWN_LENT_FD, 0);
		close(pidfd);
	}
	if (d->listen_fd < 0)
		ts_log(LOG_WARNING, "the FUSE connection of pid %d cannot be "
		       "held as well (%m): should it die, what is swapped "
		       "out is lost", orphan);
}

static int take_swap(struct ts_daemon *d, const struct ts_attach *found,
		     pid_t orphan, struct ts_error *error)
{
	struct ts_args wanted = { .n = 0 };
	struct ts_memory memory;
	int err;

	take_connection(d, found, orphan);
	if (!orphan && (!found->ops->reconnect ||
			!ts_front_can_reach(found->ops->front, d->listen_fd) ||
			ts_memory_look(&d->rt, &memory) < 0))
		return -ENOENT;
	if (orphan) {
		found->ops->front->command(&d->config, &d->rt, &wanted);
		err = take_server(d, orphan, &wanted, error);
		if (err < 0)
			return err;
		d->must_connect = must_connect(found, orphan);
	} else {
		ts_log(LOG_WARNING, "the server of %s is dead; its memory, "
		       "segment %d, is kept, and a new one takes it over",
		       found->device, memory.segment);
		d->must_connect = true;
	}
	d->adopted = true;
	d->attach = *found;
	hold_device(&d->attach);
	return 0;
}

static bool has_arg(const struct ts_args *args, const char *arg)
{
	for (unsigned i = 0; i < args->n; i++)
		if (strcmp(args->argv[i], arg) == 0)
			return true;
	return false;
}

/* A server without a device is taken over only where that is how it is meant
 * to be: behind a bare socket nobody can tell who needs what it keeps. One that
 * keeps nothing must also be as configured.
 */
static int take_bare(struct ts_daemon *d, pid_t orphan, struct ts_error *error)
{
	struct ts_args wanted = { .n = 0 }, running = { .n = 0 };
	char keep[TS_RUNTIME_PATH_BYTES + 8], path[TS_RUNTIME_PATH_BYTES];
	struct ts_child child;
	int err;

	ts_front_nbd.command(&d->config, &d->rt, &wanted);
	err = ts_server_adopt(&d->rt, orphan, &wanted, &running, &child,
			      error);
	if (err < 0)
		return err == -ESRCH ? err : -ENOENT;
	close(child.pidfd);
	snprintf(keep, sizeof(keep), "keep=%s",
		 ts_runtime_path(&d->rt, TS_MEMORY_FILE, path));
	if (!has_arg(&running, keep) && !ts_args_equal(&running, &wanted))
		return -ENOENT;
	d->attach.ops = &ts_attach_none;
	return take_server(d, orphan, &wanted, error);
}

static int adopt(struct ts_daemon *d, struct ts_error *error)
{
	pid_t orphan = ts_server_find_orphan(&d->rt);
	struct ts_attach found = d->attach;
	int err;

	if (ts_attach_find_swap(&d->rt, &found) == 0)
		return take_swap(d, &found, orphan, error);
	if (d->config.device.attach != TS_ATTACH_NONE || !orphan)
		return -ENOENT;
	err = ts_attach_reclaim(&d->rt, error);
	return err < 0 ? err : take_bare(d, orphan, error);
}

int ts_adopt(struct ts_daemon *d, struct ts_error *error)
{
	int err = adopt(d, error);

	/* One that was found alive has died since; it is not found again. */
	return err == -ESRCH ? adopt(d, error) : err;
}
