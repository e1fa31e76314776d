// SPDX-License-Identifier: BSD-3-Clause
/* main.c - thinswap-fuse: the engine behind a FUSE file, in one process
 *
 * The second front end beside the nbdkit plugin: it takes the same parameters
 * and serves the same store, as a file that a loop device makes a block
 * device of. It stays in the foreground, and it ends when the kernel has let
 * go of the mount, never before: a server that ends earlier takes every page
 * that is swapped out with it. SIGTERM and SIGINT therefore ask for an
 * unmount, which the kernel refuses while the file is in use.
 */
#include "build.h"
#include "log.h"
#include "serve.h"
#include "util/harden.h"

#include <errno.h>
#include <getopt.h>
#include <libgen.h>
#include <limits.h>
#include <malloc.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>
#include <systemd/sd-daemon.h>
#include <unistd.h>

/* Code, stacks, buffers and contexts. */
#define LOCKED_BESIDE_RAM_BYTES ((uint64_t)64 << 20)

struct options {
	struct ts_fuse_options fuse;
	struct ts_params params;
	int ready_fd;
	bool rehearse;
};

static const char usage[] =
	"Usage: thinswap-fuse [options] MOUNTPOINT size=SIZE [key=value...]\n"
	"Show a compressed, thin device as the file MOUNTPOINT/swap.\n"
	"  -t, --threads N    threads that answer (default 2 to 4, one a core)\n"
	"      --ready-fd FD  write a line there when the file can be used\n"
	"      --connection FD  serve a connection that is mounted already\n"
	"      --rehearse     say whether it could go on with keep=, and end\n"
	"  -h, --help\n"
	"  -V, --version\n"
	"Keys are those of nbdkit-thinswap-plugin(1): size, ram, level, ...\n"
	"It serves until the mount is gone; SIGTERM unmounts unless in use.\n";

static int parse_number(const char *text, unsigned min, unsigned max,
			unsigned *ret)
{
	unsigned long n;
	char *end;

	errno = 0;
	n = strtoul(text, &end, 10);
	if (errno || end == text || *end || text[0] == '-' || n < min ||
	    n > max)
		return -EINVAL;
	*ret = (unsigned)n;
	return 0;
}

/* The argument of the option that is being parsed. */
static int parse_fd(const char *option, int *ret)
{
	unsigned fd;

	if (parse_number(optarg, 0, 1u << 20, &fd)) {
		ts_log(LOG_ERR, "%s %s: not a descriptor", option, optarg);
		return -EINVAL;
	}
	*ret = (int)fd;
	return 0;
}

/* One a core is enough for what never waits. More are worse: the kernel wakes
 * them in turn, and each then has a place in the scheduler's queue of its own.
 */
static unsigned default_threads(void)
{
	long n = sysconf(_SC_NPROCESSORS_ONLN);

	return n < 2 ? 2 : n > 4 ? 4 : (unsigned)n;
}

/* It lies beside this program or where it is installed. */
static void find_trainer(struct ts_params *params)
{
	char exe[PATH_MAX];
	ssize_t len = readlink("/proc/self/exe", exe, sizeof(exe) - 1);

	exe[len > 0 ? len : 0] = '\0';
	ts_params_find_trainer(params, len > 0 ? dirname(exe) : NULL);
}

/* The command line stays as it is: thinswapd reads what a server was told. */
static int parse_parameter(struct options *o, const char *arg)
{
	const char *value = strchr(arg, '=');
	char key[64], err[512];

	if (!value) {
		ts_log(LOG_ERR, "%s: not a key=value parameter", arg);
		return -EINVAL;
	}
	snprintf(key, sizeof(key), "%.*s", (int)(value - arg), arg);
	if (ts_params_set(&o->params, key, value + 1, err, sizeof(err))) {
		ts_log(LOG_ERR, "%s", err);
		return -EINVAL;
	}
	return 0;
}

static int parse_parameters(struct options *o, int n, char **args)
{
	char err[512];

	for (int i = 0; i < n; i++)
		if (parse_parameter(o, args[i]) < 0)
			return -EINVAL;
	find_trainer(&o->params);
	if (ts_params_finish(&o->params, err, sizeof(err))) {
		ts_log(LOG_ERR, "%s", err);
		return -EINVAL;
	}
	o->fuse.size_bytes = o->params.size_bytes;
	o->fuse.may_wait = o->params.spill_path != NULL;
	return 0;
}

/* Returns 0, -EINVAL after a message, or 1: done, nothing to serve. */
static void log_event(void *opaque, enum ts_event_level level,
		      const char *text)
{
	ts_log(level == TS_EVENT_WARNING ? LOG_WARNING : LOG_INFO, "%s", text);
}

static int parse_options(struct options *o, int argc, char **argv)
{
	static const struct option long_options[] = {
		{"threads", required_argument, NULL, 't'},
		{"ready-fd", required_argument, NULL, 'r'},
		{"connection", required_argument, NULL, 'c'},
		{"rehearse", no_argument, NULL, 'R'},
		{"help", no_argument, NULL, 'h'},
		{"version", no_argument, NULL, 'V'},
		{0},
	};
	int c;

	*o = (struct options){.fuse.threads = default_threads(),
			      .fuse.connection_fd = -1,
			      .ready_fd = -1};
	ts_params_init(&o->params);
	o->params.event = log_event;
	while ((c = getopt_long(argc, argv, "t:hV", long_options, NULL)) !=
	       -1) {
		switch (c) {
		case 't':
			if (!parse_number(optarg, 1, TS_FUSE_THREADS_MAX,
					  &o->fuse.threads))
				break;
			ts_log(LOG_ERR, "--threads %s: must be 1 to %u", optarg,
			       TS_FUSE_THREADS_MAX);
			return -EINVAL;
		case 'r':
			if (!parse_fd("--ready-fd", &o->ready_fd))
				break;
			return -EINVAL;
		case 'c':
			if (!parse_fd("--connection", &o->fuse.connection_fd))
				break;
			return -EINVAL;
		case 'R':
			o->rehearse = true;
			break;
		case 'h':
			fputs(usage, stdout);
			return 1;
		case 'V':
			puts("thinswap-fuse " TS_VERSION);
			return 1;
		default:
			return -EINVAL;
		}
	}
	if (optind == argc) {
		fputs(usage, stderr);
		return -EINVAL;
	}
	o->fuse.mountpoint = argv[optind];
	return parse_parameters(o, argc - optind - 1, argv + optind + 1);
}

/* thinswapd reads back what holds and decides; by hand, people read this. */
static void complain(int err, const char *what, const char *risk)
{
	if (err)
		ts_log(LOG_WARNING, "%s: %s; at risk: %s", what, strerror(-err),
		       risk);
}

/* A lock that the limit would break later is not taken at all. */
static int lock_memory(const struct options *o)
{
	uint64_t limit;
	int err = ts_harden_memlock_limit(
		o->params.ram_bytes + LOCKED_BESIDE_RAM_BYTES, &limit);

	return err ? err : ts_harden_lock_memory();
}

/* Before any thread starts and before any buffer is touched. */
static void harden(const struct options *o)
{
	mallopt(M_ARENA_MAX, 1);
	complain(ts_harden_io_flusher(true), "I/O flusher flag",
		 "an allocation can wait for write-back that waits for it");
	complain(ts_harden_oom_score_adj(-1000), "oom_score_adj -1000",
		 "the OOM killer can choose it, and what it stores is lost");
	complain(lock_memory(o), "memory lock (CAP_IPC_LOCK, RLIMIT_MEMLOCK)",
		 "its own memory can be swapped out, to itself: a deadlock");
}

static void tell_ready(const struct options *o)
{
	sd_notify(0, "READY=1");
	if (o->ready_fd < 0)
		return;
	if (write(o->ready_fd, "\n", 1) != 1)
		ts_log(LOG_WARNING, "--ready-fd %d: %m", o->ready_fd);
	close(o->ready_fd);
}

static void try_unmount(struct ts_fuse *fuse)
{
	int err = ts_fuse_unmount(fuse);

	if (err == -EBUSY)
		ts_log(LOG_WARNING,
		       "told to stop, but the file is in use; "
		       "serving on until it is not (swapoff and detach the "
		       "loop device first)");
	else if (err)
		ts_log(LOG_ERR, "unmount: %s", strerror(-err));
}

/* Until the kernel has let go. */
static void wait_for_end(struct ts_fuse *fuse, int signal_fd)
{
	struct pollfd fds[] = {
		{.fd = ts_fuse_ended_fd(fuse), .events = POLLIN},
		{.fd = signal_fd, .events = POLLIN},
	};

	while (!fds[0].revents) {
		struct signalfd_siginfo info;

		if (poll(fds, 2, -1) < 0 && errno != EINTR)
			break;
		if (fds[1].revents &&
		    read(signal_fd, &info, sizeof(info)) == sizeof(info) &&
		    info.ssi_signo != SIGHUP)
			try_unmount(fuse);
	}
}

static int open_signals(void)
{
	sigset_t set;

	sigemptyset(&set);
	sigaddset(&set, SIGTERM);
	sigaddset(&set, SIGINT);
	sigaddset(&set, SIGHUP);
	sigprocmask(SIG_BLOCK, &set, NULL);
	signal(SIGPIPE, SIG_IGN);
	return signalfd(-1, &set, SFD_CLOEXEC);
}

static int start(const struct options *o, struct ts_store *store,
		 struct ts_fuse **ret, struct ts_error *error)
{
	int err = ts_fuse_mount(&o->fuse, store, ret, error);

	if (err)
		return err;
	err = ts_store_start(store);
	if (err)
		return ts_fail(error, err,
			       "cannot touch the first %llu bytes "
			       "of memory: %m",
			       (unsigned long long)o->params.reserve_bytes);
	err = ts_fuse_start(*ret, error);
	if (err)
		return err;
	complain(ts_harden_populate_code(NULL), "code in memory",
		 "code that runs for the first time is read from disk");
	return 0;
}

/* Beside a server that lives: nothing is mounted, and nothing changed. */
static int rehearse(struct options *o)
{
	struct ts_error error;
	int err = ts_store_rehearse(&o->params, error.text,
				    sizeof(error.text));

	if (err)
		ts_log(LOG_ERR, "%s", error.text);
	ts_params_fini(&o->params);
	return err ? 1 : 0;
}

int main(int argc, char **argv)
{
	struct ts_store *store = NULL;
	struct ts_fuse *fuse = NULL;
	struct ts_error error;
	struct options o;
	int signal_fd, err;

	ts_log_open();
	err = parse_options(&o, argc, argv);
	if (err)
		return err < 0 ? 2 : 0;
	if (o.rehearse)
		return rehearse(&o);
	signal_fd = open_signals();
	harden(&o);
	err = ts_store_new(&o.params, &store, error.text, sizeof(error.text));
	if (!err)
		err = start(&o, store, &fuse, &error);
	if (err) {
		ts_log(LOG_ERR, "%s", error.text);
	} else {
		tell_ready(&o);
		wait_for_end(fuse, signal_fd);
	}
	ts_fuse_free(fuse);
	ts_store_free(store);
	ts_params_fini(&o.params);
	return err ? 1 : 0;
}
