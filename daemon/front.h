/* SPDX-License-Identifier: BSD-3-Clause */
/* front.h - the program that holds the engine and serves it
 *
 * One engine, two front ends: nbdkit with the thinswap plugin behind a socket,
 * and thinswap-fuse behind a file. Which one runs follows from the route by
 * which the device will be attached; see attach.h.
 */
#ifndef TS_DAEMON_FRONT_H
#define TS_DAEMON_FRONT_H

#include <limits.h>

#include "config.h"
#include "error.h"
#include "probe.h"
#include "runtime.h"

/* Arguments of a program, with room for their text. */
struct ts_args {
	const char *argv[32];
	unsigned n;
	char room[2 * PATH_MAX];
	size_t used;
};

/* Append an argument; argv stays ended by NULL. */
void ts_args_add(struct ts_args *args, const char *format, ...)
	__attribute__((format(printf, 2, 3)));

/* Give a parameter, KEY=VALUE, another value; append it if it is not there. */
void ts_args_set(struct ts_args *args, const char *key, const char *value);

/* Make @args what @from is. */
void ts_args_copy(struct ts_args *args, const struct ts_args *from);

/* Do two command lines say the same? Beside the limit of the budget, which
 * belongs to the memory and not to the configuration.
 */
bool ts_args_equal(const struct ts_args *a, const struct ts_args *b);

/* Append what the engine's parameters are, beside its size. */
void ts_args_add_engine(struct ts_args *args, const struct ts_config *config,
			const struct ts_runtime *rt);

struct ts_front_ops {
	const char *path; /* what it serves, in the runtime directory */
	bool has_socket;  /* that is an NBD socket */

	/* Make the place where it will serve. What a dead instance left there
	 * is taken away; nothing of it is in use as swap. @ret_fd is what to
	 * lend to the server, as descriptor 3: the listening socket, or one
	 * that holds a FUSE connection; or -1.
	 */
	int (*prepare)(const struct ts_config *config,
		       const struct ts_runtime *rt, int *ret_fd,
		       struct ts_error *error);
	void (*tidy)(const struct ts_runtime *rt, int fd);

	/* The server has died while a device was being attached: end what
	 * waits for it. Does nothing when swap is on. NULL where its death
	 * is enough.
	 */
	void (*abort)(const struct ts_runtime *rt);

	/* The command line, the program first. */
	void (*command)(const struct ts_config *config,
			const struct ts_runtime *rt, struct ts_args *ret);

	const struct ts_probe_ops *probe;
};

/* Could a successor reach whoever waits? What is behind a socket connects
 * again; a FUSE connection has to be there still, in @fd.
 */
static inline bool ts_front_can_reach(const struct ts_front_ops *front, int fd)
{
	return front->has_socket || fd >= 0;
}

extern const struct ts_front_ops ts_front_nbd;
extern const struct ts_front_ops ts_front_fuse;

/* How many threads of thinswap-fuse serve: what is configured, but without a
 * spill file, whose reads a thread waits for, no more than processors.
 */
unsigned ts_front_fuse_threads(const struct ts_config *config);

/* A file that belongs to a daemon which runs from its build directory, found
 * from the daemon's own: "<daemon's directory>/<name>". NULL: not there.
 */
const char *ts_front_beside(const char *name, char *buf, size_t room);

#endif
