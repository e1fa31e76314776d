/* SPDX-License-Identifier: BSD-3-Clause */
/* attach.h - how the served pages become a block device of this machine
 *
 * A route is a table of operations; which one is used is decided by
 * ts_attach_choose() from the configuration and the machine. attach leaves
 * everything or nothing behind; detach may be called only while the device is
 * not in use as swap.
 *
 * Notes    attach records the device in the runtime directory before it is
 *          connected and forgets it after it is gone, so that a later
 *          instance knows what a dead one has left; see ts_attach_reclaim().
 */
#ifndef TS_DAEMON_ATTACH_H
#define TS_DAEMON_ATTACH_H

#include <stdbool.h>

#include "config.h"
#include "error.h"
#include "front.h"
#include "nbdclient.h"
#include "runtime.h"
#include "spawn.h"

#define TS_DEVICE_BYTES 32

struct ts_attach_ops;

struct ts_attach {
	const struct ts_attach_ops *ops; /* NULL: nothing chosen yet */
	const struct ts_config *config;
	const struct ts_runtime *rt;
	const struct ts_child *server;

	char device[TS_DEVICE_BYTES]; /* "/dev/nbd0"; "" while detached */
	uint64_t size_bytes;
	unsigned connections;
	pid_t served_by; /* the server that the device is connected to; 0: who
			  * knows */
	struct ts_nbd_warmth warmth;  /* of the connection that took longest */
	struct ts_nbd_spare *spare;   /* made by prepare(); NULL */
	int device_fd;                /* held open; -1 */
};

struct ts_attach_ops {
	const char *name;
	const struct ts_front_ops *front; /* what it attaches */

	/* Can this route work on this machine? 0, or -errno and a sentence
	 * that names what is missing.
	 */
	int (*usable)(const struct ts_config *config, struct ts_error *error);

	/* Sets device, size_bytes, connections, warmth. */
	int (*attach)(struct ts_attach *attach, struct ts_error *error);
	int (*detach)(struct ts_attach *attach, struct ts_error *error);

	/* Connect the device to a restarted server. NULL where that cannot be
	 * done.
	 */
	int (*reconnect)(struct ts_attach *attach, struct ts_error *error);

	/* Make and warm connections to @server, which stands by at the socket
	 * @name; give them to the device later, when it serves; or close
	 * them. NULL where reconnect is.
	 */
	int (*prepare)(struct ts_attach *attach, const char *name,
		       const struct ts_child *server, struct ts_error *error);
	int (*hand_over)(struct ts_attach *attach, struct ts_error *error);
	void (*drop)(struct ts_attach *attach);

	/* Requests from now on time out after @timeout_s, until the next
	 * hand_over(). NULL where prepare is.
	 */
	int (*hasten)(struct ts_attach *attach, unsigned timeout_s,
		      struct ts_error *error);

	/* Undo what a dead instance left, given the text it noted. Nothing
	 * is in use as swap.
	 */
	int (*reclaim)(const struct ts_runtime *rt, const char *device,
		       struct ts_error *error);

	/* What people must know about this route, or NULL. */
	const char *limits;

	/* What this machine lacks for a successor to go on when the server
	 * dies, or NULL. The function is NULL where nothing can be lacking.
	 */
	const char *(*lacks_successor)(void);
};

extern const struct ts_attach_ops ts_attach_nbd;
extern const struct ts_attach_ops ts_attach_fuse;
extern const struct ts_attach_ops ts_attach_none;

/* Choose the route: the configured one, or for "auto" the first usable. When
 * there is none, the sentence names what each of them lacks.
 */
int ts_attach_choose(const struct ts_config *config,
		     const struct ts_attach_ops **ret, struct ts_error *error);

/* The device that a dead instance noted, if it is still on as swap: sets ops,
 * device, size_bytes, connections and served_by. -ENOENT when there is none.
 */
int ts_attach_find_swap(const struct ts_runtime *rt, struct ts_attach *ret);

/* Is the device on as swap at this moment? */
bool ts_attach_holds_swap(const struct ts_attach *attach);

/* Look at what a dead instance noted. -EBUSY: its device is still on as swap,
 * and nothing may be served on it but the memory that belonged to it. Else
 * leftovers are undone.
 */
int ts_attach_reclaim(const struct ts_runtime *rt, struct ts_error *error);

/* Note the device and who serves it, or forget it. For the routes, and for
 * whoever has connected the device to another server.
 */
int ts_attach_note(struct ts_attach *attach, struct ts_error *error);
void ts_attach_forget(struct ts_attach *attach);

#endif
