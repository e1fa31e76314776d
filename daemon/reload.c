// SPDX-License-Identifier: BSD-3-Clause
/* reload.c - SIGHUP: take over what can change, say what cannot
 *
 * Access to the socket is the daemon's own and changes at once. Budget, level,
 * water marks and write budget are the engine's, which is told in the way of
 * `thinswap tune`. A file that is not good changes nothing.
 */
#include "daemon.h"

#include <string.h>
#include <systemd/sd-daemon.h>
#include <time.h>

#include "log.h"

struct changes {
	struct ts_daemon *d;
	const struct ts_config *fresh;
};

static void take_access(struct ts_daemon *d, const struct ts_config *fresh,
			const char *name, const char *new_text)
{
	struct ts_error error;

	if (d->front->has_socket &&
	    ts_runtime_set_access(&d->rt, d->front->path,
				  fresh->security.socket_mode,
				  fresh->security.socket_gid, &error) < 0) {
		ts_log(LOG_ERR, "reload: %s: %s", name, error.text);
		return;
	}
	d->config.security = fresh->security;
	ts_log(LOG_NOTICE, "reload: %s is now %s", name, new_text);
}

static void tune(struct changes *changes, const char *name, const char *text)
{
	struct ts_error error;

	if (ts_visible_tune(changes->d, text, "reload", false, &error) < 0)
		ts_log(LOG_ERR, "reload: %s stays as it is: %s", name,
		       error.text);
}

static void on_change(void *opaque, const char *name, const char *old_text,
		      const char *new_text, bool live)
{
	struct changes *changes = opaque;
	char text[64];

	if (strncmp(name, "security.socket-", 16) == 0)
		take_access(changes->d, changes->fresh, name, new_text);
	else if (ts_visible_tuning(changes->fresh, name, text, sizeof(text)))
		tune(changes, name, text);
	else
		ts_log(LOG_WARNING, "reload: %s stays %s; %s takes effect at "
		       "the next start", name, old_text, new_text);
}

void ts_daemon_reload(struct ts_daemon *d)
{
	struct ts_config_error error;
	struct ts_config fresh;
	struct changes changes = { .d = d, .fresh = &fresh };
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	sd_notifyf(0, "RELOADING=1\nMONOTONIC_USEC=%llu",
		   now.tv_sec * 1000000ull + now.tv_nsec / 1000);
	if (ts_config_load(d->config_path, &fresh, &error) < 0)
		ts_log(LOG_ERR, "reload: nothing changed: %s", error.text);
	else if (ts_config_compare(&d->config, &fresh, on_change, &changes) ==
		 0)
		ts_log(LOG_NOTICE, "reload: no key differs");
	sd_notify(0, "READY=1");
}
