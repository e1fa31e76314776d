/* SPDX-License-Identifier: BSD-3-Clause */
/* require.h - end a test program with a sentence when something is not so */
#ifndef TS_TESTS_SYSTEM_REQUIRE_H
#define TS_TESTS_SYSTEM_REQUIRE_H

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

static inline void require(int ok, const char *format, ...)
{
	va_list args;

	if (ok)
		return;
	va_start(args, format);
	fputs("FAILED: ", stdout);
	vprintf(format, args);
	putchar('\n');
	va_end(args);
	exit(1);
}

#endif
