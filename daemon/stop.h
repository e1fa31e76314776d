/* SPDX-License-Identifier: BSD-3-Clause */
/* stop.h - being told to stop while a step is still at work
 *
 * SIGTERM and SIGINT are blocked in the whole daemon and taken by the event
 * loop. Steps that wait look here instead, so that a start can be interrupted
 * at any point and is undone; the signal stays pending for the loop.
 */
#ifndef TS_DAEMON_STOP_H
#define TS_DAEMON_STOP_H

#include <stdbool.h>

/* Block the signals; before any thread starts. */
void ts_stop_block_signals(void);

bool ts_stop_is_requested(void);

/* Sleep; true when a stop is requested before or meanwhile. */
bool ts_stop_sleep(int ms);

#endif
