/* SPDX-License-Identifier: BSD-3-Clause */
/* notify.h - news for systemd that never wait for systemd
 *
 * For all that is told while swap is on. PID 1 may be waiting for a page that
 * we serve, its queue be full, and sd_notify() wait for it: a deadlock. News
 * that find no room are lost; the next ones say the same or better.
 */
#ifndef TS_DAEMON_NOTIFY_H
#define TS_DAEMON_NOTIFY_H

/* Lines of sd_notify(3). Without systemd nothing happens. */
void ts_notify(const char *format, ...) __attribute__((format(printf, 1, 2)));

#endif
