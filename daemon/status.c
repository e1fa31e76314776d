// SPDX-License-Identifier: BSD-3-Clause
/* status.c - what `thinswap status` shows, as JSON, and the status line
 *
 * Names are stable and say their unit. What is not known is null, never 0.
 */
#include "status.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "build.h"
#include "config.h"
#include "daemon.h"
#include "log.h"
#include "memory.h"
#include "notify.h"
#include "swaparea.h"
#include "util/harden.h"
#include "util/size.h"

#define ALLOCATED_TIMEOUT_MS 1000

const char *ts_state_name(enum ts_state state)
{
	static const char *const names[] = {
		[TS_STARTING] = "starting", [TS_RUNNING] = "running",
		[TS_RECOVERING] = "recovering",
		[TS_DRAINING] = "draining", [TS_STOPPING] = "stopping",
		[TS_FAILED] = "failed",
	};

	return names[state];
}

void ts_daemon_status(struct ts_daemon *d, const char *format, ...)
{
	char text[sizeof(d->status)];
	va_list args;

	va_start(args, format);
	vsnprintf(text, sizeof(text), format, args);
	va_end(args);
	if (strcmp(text, d->status) == 0)
		return;
	strcpy(d->status, text);
	ts_notify("STATUS=%s", text);
}

void ts_daemon_status_refresh(struct ts_daemon *d)
{
	char used[TS_SIZE_TEXT_BYTES], size[TS_SIZE_TEXT_BYTES];
	const char *device = d->attach.device;
	struct ts_swap_use use;

	if (d->state == TS_RECOVERING)
		ts_daemon_status(d, "the server died; its memory is kept, and "
				 "a new one takes it over (try %u)",
				 d->revival.in_row);
	else if (d->state == TS_FAILED && d->revival.gave_up)
		ts_daemon_status(d, "FAILED: no server stays up; what was "
				 "stored is kept, and requests wait. SIGHUP "
				 "tries again");
	else if (d->state == TS_FAILED)
		ts_daemon_status(d, "FAILED: the server of %s died; what was "
				 "swapped out there is lost", device);
	else if (!device[0])
		ts_daemon_status(d, "serving %s, no device attached",
				 d->served_path);
	else if (ts_swap_lookup(device, &use) < 0)
		ts_daemon_status(d, "%s attached by %s, not on as swap",
				 device, d->attach.ops->name);
	else
		ts_daemon_status(d, "%s on as swap, %s of %s used", device,
				 ts_size_format(use.used_bytes, used,
						sizeof(used)),
				 ts_size_format(use.size_bytes, size,
						sizeof(size)));
}

static json_t *describe_device(struct ts_daemon *d)
{
	json_t *device;
	struct ts_swap_use use;

	if (!d->attach.device[0])
		return json_null();
	device = json_pack("{s:s, s:s, s:i, s:I}",
			   "path", d->attach.device,
			   "attached_by", d->attach.ops->name,
			   "connections", d->attach.connections,
			   "size_bytes", (json_int_t)d->attach.size_bytes);
	if (d->attach.ops->limits)
		json_object_set_new(device, "limits",
				    json_string(d->attach.ops->limits));
	if (ts_swap_lookup(d->attach.device, &use) < 0) {
		json_object_set_new(device, "swap", json_null());
		return device;
	}
	json_object_set_new(device, "swap",
			    json_pack("{s:I, s:I, s:i}",
				      "size_bytes", (json_int_t)use.size_bytes,
				      "used_bytes", (json_int_t)use.used_bytes,
				      "priority", use.priority));
	return device;
}

static json_t *describe_store(struct ts_daemon *d)
{
	struct ts_harden_facts facts;
	struct ts_error error;
	uint64_t bytes;
	json_t *store;

	store = json_pack("{s:I, s:I}",
			  "virtual_size_bytes",
			  (json_int_t)d->config.device.size_bytes,
			  "ram_budget_bytes",
			  (json_int_t)d->config.ram.budget_bytes);
	if (d->server.pid > 0 && d->probe &&
	    ts_probe_allocated(d->probe, ALLOCATED_TIMEOUT_MS, &bytes,
			       &error) == 0)
		json_object_set_new(store, "pages_stored",
				    json_integer(bytes / 4096));
	else
		json_object_set_new(store, "pages_stored", json_null());
	if (d->server.pid > 0 &&
	    ts_harden_observe(d->server.pid, &facts) == 0) {
		json_object_set_new(store, "server_resident_bytes",
				    json_integer(facts.rss_bytes));
		json_object_set_new(store, "server_page_faults",
				    json_integer(facts.minor_faults +
						 facts.major_faults));
	} else {
		json_object_set_new(store, "server_resident_bytes",
				    json_null());
		json_object_set_new(store, "server_page_faults", json_null());
	}
	return store;
}

/* What outlives the server, and how often that was needed. */
static json_t *describe_memory(struct ts_daemon *d)
{
	struct ts_memory memory;

	if (ts_memory_look(&d->rt, &memory) < 0)
		return json_null();
	return json_pack("{s:i, s:I, s:I}",
			 "segment", memory.segment,
			 "size_bytes", (json_int_t)memory.size_bytes,
			 "resident_bytes", (json_int_t)memory.resident_bytes);
}

static json_t *describe_successors(struct ts_daemon *d)
{
	const struct ts_revival *revival = &d->revival;

	return json_pack("{s:I, s:I, s:i, s:o, s:o}",
			 "taken_over", (json_int_t)revival->taken_over,
			 "replaced", (json_int_t)revival->replaced,
			 "tries_in_a_row", revival->in_row,
			 "last_status", revival->deaths == 0 ||
			 revival->last_status == TS_STATUS_UNKNOWN ?
				 json_null() :
				 json_integer(revival->last_status),
			 "last_seconds", revival->last_ns ?
				 json_real(revival->last_ns / 1e9) :
				 json_null());
}

static json_t *describe_standby(struct ts_daemon *d)
{
	if (d->standby.child.pid <= 0)
		return json_null();
	return json_pack("{s:i, s:I}", "pid", d->standby.child.pid,
			 "own_bytes", (json_int_t)d->standby.own_bytes);
}

static json_t *describe_probe(struct ts_daemon *d)
{
	struct ts_probe_state state;

	if (!d->probe)
		return json_null();
	ts_probe_look(d->probe, &state);
	return json_pack("{s:I, s:I, s:f, s:o, s:o}",
			 "reads", (json_int_t)state.reads,
			 "failures", (json_int_t)state.failures,
			 "last_read_seconds", state.last_ns / 1e9,
			 "seconds_since_good",
			 state.since_good_ms < 0 ? json_null() :
				 json_real(state.since_good_ms / 1e3),
			 "error", state.error.text[0] ?
				 json_string(state.error.text) : json_null());
}

static json_t *describe_hardening(const struct ts_harden_table *table)
{
	json_t *rows = json_array();

	for (unsigned i = 0; i < table->n; i++) {
		const struct ts_harden_row *row = &table->rows[i];
		json_t *item;

		item = json_pack("{s:s, s:s, s:s, s:s, s:b}",
				 "process", row->who, "step", row->step,
				 "wanted", row->wanted, "found", row->found,
				 "had", row->had);
		if (!row->had) {
			json_object_set_new(item, "missing",
					    json_string(row->lacks));
			json_object_set_new(item, "at_risk",
					    json_string(row->risk));
		}
		json_array_append_new(rows, item);
	}
	return rows;
}

json_t *ts_status_json(struct ts_daemon *d)
{
	struct timespec now;
	uint64_t now_ns;
	json_t *status;

	clock_gettime(CLOCK_MONOTONIC, &now);
	now_ns = now.tv_sec * 1000000000ull + now.tv_nsec;
	status = json_pack("{s:s, s:s, s:o, s:s, s:s, s:i, s:o, s:s, s:f, s:o, "
			 "s:o, s:o, s:o, s:o, s:o, s:o}",
			 "version", TS_VERSION,
			 "runtime_dir", d->rt.dir,
			 "socket", d->front->has_socket ?
				 json_string(d->served_path) : json_null(),
			 "served", d->served_path,
			 "configuration",
			 d->config.file[0] ? d->config.file : "(defaults)",
			 "pid", getpid(),
			 "server_pid", d->server.pid > 0 ?
				 json_integer(d->server.pid) : json_null(),
			 "state", ts_state_name(d->state),
			 "uptime_seconds", (now_ns - d->started_ns) / 1e9,
			 "device", describe_device(d),
			 "store", describe_store(d),
			 "kept_memory", describe_memory(d),
			 "successors", describe_successors(d),
			 "standby", describe_standby(d),
			 "probe", describe_probe(d),
			 "hardening", describe_hardening(&d->harden));
	ts_visible_describe(d, status);
	return status;
}
