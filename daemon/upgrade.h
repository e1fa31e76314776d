/* SPDX-License-Identifier: BSD-3-Clause */
/* upgrade.h - go on as the programs that are installed now, swap staying on
 *
 * First the daemon becomes the new thinswapd, in place: same process, same
 * children, and what it holds is handed over (fdstore.h). The new image takes
 * over the server that lives as it would after a crash (adopt.h), and then
 * replaces it by a new one on the same memory (revive.h). A new server that
 * cannot read what is kept says so before anything has changed.
 */
#ifndef TS_DAEMON_UPGRADE_H
#define TS_DAEMON_UPGRADE_H

#include "error.h"

struct ts_daemon;

/* Become the program that is at our path now; @client_fd, a control client,
 * gets the answer from it. Returns only on failure, and then nothing has
 * changed.
 */
int ts_upgrade_begin(struct ts_daemon *d, int client_fd,
		     struct ts_error *error);

/* In the new image, at its start: take in what the old one told. */
void ts_upgrade_receive(struct ts_daemon *d);

/* In an image that has taken over a server which lives: replace that one where
 * it is of another version, or not as configured. Failures leave it as it is
 * and are told.
 */
void ts_upgrade_finish(struct ts_daemon *d);

#endif
