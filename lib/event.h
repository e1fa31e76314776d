/* SPDX-License-Identifier: BSD-3-Clause */
/* event.h - sentences for the log of whoever uses the library
 *
 * For what happens seldom: at start, and when a state changes. Nothing is said
 * once a request, and nothing under a lock that a request waits for.
 */
#ifndef TS_EVENT_H
#define TS_EVENT_H

#include "thinswap.h"

struct ts_events {
	ts_event_fn *fn; /* or NULL */
	void *opaque;
};

__attribute__((format(printf, 3, 4))) void
ts_event(const struct ts_events *events, enum ts_event_level level,
	 const char *format, ...);

#endif
