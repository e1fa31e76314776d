// SPDX-License-Identifier: BSD-3-Clause
/* guard.c - an end for what waits on a server that dies */
#include "guard.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <unistd.h>

struct ts_guard {
	pthread_t thread;
	int server_fd; /* the daemon's: it is not reaped meanwhile */
	int stop_fd;
	void (*act)(void *opaque);
	void *opaque;
	bool acted;
};

static void *guard_main(void *opaque)
{
	struct ts_guard *guard = opaque;
	struct pollfd fds[] = {
		{.fd = guard->stop_fd, .events = POLLIN},
		{.fd = guard->server_fd, .events = POLLIN},
	};

	while (poll(fds, 2, -1) < 0 && errno == EINTR)
		;
	if (!fds[0].revents && fds[1].revents) {
		guard->act(guard->opaque);
		guard->acted = true;
	}
	return NULL;
}

int ts_guard_start(const struct ts_child *server, void (*act)(void *opaque),
		   void *opaque, struct ts_guard **ret, struct ts_error *error)
{
	struct ts_guard *guard = calloc(1, sizeof(*guard));
	int err;

	if (!guard)
		return ts_fail(error, -ENOMEM, "guard: %m");
	guard->server_fd = server->pidfd;
	guard->act = act;
	guard->opaque = opaque;
	guard->stop_fd = eventfd(0, EFD_CLOEXEC);
	err = guard->stop_fd < 0 ? -errno :
				   -pthread_create(&guard->thread, NULL,
						   guard_main, guard);
	if (err < 0) {
		if (guard->stop_fd >= 0)
			close(guard->stop_fd);
		free(guard);
		return ts_fail(error, err, "guard: %m");
	}
	*ret = guard;
	return 0;
}

bool ts_guard_stop(struct ts_guard *guard)
{
	bool acted;

	if (!guard)
		return false;
	eventfd_write(guard->stop_fd, 1);
	pthread_join(guard->thread, NULL);
	acted = guard->acted;
	close(guard->stop_fd);
	free(guard);
	return acted;
}
