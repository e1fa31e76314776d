/* SPDX-License-Identifier: BSD-3-Clause */
/* harden.h - what was done against swapping out the swap server, as a table
 *
 * Every row is a step for one process: what was wanted, what reading it back
 * found, and, where it was not had, what is missing and what is at risk. The
 * table is logged once at start and shown by `thinswap status`.
 */
#ifndef TS_DAEMON_HARDEN_H
#define TS_DAEMON_HARDEN_H

#include <stdbool.h>
#include <sys/types.h>

#include "config.h"
#include "error.h"

#define TS_HARDEN_ROWS 32

struct ts_harden_row {
	char who[24];
	const char *step;
	char wanted[40];
	char found[96];
	bool had;
	const char *lacks; /* capability, limit or kernel; NULL when had */
	const char *risk;
};

struct ts_harden_table {
	struct ts_harden_row rows[TS_HARDEN_ROWS];
	unsigned n;
};

/* Take all steps for the daemon itself, before it starts anything, so that
 * its children inherit what can be inherited. Adds rows only for what
 * ts_harden_check_process() does not read back later.
 */
void ts_harden_self(const struct ts_config *config,
		    struct ts_harden_table *table);

/* Should the server's threads run in SCHED_RR? Those that serve a socket. */
bool ts_harden_wants_realtime(const struct ts_config *config,
			      bool serves_socket);

/* Read back what holds for a process in the path of swap. */
void ts_harden_check_process(const char *who, pid_t pid,
			     struct ts_harden_table *table);

/* The same for the server's class; @wanted by ts_harden_wants_realtime(). */
void ts_harden_check_realtime(const char *who, pid_t pid, bool wanted,
			      struct ts_harden_table *table);

/* Append a row made by the caller. @lacks NULL: it is had. */
void ts_harden_add(struct ts_harden_table *table, const char *who,
		   const char *step, const char *wanted, const char *lacks,
		   const char *risk, const char *found_format, ...)
	__attribute__((format(printf, 7, 8)));

/* How many rows were not had. */
unsigned ts_harden_missing(const struct ts_harden_table *table);

/* Log the table. With @strict, -EPERM when any row was not had. */
int ts_harden_judge(const struct ts_harden_table *table, bool strict,
		    struct ts_error *error);

#endif
