/* SPDX-License-Identifier: BSD-3-Clause */
/* tune.h - what can be changed while a store runs
 *
 *	key            value                          needs
 *	ram            size, up to what was started    -
 *	level          -7..19                          -
 *	high-water     percent of ram, spilling begins spill (low-water stays
 *	                                                below it)
 *	low-water      percent of ram, spilling ends   spill
 *	ram-admission  on or off, true or false        spill
 *	write-budget   bytes a day, 0 without limit    spill
 *
 * Asker    ts_tune_parse(), then ts_tune_ask() with the statistics file of the
 *          server: no other channel is needed. Who may write the file (its
 *          owner) may tune.
 * Server   the keeper looks into the mailbox at least once a second.
 */
#ifndef TS_TUNE_H
#define TS_TUNE_H

#include "statsfile.h"

enum ts_tune_key {
	TS_TUNE_RAM,
	TS_TUNE_LEVEL,
	TS_TUNE_HIGH_WATER,
	TS_TUNE_LOW_WATER,
	TS_TUNE_RAM_ADMISSION,
	TS_TUNE_WRITE_BUDGET,
	TS_N_TUNE_KEYS
};

const char *ts_tune_name(enum ts_tune_key key);

/* Read "key=value". Returns 0 or -EINVAL with a sentence in @err. */
int ts_tune_parse(const char *text, enum ts_tune_key *ret_key,
		  int64_t *ret_value, char *err, size_t err_bytes);

/* Write a value as ts_tune_parse() would take it. Returns @buf. */
char *ts_tune_format(enum ts_tune_key key, int64_t value, char *buf,
		     size_t buf_bytes);

/* Ask the server of a statistics file and wait, at most @timeout_ms, for its
 * answer. Returns 0, or -errno with a sentence in @err: -EACCES (not the
 * file's owner), -ESRCH (the server is gone), -ETIMEDOUT, or what the server
 * said.
 */
int ts_tune_ask(const char *path, enum ts_tune_key key, int64_t value,
		unsigned timeout_ms, char *err, size_t err_bytes);

struct ts_store;

/* The server's side: do it. Returns 0, -ERANGE or -ENOTSUP (no spill). */
int ts_tune_apply(struct ts_store *store, enum ts_tune_key key, int64_t value);

/* The server's side: answer what is in the mailbox, if anything is. */
void ts_tune_answer(struct ts_store *store);

#endif
