/* SPDX-License-Identifier: BSD-3-Clause */
/* place.h - where the server is reached, kept over restarts of the daemon
 *
 * The listening socket of the NBD route is kept with systemd and over an
 * upgrade, so that clients which connect while nobody serves wait in its queue
 * and are not refused. A note holds the inode of the socket that the path
 * leads to: one that was handed over and is another is of no use.
 */
#ifndef TS_DAEMON_PLACE_H
#define TS_DAEMON_PLACE_H

#include "error.h"

struct ts_daemon;

/* Take over the place that was handed over, or make it. A server that lives
 * has its own: then it is enough to have none.
 */
int ts_place_make(struct ts_daemon *d, struct ts_error *error);

/* What was handed over and nobody has taken yet; -1: nothing. */
int ts_place_handed_over(void);

/* Make one, whatever was before: for a successor. */
int ts_place_make_anew(struct ts_daemon *d, struct ts_error *error);

/* Let the path lead to the listening socket that is at the name @from in the
 * runtime directory. In three steps, of which the middle one alone may fail:
 * before it, what is kept of the old one is not believed any more; after it,
 * @fd takes the old one's place, which is closed.
 */
void ts_place_doubt(struct ts_daemon *d);
int ts_place_move(struct ts_daemon *d, const char *from,
		  struct ts_error *error);
void ts_place_settle(struct ts_daemon *d, int fd);

/* Nobody knows where the path leads: the next server gets a new place. */
void ts_place_lose(struct ts_daemon *d);

void ts_place_remove(struct ts_daemon *d);

#endif
