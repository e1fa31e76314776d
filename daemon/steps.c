// SPDX-License-Identifier: BSD-3-Clause
/* steps.c - work made of steps, each with its undo */
#include "steps.h"

#include <errno.h>

#include "daemon.h"
#include "log.h"
#include "stop.h"

static int run_one(struct ts_daemon *d, const struct ts_step *step,
		   struct ts_error *error)
{
	struct ts_error why = {.text = ""};
	int err;

	if (ts_stop_is_requested())
		return ts_fail(error, -ECANCELED,
			       "told to stop before the step \"%s\"",
			       step->name);
	ts_daemon_status(d, "%s", step->name);
	err = step->run(d, &why);
	if (err < 0)
		return ts_fail(error, err, "step \"%s\" failed: %s", step->name,
			       why.text);
	return 0;
}

int ts_steps_run(struct ts_daemon *d, const struct ts_step *steps, unsigned n,
		 struct ts_progress *progress, struct ts_error *error)
{
	struct ts_error second;

	while (progress->done < n) {
		int err = run_one(d, &steps[progress->done], error);

		if (err < 0) {
			ts_steps_undo(d, steps, progress, &second);
			return err;
		}
		progress->done++;
	}
	return 0;
}

int ts_steps_undo(struct ts_daemon *d, const struct ts_step *steps,
		  struct ts_progress *progress, struct ts_error *error)
{
	while (progress->done > 0) {
		const struct ts_step *step = &steps[progress->done - 1];
		struct ts_error why = {.text = ""};
		int err = step->undo ? step->undo(d, &why) : 0;

		if (err < 0) {
			ts_fail(error, err,
				"undoing the step \"%s\" failed: "
				"%s",
				step->name, why.text);
			ts_log(LOG_ERR, "%s", error->text);
			return err;
		}
		progress->done--;
	}
	return 0;
}
