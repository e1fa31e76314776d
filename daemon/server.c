// SPDX-License-Identifier: BSD-3-Clause
/* server.c - a front end of the engine, as the daemon's child
 *
 * An orphan is recognised by pid and start time, so that a process which has
 * got the pid since is never touched.
 */
#include "server.h"

#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#define TS_SERVER_NOTE "nbdkit.pid"
#define TS_SERVER_GRACE_MS 10000
#define TS_SERVER_GONE_MS  60000
#define EXEC_STEP_US	   5000

/* Field 22 of its stat: with the pid, it names a process for good. It has
 * ended when it is only waited for, though threads of it may be on their way
 * out still.
 */
static int look_up(pid_t pid, unsigned long long *ret, bool *ret_ended)
{
	char path[32], stat[1024];
	const char *at;
	size_t got;
	FILE *file;

	snprintf(path, sizeof(path), "/proc/%d/stat", pid);
	file = fopen(path, "re");
	if (!file)
		return -ESRCH;
	got = fread(stat, 1, sizeof(stat) - 1, file);
	fclose(file);
	stat[got] = '\0';
	at = strrchr(stat, ')');
	if (!at || at[1] != ' ')
		return -ESRCH;
	*ret_ended = at[2] == 'Z' || at[2] == 'X';
	for (int field = 2; at && field < 22; field++)
		at = strchr(at + 1, ' ');
	if (!at)
		return -ESRCH;
	*ret = strtoull(at, NULL, 10);
	return 0;
}

static int start_time(pid_t pid, unsigned long long *ret)
{
	bool ended;
	int err = look_up(pid, ret, &ended);

	return err == 0 && ended ? -ESRCH : err;
}

int ts_server_note(const struct ts_runtime *rt, const char *note, pid_t pid)
{
	unsigned long long started;
	char text[64];

	/* One that has ended already needs no note. */
	if (start_time(pid, &started) < 0)
		return 0;
	snprintf(text, sizeof(text), "%d %llu", pid, started);
	return ts_runtime_note(rt, note, text);
}

int ts_server_note_moved(const struct ts_runtime *rt, const char *note,
			 struct ts_error *error)
{
	char from[TS_RUNTIME_PATH_BYTES], to[TS_RUNTIME_PATH_BYTES];

	if (rename(ts_runtime_path(rt, note, from),
		   ts_runtime_path(rt, TS_SERVER_NOTE, to)) < 0)
		return ts_fail(error, -errno, "rename %s: %m", from);
	return 0;
}

static int note_server(void *opaque, pid_t pid)
{
	return ts_server_note(opaque, TS_SERVER_NOTE, pid);
}

int ts_server_start(const struct ts_args *args, const struct ts_runtime *rt,
		    int listen_fd, bool realtime, struct ts_child *ret,
		    struct ts_error *error)
{
	struct ts_spawn how = TS_SPAWN(args->argv);
	int err;

	how.listen_fd = listen_fd;
	how.serves_swap = true;
	how.realtime = realtime;
	how.note = note_server;
	how.opaque = (void *)rt;
	err = ts_spawn(&how, ret, error);
	if (err < 0)
		ts_server_forget(rt);
	return err;
}

void ts_server_stop(const struct ts_runtime *rt, struct ts_child *server)
{
	if (server->pid <= 0)
		return;
	ts_child_stop(server, TS_SERVER_GRACE_MS);
	ts_server_forget(rt);
}

void ts_server_kill(const struct ts_runtime *rt, struct ts_child *server)
{
	if (server->pid <= 0)
		return;
	ts_child_kill(server);
	ts_server_forget(rt);
}

void ts_server_forget(const struct ts_runtime *rt)
{
	ts_runtime_forget(rt, TS_SERVER_NOTE);
}

static int read_noted(const struct ts_runtime *rt, const char *note,
		      unsigned long long *ret_started)
{
	char text[64];
	int pid;

	if (ts_runtime_read_note(rt, note, text, sizeof(text)) < 0 ||
	    sscanf(text, "%d %llu", &pid, ret_started) != 2 || pid <= 0)
		return 0;
	return pid;
}

/* Wait until the last thread of a process that is ending is gone, and with it
 * the locks, sockets and memory that it holds.
 */
static void wait_gone(int pidfd)
{
	struct pollfd end = { .fd = pidfd, .events = POLLIN };

	while (poll(&end, 1, TS_SERVER_GONE_MS) < 0 && errno == EINTR)
		;
}

static pid_t find_noted(const struct ts_runtime *rt, const char *note)
{
	unsigned long long noted, now;
	pid_t pid = read_noted(rt, note, &noted);
	int pidfd = pid ? (int)syscall(SYS_pidfd_open, pid, 0) : -1;
	bool ended = true;

	if (pidfd < 0)
		return 0;
	if (look_up(pid, &now, &ended) < 0 || now != noted)
		ended = true;
	else if (ended)
		wait_gone(pidfd);
	close(pidfd);
	return ended ? 0 : pid;
}

pid_t ts_server_find_orphan(const struct ts_runtime *rt)
{
	return find_noted(rt, TS_SERVER_NOTE);
}

bool ts_server_kill_noted(const struct ts_runtime *rt, const char *note)
{
	struct ts_child child = { .pid = find_noted(rt, note) };

	if (!child.pid)
		return false;
	child.pidfd = syscall(SYS_pidfd_open, child.pid, 0);
	if (child.pidfd < 0)
		return false;
	/* The pid may have passed to another process meanwhile. */
	if (find_noted(rt, note) != child.pid) {
		close(child.pidfd);
		return false;
	}
	ts_child_kill(&child);
	return true;
}

static bool awaits_exec(pid_t pid)
{
	char path[32], name[32] = "";
	FILE *file;

	snprintf(path, sizeof(path), "/proc/%d/comm", pid);
	file = fopen(path, "re");
	if (!file)
		return false;
	if (fgets(name, sizeof(name), file))
		name[strcspn(name, "\n")] = '\0';
	fclose(file);
	return strcmp(name, TS_SPAWN_COMM) == 0;
}

/* The daemon may have been killed between the fork and the exec of its server,
 * and until that the command line is the daemon's.
 */
static void wait_for_exec(const struct ts_child *child)
{
	for (int us = 0; us < TS_SERVER_GONE_MS * 1000 &&
			 awaits_exec(child->pid) && ts_child_is_alive(child);
	     us += EXEC_STEP_US)
		usleep(EXEC_STEP_US);
}

/* Its first argument is a name for systemd, not a path; see spawn.c. */
static int read_command(pid_t pid, const struct ts_args *program,
			struct ts_args *ret)
{
	char path[32], text[sizeof(ret->room)];
	size_t got, at;
	FILE *file;

	snprintf(path, sizeof(path), "/proc/%d/cmdline", pid);
	file = fopen(path, "re");
	if (!file)
		return -errno;
	got = fread(text, 1, sizeof(text) - 1, file);
	fclose(file);
	text[got] = '\0';
	at = strlen(text) + 1;
	if (at >= got)
		return -ESRCH;
	ts_args_add(ret, "%s", program->argv[0]);
	for (; at < got; at += strlen(text + at) + 1)
		ts_args_add(ret, "%s", text + at);
	return 0;
}

int ts_server_adopt(const struct ts_runtime *rt, pid_t pid,
		    const struct ts_args *program, struct ts_args *ret_args,
		    struct ts_child *ret, struct ts_error *error)
{
	const char *base = strrchr(program->argv[0], '/');
	struct ts_child child = { .pid = pid };
	int err;

	child.pidfd = syscall(SYS_pidfd_open, pid, 0);
	if (child.pidfd < 0)
		return ts_fail(error, -errno, "pidfd_open: %m");
	/* The pid may have passed to another process since it was looked up;
	 * the descriptor cannot.
	 */
	err = ts_server_find_orphan(rt) == pid ? 0 : -ESRCH;
	if (err == 0) {
		wait_for_exec(&child);
		err = read_command(pid, program, ret_args);
		/* A process without a command line is on its way out. */
		if (err == -ESRCH)
			wait_gone(child.pidfd);
	}
	if (err < 0) {
		close(child.pidfd);
		return ts_fail(error, err, "take over pid %d: %m", pid);
	}
	snprintf(child.name, sizeof(child.name), "%s",
		 base ? base + 1 : program->argv[0]);
	*ret = child;
	return 0;
}

/* A file that was replaced, as package managers do, is "deleted" to those who
 * have the old one mapped.
 */
bool ts_server_is_outdated(pid_t pid)
{
	bool outdated = false;
	char *line = NULL;
	size_t room = 0;
	char path[32];
	FILE *file;

	snprintf(path, sizeof(path), "/proc/%d/maps", pid);
	file = fopen(path, "re");
	if (!file)
		return false;
	while (!outdated && getline(&line, &room, file) > 0)
		outdated = (strstr(line, "nbdkit") ||
			    strstr(line, "thinswap-fuse")) &&
			   strchr(line, '/') && strstr(line, " (deleted)\n");
	free(line);
	fclose(file);
	return outdated;
}

int ts_server_end_orphan(const struct ts_runtime *rt, pid_t pid,
			 struct ts_error *error)
{
	struct pollfd end = { .events = POLLIN };
	int ended;

	end.fd = syscall(SYS_pidfd_open, pid, 0);
	if (end.fd < 0)
		return errno == ESRCH ? 0 : ts_fail(error, -errno,
						    "pidfd_open: %m");
	/* The pid may have passed to another process since it was looked up;
	 * the descriptor cannot.
	 */
	if (ts_server_find_orphan(rt) != pid) {
		close(end.fd);
		return 0;
	}
	syscall(SYS_pidfd_send_signal, end.fd, SIGTERM, NULL, 0);
	ended = poll(&end, 1, TS_SERVER_GRACE_MS);
	if (ended == 0) {
		syscall(SYS_pidfd_send_signal, end.fd, SIGKILL, NULL, 0);
		ended = poll(&end, 1, TS_SERVER_GRACE_MS);
	}
	close(end.fd);
	if (ended <= 0)
		return ts_fail(error, -EBUSY,
			       "the server that a dead instance left (pid %d) "
			       "does not end", pid);
	ts_runtime_forget(rt, TS_SERVER_NOTE);
	return 0;
}
