// SPDX-License-Identifier: BSD-3-Clause
/* test_connection.c - what keeps a FUSE connection over its server's death
 *
 * The packet of descriptors, the call that can be given up, and the guard;
 * without FUSE, so without root. Exits 0 when all holds, 1 with a sentence
 * otherwise.
 */
#include "require.h"
#include "fuse/connection.h"
#include "guard.h"
#include "patient.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

static ino_t inode(int fd)
{
	struct stat st;

	require(fstat(fd, &st) == 0, "fstat: %m");
	return st.st_ino;
}

static unsigned open_fds(void)
{
	unsigned n = 0;

	for (int fd = 0; fd < 256; fd++)
		n += fcntl(fd, F_GETFD) >= 0;
	return n;
}

/* The same open files come out, again and again, after ours are closed. */
static void test_packet(unsigned n)
{
	struct ts_fuse_connection in = {.n = n}, out;
	unsigned before = open_fds();
	struct ts_error error;
	ino_t wanted[TS_FUSE_FDS_MAX];
	int fd;

	for (unsigned i = 0; i < n; i++) {
		in.fd[i] = memfd_create("test", 0);
		require(in.fd[i] >= 0, "memfd_create: %m");
		wanted[i] = inode(in.fd[i]);
	}
	require(ts_fuse_connection_pack(&in, &fd, &error) == 0, "pack: %s",
		error.text);
	ts_fuse_connection_close(&in);
	require(open_fds() == before + 1, "%u descriptors: one holds all", n);
	for (int round = 0; round < 3; round++) {
		require(ts_fuse_connection_unpack(fd, &out, &error) == 0,
			"unpack: %s", error.text);
		require(out.n == n, "%u descriptors, not %u", out.n, n);
		for (unsigned i = 0; i < n; i++) {
			require(inode(out.fd[i]) == wanted[i], "another file");
			require(fcntl(out.fd[i], F_GETFD) & FD_CLOEXEC,
				"close on exec");
		}
		ts_fuse_connection_close(&out);
		require(out.n == 0, "closed");
	}
	close(fd);
	require(open_fds() == before, "nothing is left open");
}

static void refuse(int fd, int want, const char *what)
{
	struct ts_fuse_connection out;
	unsigned before = open_fds();
	struct ts_error error;
	int err = ts_fuse_connection_unpack(fd, &out, &error);

	require(err == want, "%s: %d, not %d", what, err, want);
	require(open_fds() == before, "%s: nothing is left open", what);
}

static void test_refused(void)
{
	int pair[2], fd;

	require(socketpair(AF_UNIX, SOCK_SEQPACKET, 0, pair) == 0,
		"socketpair: %m");
	refuse(pair[0], -EAGAIN, "an empty socket");
	require(send(pair[1], "hello", 5, 0) == 5, "send: %m");
	refuse(pair[0], -EPROTO, "another message");
	fd = memfd_create("test", 0);
	refuse(fd, -ENOTSOCK, "no socket");
	close(fd);
	refuse(-1, -EBADF, "no descriptor");
	close(pair[0]);
	close(pair[1]);
}

struct waiting {
	int go_fd, done_fd;
	int result;
};

static int wait_for_go(void *arg)
{
	struct waiting *waiting = arg;
	eventfd_t value;

	eventfd_read(waiting->go_fd, &value);
	waiting->result = 17;
	return 3;
}

static void tell_undone(void *arg)
{
	struct waiting *waiting = arg;

	require(waiting->result == 17, "the copy is what the call has left");
	eventfd_write(waiting->done_fd, 1);
}

static bool truth(void *opaque)
{
	return *(bool *)opaque;
}

static void test_patient(void)
{
	struct waiting waiting = {
		.go_fd = eventfd(0, 0),
		.done_fd = eventfd(0, 0),
	};
	bool stop = false;
	struct ts_patient how = {
		.call = wait_for_go,
		.undo = tell_undone,
		.timeout_ms = -1,
		.must_stop = truth,
		.opaque = &stop,
	};
	eventfd_t value;

	eventfd_write(waiting.go_fd, 1);
	require(ts_patient_call(&how, &waiting, sizeof(waiting)) == 3,
		"the call's own result");
	require(waiting.result == 17, "what the call has left");

	waiting.result = 0;
	how.timeout_ms = 50;
	require(ts_patient_call(&how, &waiting, sizeof(waiting)) ==
			-ETIMEDOUT,
		"a limit");
	eventfd_write(waiting.go_fd, 1);
	require(eventfd_read(waiting.done_fd, &value) == 0, "undone later");
	require(waiting.result == 0, "ours is not touched any more");

	how.timeout_ms = -1;
	stop = true;
	require(ts_patient_call(&how, &waiting, sizeof(waiting)) ==
			-ECANCELED,
		"told to stop");
	eventfd_write(waiting.go_fd, 1);
	require(eventfd_read(waiting.done_fd, &value) == 0, "undone later");
	close(waiting.go_fd);
	close(waiting.done_fd);
}

static void note(void *opaque)
{
	eventfd_write(*(int *)opaque, 1);
}

static void test_guard(bool dies)
{
	struct ts_child child = {.pid = fork()};
	int acted_fd = eventfd(0, EFD_NONBLOCK);
	struct pollfd acted = {.fd = acted_fd, .events = POLLIN};
	struct ts_guard *guard;
	struct ts_error error;

	if (child.pid == 0) {
		pause();
		_exit(0);
	}
	child.pidfd = (int)syscall(SYS_pidfd_open, child.pid, 0);
	require(child.pidfd >= 0, "pidfd_open: %m");
	require(ts_guard_start(&child, note, &acted_fd, &guard, &error) == 0,
		"guard: %s", error.text);
	if (dies) {
		kill(child.pid, SIGKILL);
		require(poll(&acted, 1, 30000) == 1, "it acts");
	}
	require(ts_guard_stop(guard) == dies, "it says what it did");
	require(poll(&acted, 1, 0) == dies, "it acts only then");
	kill(child.pid, SIGKILL);
	waitpid(child.pid, NULL, 0);
	close(child.pidfd);
	close(acted_fd);
}

int main(void)
{
	test_packet(1);
	test_packet(4);
	test_packet(TS_FUSE_FDS_MAX);
	test_refused();
	test_patient();
	test_guard(false);
	test_guard(true);
	require(!ts_guard_stop(NULL), "no guard");
	puts("ok: packets of descriptors, calls given up, guards");
	return 0;
}
