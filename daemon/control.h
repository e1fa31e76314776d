/* SPDX-License-Identifier: BSD-3-Clause */
/* control.h - the control socket: how `thinswap` talks to thinswapd
 *
 * <runtime dir>/control, mode 0600; only root and the daemon's own user are
 * served (SO_PEERCRED). One JSON object a line, both ways:
 *
 *   > {"command": "status"}
 *   > {"command": "attach", "swapon": true}
 *   > {"command": "detach", "force": false}
 *   > {"command": "tune", "set": "ram=1G"}
 *   > {"command": "upgrade"}
 *   < {"progress": "draining, 12 MiB left"}        any number of these
 *   < {"ok": true, "result": {...}}                then one of these
 *   < {"ok": false, "reason": "refused", "error": "..."}
 *
 * A reason is "failed", "refused" (by design, could be forced) or "usage".
 */
#ifndef TS_DAEMON_CONTROL_H
#define TS_DAEMON_CONTROL_H

#include "error.h"

struct ts_control;
struct ts_daemon;

int ts_control_open(struct ts_daemon *d, struct ts_control **ret,
		    struct ts_error *error);

/* Stop listening and drop every client. NULL is fine. */
void ts_control_close(struct ts_control *control);

/* Tell the clients that wait for a drain how it goes and how it ended. NULL
 * is fine.
 */
void ts_control_drain_progress(struct ts_control *control, const char *text);
void ts_control_drain_ended(struct ts_control *control, int err,
			    const char *error_text);

#endif
