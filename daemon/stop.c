// SPDX-License-Identifier: BSD-3-Clause
/* stop.c - being told to stop while a step is still at work */
#include "stop.h"

#include <signal.h>
#include <stddef.h>
#include <time.h>

void ts_stop_block_signals(void)
{
	sigset_t set;

	sigemptyset(&set);
	sigaddset(&set, SIGTERM);
	sigaddset(&set, SIGINT);
	sigaddset(&set, SIGHUP);
	sigprocmask(SIG_BLOCK, &set, NULL);
	signal(SIGPIPE, SIG_IGN);
}

bool ts_stop_is_requested(void)
{
	sigset_t pending;

	sigpending(&pending);
	return sigismember(&pending, SIGTERM) || sigismember(&pending, SIGINT);
}

bool ts_stop_sleep(int ms)
{
	/* Slices, since a pending blocked signal does not end a sleep, and
	 * taking it here would hide it from the loop.
	 */
	for (int slept = 0; slept < ms; slept += 20) {
		if (ts_stop_is_requested())
			return true;
		nanosleep(&(struct timespec){.tv_nsec = 20000000}, NULL);
	}
	return ts_stop_is_requested();
}
