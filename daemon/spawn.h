/* SPDX-License-Identifier: BSD-3-Clause */
/* spawn.h - start a program, as a server of swap or as a passing helper
 *
 * Servers (nbdkit, the FUSE server) inherit the daemon's place outside the
 * OOM killer's choice and its flusher flag, and get one malloc arena and small
 * thread stacks; their argv[0] begins with "@", which systemd's last kill at
 * shutdown spares. Helpers (mkswap, swapon, swapoff) get all of that put back
 * to normal: they need memory, and may be killed for it.
 *
 * Every child has a session of its own, so that Ctrl-C reaches the daemon
 * alone: it decides what may end while swap is on.
 */
#ifndef TS_DAEMON_SPAWN_H
#define TS_DAEMON_SPAWN_H

#include <stdbool.h>
#include <sys/types.h>

#include "error.h"

/* Where a child finds what it is lent. */
#define TS_SPAWN_LENT_FD 3

/* The name of a child's thread in /proc until its exec gives it another. */
#define TS_SPAWN_COMM "ts-spawn"

struct ts_spawn {
	const char *const *argv; /* 31 at most; argv[0] is looked up in PATH */
	int listen_fd; /* passed as descriptor 3, LISTEN_FDS=1; or -1 */
	int standby_fd; /* passed as 4, THINSWAP_STANDBY=4; or -1 */
	int output_fd; /* standard output and error; -1: the daemon's */
	bool serves_swap;
	bool realtime; /* SCHED_RR, the lowest priority of it */

	/* Called before the child becomes the program: should this process be
	 * killed, there is no program that nobody knows of. NULL: nothing.
	 */
	int (*note)(void *opaque, pid_t pid);
	void *opaque;
};

/* A helper that gets nothing. */
#define TS_SPAWN(args)                                                        \
	((struct ts_spawn){ .argv = (args),                                   \
			    .listen_fd = -1,                                  \
			    .standby_fd = -1,                                 \
			    .output_fd = -1 })

struct ts_child {
	char name[32];
	pid_t pid; /* 0: there is none */
	int pidfd;
};

/* An exit status that nobody could read: not our child, see server.h. */
#define TS_STATUS_UNKNOWN (-1)

/* A child that is not there yet. */
#define TS_CHILD_NONE ((struct ts_child){.pidfd = -1})

/* Start it. Fails with what execve said if it cannot be run. */
int ts_spawn(const struct ts_spawn *how, struct ts_child *ret,
	     struct ts_error *error);

/* True until the child has ended; does not reap it. */
bool ts_child_is_alive(const struct ts_child *child);

/* Wait up to @timeout_ms (-1: for ever) for its end and reap it.
 * Returns 0 with the exit status, or 128 + signal, or TS_STATUS_UNKNOWN in
 * @ret_status; -ETIMEDOUT while it lives.
 */
int ts_child_wait(struct ts_child *child, int timeout_ms, int *ret_status);

/* SIGTERM, and SIGKILL if that does not end it within @grace_ms; reaps it.
 * Nothing to do for a child that is not there.
 */
void ts_child_stop(struct ts_child *child, int grace_ms);

/* By its descriptor, so never to another process. It is not reaped. */
void ts_child_signal(const struct ts_child *child, int sig);

/* SIGKILL: for a server that must not end cleanly, since it would take what
 * it keeps with it; reaps it.
 */
void ts_child_kill(struct ts_child *child);

/* Run a helper to its end. -ETIMEDOUT (and SIGKILL) after @timeout_ms;
 * -EBUSY when it failed and said that the device is busy; -EIO for any other
 * failure. The sentence names the program and quotes its last line.
 */
int ts_run(const char *const *argv, int timeout_ms, struct ts_error *error);

/* The same, with what it said: a pipe full at most. */
int ts_run_read(const char *const *argv, int timeout_ms, char *ret_output,
		size_t room, struct ts_error *error);

#endif
