/* SPDX-License-Identifier: BSD-3-Clause */
/* steps.h - work made of steps, each with its undo
 *
 * A step that fails leaves nothing behind of its own; those before it are
 * undone in reverse. An undo that fails stops the undoing: what comes before
 * it is still needed (a server whose swap cannot be switched off).
 */
#ifndef TS_DAEMON_STEPS_H
#define TS_DAEMON_STEPS_H

#include "error.h"

struct ts_daemon;

struct ts_step {
	const char *name; /* as a person would say: "switch swap on" */
	int (*run)(struct ts_daemon *d, struct ts_error *error);
	int (*undo)(struct ts_daemon *d, struct ts_error *error); /* or NULL */
};

/* Which steps of a list are done; zero at first. */
struct ts_progress {
	unsigned done;
};

/* Run the rest of the list. On failure everything is undone, and the sentence
 * names the step. Stops with -ECANCELED between steps when told to stop.
 */
int ts_steps_run(struct ts_daemon *d, const struct ts_step *steps, unsigned n,
		 struct ts_progress *progress, struct ts_error *error);

/* Undo what is done, last first. 0, or the failure it stopped at. */
int ts_steps_undo(struct ts_daemon *d, const struct ts_step *steps,
		  struct ts_progress *progress, struct ts_error *error);

#endif
