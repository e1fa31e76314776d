// SPDX-License-Identifier: BSD-3-Clause
/* main.c - thinswapd: compressed swap from one configuration file */
#include <errno.h>
#include <getopt.h>
#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <systemd/sd-daemon.h>
#include <time.h>
#include <unistd.h>

#include "build.h"
#include "daemon.h"
#include "drain.h"
#include "fdstore.h"
#include "handover.h"
#include "log.h"
#include "stop.h"
#include "upgrade.h"
#include "watch.h"

enum {
	EXIT_FAILED = 1,
	EXIT_USAGE = 2,
	EXIT_CONFIG = 6, /* systemd: "program not configured" */
};

#define START_TRIES 3

static const char help[] =
	"Usage: thinswapd [OPTION]...\n"
	"\n"
	"Serve compressed swap as a block device, until SIGTERM; see\n"
	"thinswapd(8). Stays in the foreground. SIGHUP reads the file again.\n"
	"\n"
	"  --config FILE      default " TS_CONFIG_FILE "; need not exist\n"
	"  --runtime-dir DIR  sockets and lock; default /run/thinswap\n"
	"  -h, --help         print this help\n"
	"  -V, --version      print the version\n"
	"\n"
	"Exit code: 0 stopped when told to, 1 failed, 2 wrong usage,\n"
	"6 the configuration is not good.\n";

static int usage(const char *sentence)
{
	fprintf(stderr, "thinswapd: %s; see thinswapd --help\n", sentence);
	return EXIT_USAGE;
}

/* -1 to go on, or an exit code. */
static int parse_options(int argc, char **argv, struct ts_daemon *d)
{
	static const struct option longs[] = {
		{"config", required_argument, NULL, 'c'},
		{"runtime-dir", required_argument, NULL, 'r'},
		{"help", no_argument, NULL, 'h'},
		{"version", no_argument, NULL, 'V'},
		{0},
	};
	int opt;

	opterr = 0;
	while ((opt = getopt_long(argc, argv, "hV", longs, NULL)) != -1) {
		switch (opt) {
		case 'c':
			d->config_path = optarg;
			break;
		case 'r':
			d->runtime_dir = optarg;
			break;
		case 'h':
			fputs(help, stdout);
			return 0;
		case 'V':
			puts("thinswapd " TS_VERSION);
			return 0;
		default:
			return usage("unknown option, or one without its "
				     "argument");
		}
	}
	return optind < argc ? usage("no arguments are taken") : -1;
}

static void log_line(void *opaque, const char *line)
{
	ts_log(*(const int *)opaque, "%s", line);
}

static int load_config(struct ts_daemon *d)
{
	const int info = LOG_INFO, warning = LOG_WARNING;
	struct ts_config_error error;

	if (ts_config_load(d->config_path, &d->config, &error) < 0) {
		ts_log(LOG_ERR, "%s", error.text);
		sd_notifyf(0, "STATUS=%s", error.message);
		return EXIT_CONFIG;
	}
	ts_config_echo(&d->config, log_line, (void *)&info);
	ts_config_warnings(&d->config, log_line, (void *)&warning);
	return -1;
}

/* Helpers live in sbin, which is not in everybody's PATH. */
static void complete_path(void)
{
	const char *path = getenv("PATH");
	char text[4096];

	snprintf(text, sizeof(text), "%s%s/usr/local/sbin:/usr/sbin:/sbin",
		 path ? path : "/usr/local/bin:/usr/bin:/bin", ":");
	setenv("PATH", text, 1);
}

static int start(struct ts_daemon *d, struct ts_error *error)
{
	int err;

	err = ts_daemon_serve(d, error);
	if (err < 0)
		return err;
	/* An upgrade attaches nothing that was detached before. */
	if (d->adopted)
		err = ts_daemon_resume(d, error);
	else if (d->config.device.attach != TS_ATTACH_NONE && !d->upgraded)
		err = ts_daemon_attach(d, d->config.tuning.swapon, error);
	if (err == 0)
		err = ts_watch_begin(d, error);
	return err;
}

/* A server that is taken over can die before the start is complete. Then what
 * it kept is taken over instead.
 */
static int start_again(struct ts_daemon *d, struct ts_error *error)
{
	struct ts_error second;
	int err = start(d, error);

	for (int i = 0; i < START_TRIES && err < 0 && err != -ECANCELED &&
			d->server_lived && !ts_child_is_alive(&d->server);
	     i++) {
		ts_log(LOG_WARNING, "%s; beginning again without the server "
		       "that has died", error->text);
		if (ts_daemon_unserve(d, &second) < 0)
			break;
		d->adopted = d->server_lived = d->must_connect = false;
		d->server_args.n = d->server_args.used = 0;
		d->attach.device[0] = '\0';
		err = start(d, error);
	}
	return err;
}

/* From the first step to the last undo. Returns the exit code. */
static int live(struct ts_daemon *d)
{
	struct ts_error error = {.text = ""};
	int code = 0, err;

	err = start_again(d, &error);
	if (err == 0) {
		d->state = TS_RUNNING;
		ts_fdstore_drop_rest();
		ts_daemon_status_refresh(d);
		ts_log(LOG_NOTICE, "ready: %s", d->status);
		sd_notify(0, "READY=1");
		ts_upgrade_finish(d);
		code = sd_event_loop(d->event);
		if (code < 0)
			ts_fail(&error, code, "event loop: %m");
		ts_watch_end(d);
	}
	if (d->state != TS_STARTING)
		d->state = TS_STOPPING;
	sd_notify(0, "STOPPING=1");
	if (err == 0 && code >= 0 && d->leaving) {
		ts_revive_cancel(d);
		ts_standby_end(d);
		ts_handover_leave(d);
		return code;
	}
	if (err < 0 || code < 0) {
		ts_log(err == -ECANCELED ? LOG_NOTICE : LOG_ERR, "%s",
		       error.text);
		sd_notifyf(0, "STATUS=%s", error.text);
		code = EXIT_FAILED;
	}
	ts_drain_abandon(d);
	ts_revive_cancel(d);
	ts_standby_end(d);
	if (err < 0 && d->adopted && ts_attach_holds_swap(&d->attach)) {
		ts_log(LOG_CRIT, "swap on %s could not be taken over and is "
		       "left as it is: nothing of it is stopped, nothing "
		       "served in its place. Mend what is named above and "
		       "start again, or swapoff %s", d->attach.device,
		       d->attach.device);
		return EXIT_FAILED;
	}
	if (d->device.done > 0 && ts_daemon_disconnect(d, &error) < 0) {
		/* Swap that stays on needs its server, also without us. */
		ts_log(LOG_CRIT, "leaving %s (pid %d) to serve %s",
		       d->server.name, d->server.pid, d->attach.device);
		return EXIT_FAILED;
	}
	ts_daemon_unserve(d, &error);
	return code;
}

int main(int argc, char **argv)
{
	static struct ts_daemon d = {
		.listen_fd = -1,
		.server = {.pidfd = -1},
		.standby = TS_STANDBY_NONE,
		.upgrade_client = -1,
		.attach = {.device_fd = -1},
		.rt = {.lock_fd = -1},
	};
	char dir[TS_RUNTIME_DIR_BYTES];
	struct timespec now;
	int code;

	d.argv = argv;
	if (readlink("/proc/self/exe", d.program, sizeof(d.program) - 1) < 0)
		d.program[0] = '\0';
	code = parse_options(argc, argv, &d);
	if (code >= 0)
		return code;
	/* Arenas are address space that the memory lock would count. */
	mallopt(M_ARENA_MAX, 1);
	ts_log_open();
	ts_stop_block_signals();
	ts_fdstore_receive();
	complete_path();
	clock_gettime(CLOCK_MONOTONIC, &now);
	d.started_ns = now.tv_sec * 1000000000ull + now.tv_nsec;
	if (!d.runtime_dir)
		d.runtime_dir = ts_runtime_default_dir(dir, sizeof(dir));
	if (!d.runtime_dir)
		return usage("XDG_RUNTIME_DIR is not set: give --runtime-dir");
	code = load_config(&d);
	if (code >= 0)
		return code;
	ts_upgrade_receive(&d);
	if (sd_event_new(&d.event) < 0) {
		ts_log(LOG_ERR, "event loop: %m");
		return EXIT_FAILED;
	}
	code = live(&d);
	sd_event_unref(d.event);
	return code;
}
