/* SPDX-License-Identifier: BSD-3-Clause */
/* patient.h - a call that may never return, waited for with a limit
 *
 * System calls on a FUSE file sleep until its server answers, and no signal
 * but the fatal one ends that. While the daemon holds the connection of a
 * server that died, there may be nobody to answer, and it is the daemon that
 * has to start somebody.
 */
#ifndef TS_DAEMON_PATIENT_H
#define TS_DAEMON_PATIENT_H

#include <stdbool.h>
#include <stddef.h>

struct ts_patient {
	/* The call, and what is to be done with its copy of the argument when
	 * it returns after it was given up. @undo NULL: nothing.
	 */
	int (*call)(void *arg);
	void (*undo)(void *arg);

	int timeout_ms; /* -1: for ever */
	bool (*must_stop)(void *opaque);
	void *opaque;
};

/* Make the call with a copy of @arg; when it has returned, @arg is as it has
 * left it, and the result is its own. -ETIMEDOUT or -ECANCELED: it was given
 * up, and goes on without us.
 */
int ts_patient_call(const struct ts_patient *how, void *arg,
		    size_t arg_bytes);

#endif
