/* SPDX-License-Identifier: BSD-3-Clause */
/* keeper.h - the thread that keeps memory ready for the request path */
#ifndef TS_KEEPER_H
#define TS_KEEPER_H

#include "core.h"

struct ts_keeper {
	struct ts_core *core;
	pthread_t thread;
	bool running;
	bool stop; /* under the block list's lock */
	void (*look)(void *opaque); /* called when it looks around, or NULL */
	void *look_opaque;
	pthread_mutex_t busy; /* held while it works: hold it to have rest */
};

void ts_keeper_init(struct ts_keeper *keeper, struct ts_core *core);
void ts_keeper_fini(struct ts_keeper *keeper);

/* Touch the reserve, then start the thread. Returns 0 or -errno. */
int ts_keeper_start(struct ts_keeper *keeper);

/* End the thread; fine if it does not run. */
void ts_keeper_stop(struct ts_keeper *keeper);

#endif
