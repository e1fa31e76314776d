// SPDX-License-Identifier: BSD-3-Clause
/* spawn.c - start a program, as a server of swap or as a passing helper
 *
 * fork and exec by hand: posix_spawn can neither set LISTEN_PID (the child's
 * own pid) nor touch prctl and oom_score_adj. The daemon has threads, so the
 * child only makes system calls between the two; all text is made before.
 *
 * Why helpers are put back: swapoff marks itself as the first victim of the
 * OOM killer, in spite of oom_score_adj, which is right for a program of its
 * own and would be the end of a daemon that called swapoff(2) itself. And
 * under the flusher flag its allocations could not wait for memory.
 *
 * malloc in servers: without the trim and mmap thresholds glibc gives buffers
 * back and takes them again, and the second taking is a page fault on the
 * path of swap.
 */
#include "spawn.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/close_range.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "util/harden.h"

#define TS_SERVER_STACK_BYTES (256u << 10)
#define TS_LISTEN_FD TS_SPAWN_LENT_FD
#define TS_SPAWN_ARGS 31

#define PID_PREFIX "LISTEN_PID="

static const char *const server_env[] = {
	"MALLOC_ARENA_MAX=1",
	"MALLOC_TRIM_THRESHOLD_=1073741824",
	"MALLOC_MMAP_THRESHOLD_=33554432",
	/* For the plugin: nbdkit started on a listening socket asks the kernel
	 * to be told to stop when its parent dies.
	 */
	"THINSWAP_OUTLIVES_PARENT=1",
};

/* What must not reach a child: systemd's notes to the daemon, languages. */
static bool is_dropped(const char *entry)
{
	static const char *const dropped[] = {
		"NOTIFY_SOCKET=", "WATCHDOG_", "LISTEN_", "MALLOC_", "LC_",
		"LANG", "FDSTORE=",
	};

	for (size_t i = 0; i < sizeof(dropped) / sizeof(*dropped); i++)
		if (strncmp(entry, dropped[i], strlen(dropped[i])) == 0)
			return true;
	return false;
}

/* The child's environment in one allocation; @pid_text is to be filled in. */
static const char **make_env(const struct ts_spawn *how, const char *pid_text)
{
	size_t n = 0, at = 0;
	const char **env;

	while (environ[n])
		n++;
	env = calloc(n + 9, sizeof(*env));
	if (!env)
		return NULL;
	for (size_t i = 0; i < n; i++)
		if (!is_dropped(environ[i]))
			env[at++] = environ[i];
	env[at++] = "LC_ALL=C";
	if (how->serves_swap)
		for (size_t i = 0; i < sizeof(server_env) / sizeof(*server_env);
		     i++)
			env[at++] = server_env[i];
	if (how->listen_fd >= 0) {
		env[at++] = "LISTEN_FDS=1";
		env[at++] = pid_text;
	}
	return env;
}

/* A name that begins with "@" is spared by systemd's last kill at shutdown
 * (systemd.io/ROOT_STORAGE_DAEMONS): servers of swap must outlive swapoff.
 */
static void copy_argv(const struct ts_spawn *how, const char *name,
		      char *argv0, size_t room, const char **ret_argv)
{
	unsigned n = 0;

	while (n < TS_SPAWN_ARGS && how->argv[n]) {
		ret_argv[n] = how->argv[n];
		n++;
	}
	ret_argv[n] = NULL;
	if (!how->serves_swap)
		return;
	snprintf(argv0, room, "@%s", name);
	ret_argv[0] = argv0;
}

/* Async-signal-safe decimal. */
static void put_decimal(char *at, unsigned long value)
{
	char digits[24];
	int n = 0;

	do {
		digits[n++] = '0' + value % 10;
		value /= 10;
	} while (value);
	while (n)
		*at++ = digits[--n];
	*at = '\0';
}

static void harden_child(const struct ts_spawn *how)
{
	struct rlimit stack;
	struct sched_param rr = { .sched_priority = 1 };

	if (!how->serves_swap) {
		ts_harden_oom_score_adj(0);
		ts_harden_io_flusher(false);
		return;
	}
	/* The soft limit is what glibc makes thread stacks of. */
	if (getrlimit(RLIMIT_STACK, &stack) == 0) {
		stack.rlim_cur = TS_SERVER_STACK_BYTES;
		setrlimit(RLIMIT_STACK, &stack);
	}
	if (how->realtime)
		sched_setscheduler(0, SCHED_RR, &rr);
	/* What failed here is found by reading it back from /proc. */
}

static void child_main(const struct ts_spawn *how, const char **argv,
		       const char **env, char *pid_text, int fail_fd)
{
	struct sigaction fallback = { .sa_handler = SIG_DFL };
	sigset_t none;
	int null, err;

	for (int sig = 1; sig < NSIG; sig++)
		sigaction(sig, &fallback, NULL);
	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
	setsid();
	put_decimal(pid_text + strlen(PID_PREFIX), getpid());

	null = open("/dev/null", O_RDWR | O_CLOEXEC);
	if (null >= 0)
		dup2(null, STDIN_FILENO);
	if (how->output_fd >= 0) {
		dup2(how->output_fd, STDOUT_FILENO);
		dup2(how->output_fd, STDERR_FILENO);
	}
	/* The pipe that tells of a failed exec must not be number 3. */
	fail_fd = fcntl(fail_fd, F_DUPFD_CLOEXEC, TS_LISTEN_FD + 1);
	syscall(SYS_close_range, TS_LISTEN_FD, ~0u, CLOSE_RANGE_CLOEXEC);
	if (how->listen_fd == TS_LISTEN_FD)
		fcntl(TS_LISTEN_FD, F_SETFD, 0);
	else if (how->listen_fd >= 0)
		dup2(how->listen_fd, TS_LISTEN_FD);

	harden_child(how);
	execvpe(how->argv[0], (char *const *)argv, (char *const *)env);
	err = errno;
	if (write(fail_fd, &err, sizeof(err)) < 0)
		_exit(126);
	_exit(127);
}

int ts_spawn(const struct ts_spawn *how, struct ts_child *ret,
	     struct ts_error *error)
{
	char pid_text[sizeof(PID_PREFIX) + 24] = PID_PREFIX;
	struct ts_child child = TS_CHILD_NONE;
	const char *base = strrchr(how->argv[0], '/');
	const char *argv[TS_SPAWN_ARGS + 1], **env;
	char argv0[sizeof(child.name) + 1];
	int fail[2], exec_errno, err;

	snprintf(child.name, sizeof(child.name), "%s",
		 base ? base + 1 : how->argv[0]);
	copy_argv(how, child.name, argv0, sizeof(argv0), argv);
	env = make_env(how, pid_text);
	if (!env)
		return ts_fail(error, -ENOMEM, "%s: %m", child.name);
	if (pipe2(fail, O_CLOEXEC) < 0) {
		err = ts_fail(error, -errno, "pipe for %s: %m", child.name);
		free(env);
		return err;
	}
	child.pid = fork();
	if (child.pid == 0)
		child_main(how, argv, env, pid_text, fail[1]);
	err = child.pid < 0 ? -errno : 0;
	close(fail[1]);
	free(env);
	if (err < 0) {
		close(fail[0]);
		return ts_fail(error, err, "fork for %s: %m", child.name);
	}
	child.pidfd = syscall(SYS_pidfd_open, child.pid, 0);
	if (child.pidfd < 0) {
		err = ts_fail(error, -errno, "pidfd_open: %m");
		kill(child.pid, SIGKILL);
		waitpid(child.pid, NULL, 0);
	} else if (read(fail[0], &exec_errno, sizeof(exec_errno)) ==
		   sizeof(exec_errno)) {
		ts_child_wait(&child, -1, NULL);
		err = ts_fail(error, -exec_errno, "cannot run %s: %m",
			      how->argv[0]);
	}
	close(fail[0]);
	if (err == 0)
		*ret = child;
	return err;
}

static bool has_ended(const struct ts_child *child, int timeout_ms)
{
	struct pollfd end = { .fd = child->pidfd, .events = POLLIN };
	int got;

	do {
		got = poll(&end, 1, timeout_ms);
	} while (got < 0 && errno == EINTR);
	return got > 0;
}

bool ts_child_is_alive(const struct ts_child *child)
{
	return child->pid > 0 && !has_ended(child, 0);
}

int ts_child_wait(struct ts_child *child, int timeout_ms, int *ret_status)
{
	int status = 0, got;

	if (!has_ended(child, timeout_ms))
		return -ETIMEDOUT;
	do {
		got = waitpid(child->pid, &status, 0);
	} while (got < 0 && errno == EINTR);
	close(child->pidfd);
	child->pidfd = -1;
	child->pid = 0;
	if (!ret_status)
		return 0;
	if (got < 0)
		*ret_status = TS_STATUS_UNKNOWN;
	else
		*ret_status = WIFSIGNALED(status) ? 128 + WTERMSIG(status) :
						    WEXITSTATUS(status);
	return 0;
}

/* By its descriptor: the pid of what is not our child can be another's. */
static void send_signal(const struct ts_child *child, int sig)
{
	syscall(SYS_pidfd_send_signal, child->pidfd, sig, NULL, 0);
}

void ts_child_stop(struct ts_child *child, int grace_ms)
{
	if (child->pid <= 0)
		return;
	send_signal(child, SIGTERM);
	if (ts_child_wait(child, grace_ms, NULL) < 0)
		ts_child_kill(child);
}

void ts_child_kill(struct ts_child *child)
{
	if (child->pid <= 0)
		return;
	send_signal(child, SIGKILL);
	ts_child_wait(child, -1, NULL);
}

/* Keep the last non-empty line of what the helper said. */
static void last_line(const char *output, char *buf, size_t room)
{
	size_t end = strlen(output), start;

	while (end && output[end - 1] == '\n')
		end--;
	for (start = end; start && output[start - 1] != '\n'; start--)
		;
	snprintf(buf, room, "%.*s", (int)(end - start), output + start);
}

int ts_run(const char *const *argv, int timeout_ms, struct ts_error *error)
{
	struct ts_spawn how = { .argv = argv, .listen_fd = -1 };
	char output[4096] = "", line[256];
	struct ts_child child;
	int fds[2], status, err;
	ssize_t got;

	if (pipe2(fds, O_CLOEXEC | O_NONBLOCK) < 0)
		return ts_fail(error, -errno, "pipe for %s: %m", argv[0]);
	how.output_fd = fds[1];
	err = ts_spawn(&how, &child, error);
	close(fds[1]);
	if (err < 0)
		goto out;
	/* Helpers say a few lines: the pipe holds them until the end. */
	if (ts_child_wait(&child, timeout_ms, &status) < 0) {
		kill(child.pid, SIGKILL);
		ts_child_wait(&child, -1, NULL);
		err = ts_fail(error, -ETIMEDOUT,
			      "%s did not end within %d s and was killed",
			      argv[0], timeout_ms / 1000);
		goto out;
	}
	got = read(fds[0], output, sizeof(output) - 1);
	output[got > 0 ? got : 0] = '\0';
	if (status != 0) {
		last_line(output, line, sizeof(line));
		err = strstr(output, "busy") ? -EBUSY : -EIO;
		ts_fail(error, err, "%s failed with status %d%s%s", argv[0],
			status, line[0] ? ": " : "", line);
	}
out:
	close(fds[0]);
	return err;
}
