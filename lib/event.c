/* SPDX-License-Identifier: BSD-3-Clause */
/* event.c - sentences for the log of whoever uses the library */
#include "event.h"

#include <stdarg.h>
#include <stdio.h>

void ts_event(const struct ts_events *events, enum ts_event_level level,
	      const char *format, ...)
{
	char text[400];
	va_list ap;

	if (!events->fn)
		return;
	va_start(ap, format);
	vsnprintf(text, sizeof(text), format, ap);
	va_end(ap);
	events->fn(events->opaque, level, text);
}
