/* SPDX-License-Identifier: BSD-3-Clause */
/* adopt.h - what a dead instance left in use is taken over, not replaced
 *
 * A killed thinswapd leaves its server, and perhaps swap that is on. Its
 * successor goes on with
 *
 *   swap on, the server lives      both, as they are
 *   swap on, the server is dead    a new server on the kept memory, connected
 *                                  to the same device, where the route can
 *   no device, the server lives    the server, if it keeps what it has or is
 *                                  as configured: it may have clients
 *
 * Everything else is for the caller to refuse or to clean up.
 */
#ifndef TS_DAEMON_ADOPT_H
#define TS_DAEMON_ADOPT_H

#include "error.h"

struct ts_daemon;

/* Look, and set d->adopted, d->server_lived, d->attach and, where it lives,
 * d->server. 0, -ENOENT when there is nothing to take over, or what went
 * wrong; then nothing is touched.
 */
int ts_adopt(struct ts_daemon *d, struct ts_error *error);

#endif
