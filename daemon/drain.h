/* SPDX-License-Identifier: BSD-3-Clause */
/* drain.h - swap off, page by page, then the device away
 *
 * The server goes on serving all the while: it is what the pages are read
 * from. A drain whose pages do not fit back into memory is refused.
 */
#ifndef TS_DAEMON_DRAIN_H
#define TS_DAEMON_DRAIN_H

#include <stdbool.h>

#include "error.h"

struct ts_daemon;

/* Begin to drain and detach; the end is told to the control clients that
 * wait, and to d->stop_wanted. Joins a drain that is under way.
 *
 * @force  try although it does not fit, or although pages are lost
 * Returns 0; -ENOMEM when it does not fit, with how much is missing; -ENODATA
 * when the server is gone, so that what is swapped out is lost.
 */
int ts_drain_begin(struct ts_daemon *d, bool force, struct ts_error *error);

/* End a drain that is under way because the daemon ends; swap stays on. */
void ts_drain_abandon(struct ts_daemon *d);

#endif
