/* SPDX-License-Identifier: BSD-3-Clause */
/* connection.h - descriptors of a FUSE connection, and how they outlive a server
 *
 * The kernel ends a connection when its last descriptor is closed, and fails
 * what a closed descriptor had received and not answered. So that a server
 * may die, somebody else holds every one of its descriptors: a socket does,
 * with a message in its queue that is looked at and never taken. Whoever has
 * the socket has the connection, and passing it on is passing one descriptor.
 *
 *	thinswapd:     open → pack → lend the socket to thinswap-fuse
 *	thinswap-fuse: unpack → resend → serve
 *
 * A successor makes the kernel send again what its predecessor has not
 * answered; Linux 6.9 and later can do that.
 */
#ifndef TS_FUSE_CONNECTION_H
#define TS_FUSE_CONNECTION_H

#include <stdbool.h>

#include "error.h"

#define TS_FUSE_FDS_MAX 64u

struct ts_fuse_connection {
	int fd[TS_FUSE_FDS_MAX];
	unsigned n;
};

/* Mount a new connection, with @n descriptors. */
int ts_fuse_connection_open(const char *mountpoint, unsigned n,
			    struct ts_fuse_connection *ret,
			    struct ts_error *error);

/* A socket that holds the descriptors, beside the caller's own. */
int ts_fuse_connection_pack(const struct ts_fuse_connection *connection,
			    int *ret_fd, struct ts_error *error);

/* New descriptors of what a socket holds, which goes on holding it. */
int ts_fuse_connection_unpack(int fd, struct ts_fuse_connection *ret,
			      struct ts_error *error);

void ts_fuse_connection_close(struct ts_fuse_connection *connection);

/* Have the kernel send again what was received and not answered. Nobody reads
 * from the connection meanwhile.
 */
int ts_fuse_connection_resend(const struct ts_fuse_connection *connection,
			      struct ts_error *error);

/* By its version: can this kernel send again? */
bool ts_fuse_can_resend(void);

#endif
