/* SPDX-License-Identifier: BSD-3-Clause */
/* fdstore.h - descriptors that outlive this image of the daemon, by name
 *
 * Two ways lead to the next one: systemd's store, over a restart and over a
 * crash, and execve(), over an upgrade in place. Both hand descriptors over as
 * LISTEN_FDS with LISTEN_FDNAMES, so one function receives them.
 *
 * Names    short words of letters and "-".
 * Order    ts_fdstore_receive() before anything is opened; then whoever needs
 *          a descriptor takes it by name; ts_fdstore_drop_rest() once the
 *          start is complete.
 */
#ifndef TS_DAEMON_FDSTORE_H
#define TS_DAEMON_FDSTORE_H

#include <stdbool.h>

#include "error.h"

/* Take in what was handed over. Not inherited by children from here on. */
void ts_fdstore_receive(void);

/* The descriptor of that name, which is the caller's from now on; -1: none. */
int ts_fdstore_take(const char *name);

/* Keep @fd for the next image: over execve() in any case, and with @crash also
 * in systemd's store, if there is one. The descriptor stays the caller's. One
 * of the same name is replaced.
 */
void ts_fdstore_keep(const char *name, int fd, bool crash);

/* Keep it no longer; before it is closed. Unknown names are no error. */
void ts_fdstore_forget(const char *name);

/* Close what nobody has taken, and have systemd forget it. */
void ts_fdstore_drop_rest(void);

/* Become the program @path with all that is kept. Returns only on failure,
 * and then nothing has changed.
 */
int ts_fdstore_exec(const char *path, char *const *argv,
		    struct ts_error *error);

#endif
