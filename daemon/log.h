/* SPDX-License-Identifier: BSD-3-Clause */
/* log.h - where thinswapd says what it does
 *
 * Priorities are those of syslog(3). Under systemd entries go to the journal;
 * elsewhere to standard error with the <N> prefix that systemd and others
 * understand, or without it on a terminal. Lines end without a newline.
 */
#ifndef TS_DAEMON_LOG_H
#define TS_DAEMON_LOG_H

#include <syslog.h>

void ts_log_open(void);

void ts_log(int priority, const char *format, ...)
	__attribute__((format(printf, 2, 3)));

#endif
