/* SPDX-License-Identifier: BSD-3-Clause */
/* status.h - what `thinswap status` shows, as JSON */
#ifndef TS_DAEMON_STATUS_H
#define TS_DAEMON_STATUS_H

#include <jansson.h>

struct ts_daemon;

/* A new object; NULL without memory. Waits at most a second for the server. */
json_t *ts_status_json(struct ts_daemon *d);

#endif
