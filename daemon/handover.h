/* SPDX-License-Identifier: BSD-3-Clause */
/* handover.h - ending while swap stays on, for the next instance
 *
 * A stop drains. A restart must not: the server goes on serving, and the next
 * instance takes over what is there (adopt.h). SIGTERM is the same for both,
 * so the service manager is asked which job it is at.
 */
#ifndef TS_DAEMON_HANDOVER_H
#define TS_DAEMON_HANDOVER_H

#include <stdbool.h>

#include "error.h"

struct ts_daemon;

/* Are we told to end because we are started again right away? Asks systemctl
 * about the unit that THINSWAP_UNIT names; false without that, and whenever
 * there is no answer.
 */
bool ts_handover_is_wanted(void);

/* What is there to hand over: a server that needs nobody, and a device or
 * clients? Else a restart is a stop and a start.
 */
bool ts_handover_is_possible(const struct ts_daemon *d);

/* Leave everything to the next instance: the process only has to end. */
void ts_handover_leave(struct ts_daemon *d);

#endif
