/* SPDX-License-Identifier: BSD-3-Clause */
/* visible.h - the store's statistics and settings, as the daemon uses them
 *
 * The server keeps its statistics in <runtime dir>/stats; everybody may read
 * them. The daemon watches them for what deserves a warning, and changes
 * settings by them.
 */
#ifndef TS_DAEMON_VISIBLE_H
#define TS_DAEMON_VISIBLE_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

#include "config.h"
#include "error.h"
#include "view.h"

#define TS_STATS_NAME "stats"

struct ts_daemon;

/* Of ts_daemon.warned_ns, beyond enum ts_warning. */
enum { TS_WARN_DEVICE_DETACHED = TS_N_WARNINGS };

/* Look at everything there is to warn of, now and then: what has begun is
 * logged once, and again only when it has been away for an hour.
 */
void ts_visible_tick(struct ts_daemon *d);

/* Add "settings", "spill" and "warnings" to what `thinswap status` shows. The
 * first two are null without statistics, "spill" also without a spill file.
 */
void ts_visible_describe(struct ts_daemon *d, json_t *status);

/* Change a setting, "key=value". It holds until the daemon ends, also for
 * servers that take this one's place, or until the configuration is read again.
 * @tuned: by a person, against the configuration; @who is for the log.
 */
int ts_visible_tune(struct ts_daemon *d, const char *text, const char *who,
		    bool tuned, struct ts_error *error);

/* A server has taken another's place: give it the one setting that its command
 * line cannot.
 */
void ts_visible_tune_again(struct ts_daemon *d);

/* What the budget can be tuned to is a property of the memory that is kept: a
 * server that takes this one's place gets it.
 */
void ts_visible_keep_max(struct ts_daemon *d);

/* The tuning key of a configuration key ("ram.budget"), with the value that
 * @config has for it, as key=value in @buf. NULL: it cannot be tuned.
 */
const char *ts_visible_tuning(const struct ts_config *config, const char *name,
			      char *buf, size_t room);

#endif
