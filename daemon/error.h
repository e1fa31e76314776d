/* SPDX-License-Identifier: BSD-3-Clause */
/* error.h - an errno with a sentence for people
 *
 * Functions that can fail for reasons a person has to mend return -errno and
 * fill a struct ts_error; the caller decides whether to log it, to send it
 * over the control socket, or to go on.
 */
#ifndef TS_DAEMON_ERROR_H
#define TS_DAEMON_ERROR_H

struct ts_error {
	char text[512];
};

/* Write the sentence and return @err, so that callers can write
 * `return ts_fail(error, -errno, "cannot ...")`. %m is errno of -@err.
 */
int ts_fail(struct ts_error *error, int err, const char *format, ...)
	__attribute__((format(printf, 3, 4)));

#endif
