// SPDX-License-Identifier: BSD-3-Clause
/* start.c - the steps of a start and of an attach, and their undoing
 *
 * The order is what keeps a machine whole: nothing of ours may be swapped to
 * ourselves, so hardening is checked before swap is on; nobody may be refused,
 * so sockets listen before they are visible; nobody may get zeros, so what a
 * dead instance left is looked at before anything is served.
 */
#include "daemon.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "adopt.h"
#include "control.h"
#include "guard.h"
#include "log.h"
#include "fdstore.h"
#include "link.h"
#include "memory.h"
#include "place.h"
#include "server.h"
#include "swaparea.h"

#define PROBE_INTERVAL_MS 2000

static int run_runtime(struct ts_daemon *d, struct ts_error *error)
{
	int lock_fd = ts_fdstore_take("lock");
	int err = ts_runtime_open(d->runtime_dir, lock_fd, &d->rt, error);

	/* Not over a crash: then it is free for whoever comes. */
	if (err == 0)
		ts_fdstore_keep("lock", d->rt.lock_fd, false);
	return err;
}

static int undo_runtime(struct ts_daemon *d, struct ts_error *error)
{
	ts_runtime_close(&d->rt);
	return 0;
}

static int reclaim(struct ts_daemon *d, struct ts_error *error)
{
	struct ts_memory memory;
	pid_t orphan;
	int err;

	err = ts_attach_reclaim(&d->rt, error);
	if (err < 0)
		return err;
	orphan = ts_server_find_orphan(&d->rt);
	if (orphan) {
		ts_log(LOG_WARNING, "ending the server that a dead instance "
		       "left (pid %d); nothing is swapped out to it", orphan);
		err = ts_server_end_orphan(&d->rt, orphan, error);
	}
	if (err < 0 || ts_memory_look(&d->rt, &memory) < 0)
		return err;
	/* Behind a bare socket nobody can tell whether it is needed: there
	 * the server goes on with it, or refuses to.
	 */
	if (d->config.device.attach == TS_ATTACH_NONE)
		return 0;
	ts_runtime_forget(&d->rt, ts_front_nbd.path);
	return ts_memory_reclaim(&d->rt, error);
}

static int run_leftovers(struct ts_daemon *d, struct ts_error *error)
{
	struct ts_memory memory;
	int err;

	d->attach.config = &d->config;
	d->attach.rt = &d->rt;
	d->attach.server = &d->server;
	ts_standby_reclaim(&d->rt);
	err = ts_adopt(d, error);
	if (err == -ENOENT)
		err = reclaim(d, error);
	d->memory_lived = ts_memory_look(&d->rt, &memory) == 0;
	return err;
}

/* The server has ended. Cleanly, and this finds nothing. */
static int undo_leftovers(struct ts_daemon *d, struct ts_error *error)
{
	if (d->state == TS_STARTING && d->memory_lived)
		return 0;
	if (ts_attach_holds_swap(&d->attach))
		return ts_fail(error, -EBUSY, "%s is on as swap",
			       d->attach.device);
	return ts_memory_reclaim(&d->rt, error);
}

static int run_harden_self(struct ts_daemon *d, struct ts_error *error)
{
	d->own_rows.n = 0;
	ts_harden_self(&d->config, &d->own_rows);
	return 0;
}

/* Which device it will be decides which server is needed. */
static int run_route(struct ts_daemon *d, struct ts_error *error)
{
	int err = 0;

	if (!d->adopted)
		err = ts_attach_choose(&d->config, &d->attach.ops, error);
	if (err < 0)
		return err;
	d->front = d->attach.ops->front;
	ts_runtime_path(&d->rt, d->front->path, d->served_path);
	return 0;
}

static int undo_place(struct ts_daemon *d, struct ts_error *error)
{
	ts_place_remove(d);
	return 0;
}

static bool wants_realtime(const struct ts_daemon *d)
{
	return ts_harden_wants_realtime(&d->config, d->front->has_socket);
}

int ts_daemon_start_server(struct ts_daemon *d, struct ts_error *error)
{
	return ts_server_start(&d->server_args, &d->rt, d->listen_fd,
			       wants_realtime(d),
			       &d->server, error);
}

static int run_server(struct ts_daemon *d, struct ts_error *error)
{
	if (d->server_lived)
		return 0;
	d->front->command(&d->config, &d->rt, &d->server_args);
	return ts_daemon_start_server(d, error);
}

/* What swap is on keeps its server, and its memory, whatever becomes of us. So
 * does what was taken over, until the start is complete.
 */
static int undo_server(struct ts_daemon *d, struct ts_error *error)
{
	if (d->state == TS_STARTING && d->server_lived &&
	    !ts_child_is_alive(&d->server)) {
		ts_server_kill(&d->rt, &d->server);
		return 0;
	}
	if (d->state == TS_STARTING && d->server_lived)
		return ts_fail(error, -EBUSY, "%s (pid %d) was there before",
			       d->server.name, d->server.pid);
	if (ts_attach_holds_swap(&d->attach))
		return ts_fail(error, -EBUSY, "%s is on as swap",
			       d->attach.device);
	if (d->state == TS_STARTING && d->memory_lived)
		ts_server_kill(&d->rt, &d->server);
	else
		ts_server_stop(&d->rt, &d->server);
	return 0;
}

int ts_daemon_start_probe(struct ts_daemon *d, struct ts_error *error)
{
	return ts_probe_start(d->front->probe, d->served_path, &d->server,
			      PROBE_INTERVAL_MS, &d->probe, error);
}

static int undo_probe(struct ts_daemon *d, struct ts_error *error)
{
	ts_probe_stop(d->probe);
	d->probe = NULL;
	return 0;
}

static int run_control(struct ts_daemon *d, struct ts_error *error)
{
	return ts_control_open(d, &d->control, error);
}

static int undo_control(struct ts_daemon *d, struct ts_error *error)
{
	ts_control_close(d->control);
	d->control = NULL;
	return 0;
}

static int run_attach(struct ts_daemon *d, struct ts_error *error)
{
	int err;

	d->attach.device_fd = -1;
	err = d->attach.ops->attach(&d->attach, error);
	if (err < 0)
		return err;
	ts_link_begin(d);
	ts_log(LOG_INFO, "attached %s by %s, %u connections, warm after %u "
	       "rounds (%llu page faults in the last)", d->attach.device,
	       d->attach.ops->name, d->attach.connections,
	       d->attach.warmth.rounds,
	       (unsigned long long)d->attach.warmth.last_faults);
	return 0;
}

static int undo_attach(struct ts_daemon *d, struct ts_error *error)
{
	ts_link_end(d);
	return d->attach.ops->detach(&d->attach, error);
}

static int run_check_device(struct ts_daemon *d, struct ts_error *error)
{
	return ts_swap_check_device(&d->config, d->attach.device,
				    d->attach.size_bytes, error);
}

static void check_successor(const struct ts_attach *attach,
			    struct ts_harden_table *table)
{
	const char *lacks = NULL;

	if (attach->ops->lacks_successor)
		lacks = attach->ops->lacks_successor();
	ts_harden_add(table, "path", "death of the server",
		      "a successor goes on", lacks,
		      "all that is swapped out is lost when it dies", "%s",
		      lacks ? "nobody can" : "a successor goes on");
}

static void make_table(struct ts_daemon *d)
{
	struct ts_harden_table *table = &d->harden;
	const struct ts_attach *attach = &d->attach;

	*table = d->own_rows;
	ts_harden_check_process("thinswapd", getpid(), table);
	ts_harden_check_process(d->server.name, d->server.pid, table);
	ts_harden_check_realtime(d->server.name, d->server.pid,
				 wants_realtime(d), table);
	if (attach->device[0]) {
		ts_harden_add(table, "path", "buffers warmed",
			      "a round without page faults",
			      attach->warmth.last_faults == 0 ? NULL :
				      "a server that reuses its memory",
			      "it can wait for memory while it serves",
			      "%llu faults in round %u",
			      (unsigned long long)attach->warmth.last_faults,
			      attach->warmth.rounds);
		ts_harden_add(table, "path", "whole-machine pressure",
			      "a route without allocations",
			      attach->ops->limits ? "kernel nbd" : NULL,
			      attach->ops->limits,
			      "route %s", attach->ops->name);
		check_successor(attach, table);
	}
}

static int run_harden_check(struct ts_daemon *d, struct ts_error *error)
{
	make_table(d);
	return ts_harden_judge(&d->harden, d->config.security.strict, error);
}

/* With pages stored it is too late to refuse; what is new is said. */
void ts_daemon_check_hardening(struct ts_daemon *d)
{
	unsigned before = ts_harden_missing(&d->harden);
	struct ts_error error;

	make_table(d);
	if (ts_harden_missing(&d->harden) > before)
		ts_harden_judge(&d->harden, false, &error);
}

static int run_mkswap(struct ts_daemon *d, struct ts_error *error)
{
	return ts_swap_make(&d->config, d->attach.device, error);
}

static int run_swapon(struct ts_daemon *d, struct ts_error *error)
{
	if (!d->wants_swapon)
		return 0;
	return ts_swap_on(&d->config, d->attach.device, error);
}

static int undo_swapon(struct ts_daemon *d, struct ts_error *error)
{
	struct ts_swap_use use;

	if (ts_swap_lookup(d->attach.device, &use) == -ENOENT)
		return 0;
	return ts_swap_off(&d->config, d->attach.device, error);
}

static const struct ts_step serve_steps[] = {
	{ "take the runtime directory", run_runtime, undo_runtime },
	{ "look for leftovers", run_leftovers, undo_leftovers },
	{ "harden the daemon", run_harden_self, NULL },
	{ "choose the route", run_route, NULL },
	{ "make the place to serve", ts_place_make, undo_place },
	{ "start the server", run_server, undo_server },
	{ "read through the store", ts_daemon_start_probe, undo_probe },
	{ "make the control socket", run_control, undo_control },
};

static const struct ts_step check_step = {
	"check the hardening", run_harden_check, NULL
};

static const struct ts_step device_steps[] = {
	{ "attach the device", run_attach, undo_attach },
	{ "check the device", run_check_device, NULL },
	{ "check the hardening", run_harden_check, NULL },
	{ "write the swap header", run_mkswap, NULL },
	{ "switch swap on", run_swapon, undo_swapon },
};

#define N(steps) (sizeof(steps) / sizeof(*(steps)))

int ts_daemon_serve(struct ts_daemon *d, struct ts_error *error)
{
	int err;

	err = ts_steps_run(d, serve_steps, N(serve_steps), &d->serve, error);
	if (err < 0 || d->config.device.attach != TS_ATTACH_NONE)
		return err;
	/* Without a device there is no later check. */
	err = ts_steps_run(d, &check_step, 1, &(struct ts_progress){0}, error);
	if (err < 0) {
		struct ts_error second;

		ts_daemon_unserve(d, &second);
	}
	return err;
}

int ts_daemon_unserve(struct ts_daemon *d, struct ts_error *error)
{
	return ts_steps_undo(d, serve_steps, &d->serve, error);
}

static void abort_waiting(void *opaque)
{
	struct ts_daemon *d = opaque;

	ts_log(LOG_ERR, "%s died while its device was being attached",
	       d->server.name);
	d->front->abort(&d->rt);
}

/* Run the steps while somebody watches the server. */
static int run_guarded(struct ts_daemon *d, struct ts_error *error)
{
	struct ts_guard *guard = NULL;
	int err = 0;

	if (d->front->abort)
		err = ts_guard_start(&d->server, abort_waiting, d, &guard,
				     error);
	if (err == 0)
		err = ts_steps_run(d, device_steps, N(device_steps),
				   &d->device, error);
	if (!ts_guard_stop(guard))
		return err;
	/* The last steps may have found in the page cache what they needed. */
	if (err == 0) {
		struct ts_error second;

		ts_steps_undo(d, device_steps, &d->device, &second);
		err = ts_fail(error, -EPIPE, "%s has died", d->server.name);
	}
	/* What was given up is of no use to a successor. */
	ts_place_remove(d);
	return err;
}

int ts_daemon_attach(struct ts_daemon *d, bool swapon, struct ts_error *error)
{
	int err;

	if (d->attach.device[0])
		return ts_fail(error, -EALREADY, "%s is attached already",
			       d->attach.device);
	d->wants_swapon = swapon;
	err = run_guarded(d, error);
	if (err == 0)
		ts_log(LOG_NOTICE, "%s is %s", d->attach.device,
		       swapon ? "on as swap" : "attached, with a swap header");
	return err;
}

int ts_daemon_connect(struct ts_daemon *d, struct ts_error *error)
{
	int err = d->attach.ops->reconnect(&d->attach, error);

	ts_link_forget(d);
	return err < 0 ? err : ts_attach_note(&d->attach, error);
}

int ts_daemon_resume(struct ts_daemon *d, struct ts_error *error)
{
	int err = 0;

	if (!d->attach.device[0])
		return 0;
	if (d->must_connect)
		err = ts_daemon_connect(d, error);
	if (err < 0)
		return err;
	d->device.done = N(device_steps);
	ts_link_begin(d);
	ts_daemon_check_hardening(d);
	ts_log(LOG_NOTICE, "%s is on as swap still, and served",
	       d->attach.device);
	return 0;
}

int ts_daemon_disconnect(struct ts_daemon *d, struct ts_error *error)
{
	int err = ts_steps_undo(d, device_steps, &d->device, error);

	if (err == 0)
		ts_log(LOG_NOTICE, "the device is detached");
	return err;
}
