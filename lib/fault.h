/* SPDX-License-Identifier: BSD-3-Clause */
/* fault.h - points at which a test lets a process die
 *
 * One after each step that changes what a successor would find, or that it
 * relies on having happened. Only a library that is built for it
 * (TS_FAULT_POINTS, see tests/fault/meson.build) has them; in any other they
 * are nothing.
 */
#ifndef TS_FAULT_H
#define TS_FAULT_H

#ifdef TS_FAULT_POINTS

struct ts_fault_point {
	const char *name; /* "area: what has just been done" */
};

/* Every point of the program is between these two. */
extern const struct ts_fault_point __start_ts_fault_points[],
	__stop_ts_fault_points[];

/* The test's own: called at each point, if set, from any thread and under any
 * lock.
 */
extern void (*ts_fault_hook)(const struct ts_fault_point *point);

#define TS_FAULT_POINT(text)                                                   \
	do {                                                                   \
		static const struct ts_fault_point point_                      \
			__attribute__((section("ts_fault_points"), used)) = {  \
				text                                           \
			};                                                     \
		if (ts_fault_hook)                                             \
			ts_fault_hook(&point_);                                \
	} while (0)

#else

#define TS_FAULT_POINT(text)                                                   \
	do {                                                                   \
	} while (0)

#endif

#endif
