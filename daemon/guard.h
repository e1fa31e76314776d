/* SPDX-License-Identifier: BSD-3-Clause */
/* guard.h - an end for what waits on a server that dies
 *
 * While a device is being attached, the daemon and its helpers wait on the
 * server in calls that cannot be given up, and the daemon cannot start another
 * server meanwhile. Where the daemon holds the server's connection, its death
 * alone does not end these calls: then a guard does.
 */
#ifndef TS_DAEMON_GUARD_H
#define TS_DAEMON_GUARD_H

#include <stdbool.h>

#include "error.h"
#include "spawn.h"

struct ts_guard;

/* Call @act once if @server ends before ts_guard_stop(). */
int ts_guard_start(const struct ts_child *server, void (*act)(void *opaque),
		   void *opaque, struct ts_guard **ret,
		   struct ts_error *error);

/* Did it act? NULL is fine. */
bool ts_guard_stop(struct ts_guard *guard);

#endif
