// SPDX-License-Identifier: BSD-3-Clause
/* error.c - an errno with a sentence for people */
#include "error.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>

int ts_fail(struct ts_error *error, int err, const char *format, ...)
{
	/* An argument may be the old text: build the new one beside it. */
	struct ts_error made;
	va_list args;

	errno = -err;
	va_start(args, format);
	vsnprintf(made.text, sizeof(made.text), format, args);
	va_end(args);
	*error = made;
	return err;
}
