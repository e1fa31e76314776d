/* SPDX-License-Identifier: BSD-3-Clause */
/* reserve.h - memory set aside for the successor of a server that dies
 *
 * Between the death of a server and its successor there is no swap, and a
 * machine that needed it has no free memory either: a new server could wait
 * for its own stacks and buffers for ever. So as much as a server takes, beside
 * what it keeps, is held, locked and touched, and let go right before one is
 * started. It is let go as well when a server that lives does not get on: then
 * it is memory that is missing, most likely.
 */
#ifndef TS_DAEMON_RESERVE_H
#define TS_DAEMON_RESERVE_H

#include <stddef.h>
#include <sys/types.h>

struct ts_reserve {
	void *at;
	size_t bytes; /* held */
	size_t wanted;
};

/* Hold half as much again as process @server_pid has of its own, but no more
 * than an eighth of the machine. 0 or -errno; -ENOMEM when memory is not plenty.
 */
int ts_reserve_take(struct ts_reserve *reserve, pid_t server_pid);

/* The same later, if nothing is held now: after a successor has used it up. */
void ts_reserve_refill(struct ts_reserve *reserve);

void ts_reserve_give(struct ts_reserve *reserve);

#endif
