/* SPDX-License-Identifier: BSD-3-Clause */
/* nbdnl.h - the kernel's nbd driver over generic netlink
 *
 * One call, one command of linux/nbd-netlink.h, answered before it returns.
 * Sockets are handed over by descriptor; the kernel keeps its own reference,
 * so the caller may close them afterwards. Needs CAP_SYS_ADMIN.
 */
#ifndef TS_DAEMON_NBDNL_H
#define TS_DAEMON_NBDNL_H

#include <stdbool.h>
#include <stdint.h>

#include "error.h"

struct nl_msg;

struct ts_nbdnl_device {
	int index; /* -1 at connect: let the kernel choose */
	const int *sockets;
	unsigned n_sockets;
	uint64_t size_bytes;
	uint64_t block_bytes;
	uint64_t timeout_s;           /* for one request */
	uint64_t dead_conn_timeout_s; /* without any live socket */
	uint64_t server_flags;
	const char *backend; /* tells whose device it is; same on
			      * reconfigure as on connect */
};

/* -ENOENT when the kernel has no nbd family: the module is not loaded. */
int ts_nbdnl_probe(void);

int ts_nbdnl_connect(const struct ts_nbdnl_device *device, int *ret_index,
		     struct ts_error *error);

/* Keep a netlink socket open for what comes: a reconfiguration must not need
 * memory that is not there.
 */
int ts_nbdnl_prepare(struct ts_error *error);

/* Fresh sockets for those that died. Uses index, sockets, timeouts, backend. */
int ts_nbdnl_reconfigure(const struct ts_nbdnl_device *device,
			 struct ts_error *error);

/* Listen for connections that the kernel drops. @ret_fd becomes readable. */
struct ts_nbdnl_link;
int ts_nbdnl_listen(struct ts_nbdnl_link **ret, int *ret_fd,
		    struct ts_error *error);

/* Take in all that was told. Was one of device @index among it? */
bool ts_nbdnl_link_died(struct ts_nbdnl_link *link, int index);

void ts_nbdnl_unlisten(struct ts_nbdnl_link *link);

int ts_nbdnl_disconnect(int index, struct ts_error *error);

/* The message that a command is made of; for the calls above and for tests.
 * @command is NBD_CMD_CONNECT, _RECONFIGURE or _DISCONNECT. NULL: no memory.
 */
struct nl_msg *ts_nbdnl_build(int family, int command,
			      const struct ts_nbdnl_device *device);

#endif
