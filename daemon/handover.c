// SPDX-License-Identifier: BSD-3-Clause
/* handover.c - ending while swap stays on, for the next instance
 *
 * While systemd stops a unit for a restart, the unit's job is of type
 * "restart"; it becomes "start" when the process has ended. No job at all
 * (`systemctl kill`) or no answer is taken for a stop: a drain is always safe.
 */
#include "handover.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "daemon.h"
#include "log.h"
#include "memory.h"
#include "notify.h"

/* A machine that is short of memory may have to fetch systemctl from disk. */
#define ANSWER_TIMEOUT_MS 20000

static bool is_restart(char *jobs, const char *unit)
{
	char *save = NULL;

	for (char *line = strtok_r(jobs, "\n", &save); line;
	     line = strtok_r(NULL, "\n", &save)) {
		char name[256], type[32];

		if (sscanf(line, "%*s %255s %31s", name, type) == 2 &&
		    strcmp(name, unit) == 0)
			return strcmp(type, "restart") == 0 ||
			       strcmp(type, "try-restart") == 0;
	}
	return false;
}

bool ts_handover_is_wanted(void)
{
	const char *unit = getenv("THINSWAP_UNIT");
	const char *argv[] = { "systemctl", "list-jobs", "--no-legend",
			       "--no-pager", "--full", unit, NULL };
	struct ts_error error;
	char jobs[4096];

	if (!unit || !unit[0])
		return false;
	ts_notify("EXTEND_TIMEOUT_USEC=%u", 2 * ANSWER_TIMEOUT_MS * 1000);
	if (ts_run_read(argv, ANSWER_TIMEOUT_MS, jobs, sizeof(jobs),
			&error) < 0) {
		ts_log(LOG_WARNING, "stop or restart? %s; taken for a stop",
		       error.text);
		return false;
	}
	return is_restart(jobs, unit);
}

bool ts_handover_is_possible(const struct ts_daemon *d)
{
	struct ts_memory memory;

	if (d->drain || (d->state == TS_FAILED && !d->revival.gave_up))
		return false;
	return d->attach.device[0] || ts_memory_look(&d->rt, &memory) == 0;
}

void ts_handover_leave(struct ts_daemon *d)
{
	if (d->server.pid <= 0)
		ts_log(LOG_NOTICE, "restart: the kept memory is left for the "
		       "next instance");
	else if (d->attach.device[0])
		ts_log(LOG_NOTICE, "restart: %s stays as it is, served by %s "
		       "(pid %d), for the next instance", d->attach.device,
		       d->server.name, d->server.pid);
	else
		ts_log(LOG_NOTICE, "restart: %s (pid %d) goes on serving %s, "
		       "for the next instance", d->server.name, d->server.pid,
		       d->served_path);
}
