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
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "util/harden.h"

#define TS_SERVER_STACK_BYTES (256u << 10)
#define TS_LISTEN_FD TS_SPAWN_LENT_FD
#define TS_STANDBY_FD 4 /* what plugin/standby.c takes; see there */
#define TS_STANDBY_ENV "THINSWAP_STANDBY=4"
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
		"LANG", "FDSTORE=", "THINSWAP_STANDBY=",
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
	env = calloc(n + 10, sizeof(*env));
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
	if (how->standby_fd >= 0)
		env[at++] = TS_STANDBY_ENV;
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

static int copy_above(int fd)
{
	return fd < 0 ? -1 : fcntl(fd, F_DUPFD_CLOEXEC, TS_STANDBY_FD + 1);
}

static void child_main(const struct ts_spawn *how, const char **argv,
		       const char **env, char *pid_text, int go_fd,
		       int fail_fd)
{
	struct sigaction fallback = { .sa_handler = SIG_DFL };
	int null, listen_fd, standby_fd, err;
	sigset_t none;
	char go;

	prctl(PR_SET_NAME, TS_SPAWN_COMM);
	/* Until the parent has noted us; should it be gone, we go too. */
	if (read(go_fd, &go, 1) != 1)
		_exit(127);
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
	/* What the child gets is first copied above the numbers that it has
	 * there, so that no copy overwrites another.
	 */
	fail_fd = copy_above(fail_fd);
	listen_fd = copy_above(how->listen_fd);
	standby_fd = copy_above(how->standby_fd);
	syscall(SYS_close_range, TS_LISTEN_FD, ~0u, CLOSE_RANGE_CLOEXEC);
	if (listen_fd >= 0)
		dup2(listen_fd, TS_LISTEN_FD);
	if (standby_fd >= 0)
		dup2(standby_fd, TS_STANDBY_FD);

	harden_child(how);
	execvpe(how->argv[0], (char *const *)argv, (char *const *)env);
	err = errno;
	if (write(fail_fd, &err, sizeof(err)) < 0)
		_exit(126);
	_exit(127);
}

/* The child waits for a byte: give it, once it is noted. */
static int let_go(const struct ts_spawn *how, pid_t pid, int go_fd,
		  struct ts_error *error)
{
	int err = how->note ? how->note(how->opaque, pid) : 0;

	if (err < 0)
		return ts_fail(error, err, "note the pid of %s: %m",
			       how->argv[0]);
	if (write(go_fd, "", 1) != 1)
		return ts_fail(error, -errno, "start %s: %m", how->argv[0]);
	return 0;
}

/* From its fork to its exec. @go and @fail are pipes. */
static int start_child(const struct ts_spawn *how, const char **argv,
		       int *go, int *fail, struct ts_child *child,
		       struct ts_error *error)
{
	char pid_text[sizeof(PID_PREFIX) + 24] = PID_PREFIX;
	const char **env = make_env(how, pid_text);
	int exec_errno, err = 0;

	if (!env)
		return ts_fail(error, -ENOMEM, "%s: %m", child->name);
	child->pid = fork();
	if (child->pid == 0) {
		close(go[1]);
		child_main(how, argv, env, pid_text, go[0], fail[1]);
	}
	if (child->pid < 0)
		err = ts_fail(error, -errno, "fork for %s: %m", child->name);
	close(fail[1]);
	fail[1] = -1;
	free(env);
	if (err < 0)
		return err;
	child->pidfd = syscall(SYS_pidfd_open, child->pid, 0);
	if (child->pidfd < 0)
		err = ts_fail(error, -errno, "pidfd_open: %m");
	if (err == 0)
		err = let_go(how, child->pid, go[1], error);
	if (err < 0) {
		kill(child->pid, SIGKILL);
		waitpid(child->pid, NULL, 0);
		if (child->pidfd >= 0)
			close(child->pidfd);
	} else if (read(fail[0], &exec_errno, sizeof(exec_errno)) ==
		   sizeof(exec_errno)) {
		ts_child_wait(child, -1, NULL);
		err = ts_fail(error, -exec_errno, "cannot run %s: %m",
			      how->argv[0]);
	}
	return err;
}

static void close_pipe(const int *ends)
{
	for (int i = 0; i < 2; i++)
		if (ends[i] >= 0)
			close(ends[i]);
}

int ts_spawn(const struct ts_spawn *how, struct ts_child *ret,
	     struct ts_error *error)
{
	int go[2] = { -1, -1 }, fail[2] = { -1, -1 }, err;
	const char *base = strrchr(how->argv[0], '/');
	struct ts_child child = TS_CHILD_NONE;
	const char *argv[TS_SPAWN_ARGS + 1];
	char argv0[sizeof(child.name) + 1];

	snprintf(child.name, sizeof(child.name), "%s",
		 base ? base + 1 : how->argv[0]);
	copy_argv(how, child.name, argv0, sizeof(argv0), argv);
	if (pipe2(go, O_CLOEXEC) < 0 || pipe2(fail, O_CLOEXEC) < 0)
		err = ts_fail(error, -errno, "pipe for %s: %m", child.name);
	else
		err = start_child(how, argv, go, fail, &child, error);
	close_pipe(go);
	close_pipe(fail);
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
void ts_child_signal(const struct ts_child *child, int sig)
{
	syscall(SYS_pidfd_send_signal, child->pidfd, sig, NULL, 0);
}

void ts_child_stop(struct ts_child *child, int grace_ms)
{
	if (child->pid <= 0)
		return;
	ts_child_signal(child, SIGTERM);
	if (ts_child_wait(child, grace_ms, NULL) < 0)
		ts_child_kill(child);
}

void ts_child_kill(struct ts_child *child)
{
	if (child->pid <= 0)
		return;
	ts_child_signal(child, SIGKILL);
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

int ts_run_read(const char *const *argv, int timeout_ms, char *ret_output,
		size_t room, struct ts_error *error)
{
	struct ts_spawn how = TS_SPAWN(argv);
	struct ts_child child;
	int fds[2], status, err;
	char line[256];
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
	got = read(fds[0], ret_output, room - 1);
	ret_output[got > 0 ? got : 0] = '\0';
	if (status != 0) {
		last_line(ret_output, line, sizeof(line));
		err = strstr(ret_output, "busy") ? -EBUSY : -EIO;
		ts_fail(error, err, "%s failed with status %d%s%s", argv[0],
			status, line[0] ? ": " : "", line);
	}
out:
	close(fds[0]);
	return err;
}

int ts_run(const char *const *argv, int timeout_ms, struct ts_error *error)
{
	char output[4096];

	return ts_run_read(argv, timeout_ms, output, sizeof(output), error);
}
