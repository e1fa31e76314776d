/* SPDX-License-Identifier: BSD-3-Clause */
/* listen.h - a listening socket: from systemd, or at an address */
#ifndef TS_DAEMON_CLI_LISTEN_H
#define TS_DAEMON_CLI_LISTEN_H

#include <stddef.h>

/* The socket that systemd passes, or one at @where ("127.0.0.1:9953",
 * "[::1]:9953", "unix:/run/thinswap/metrics"); NULL: systemd must.
 * Returns the descriptor, or -errno with a sentence in @err.
 */
int ts_listen(const char *where, char *err, size_t err_bytes);

#endif
