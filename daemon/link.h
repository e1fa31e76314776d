/* SPDX-License-Identifier: BSD-3-Clause */
/* link.h - a device whose connections the kernel drops while its server lives
 *
 * A request that outlives its timeout makes the kernel drop the connection,
 * and wait for another one, which nobody would bring: to pidfd and probe the
 * server is well. The kernel's nbd driver tells of it by a multicast message.
 *
 * The server is then killed and followed by another (revive.h). Fresh
 * connections to the same one would not do: it may still be at work on a
 * request that the kernel sends again, and carry it out when the slot is
 * somebody else's.
 */
#ifndef TS_DAEMON_LINK_H
#define TS_DAEMON_LINK_H

struct ts_daemon;

/* Listen, once there is a device of the nbd route. Idempotent; what is not
 * possible is logged.
 */
void ts_link_begin(struct ts_daemon *d);

/* The device has just got connections: what was told before is old. */
void ts_link_forget(struct ts_daemon *d);

void ts_link_end(struct ts_daemon *d);

#endif
