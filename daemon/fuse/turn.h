/* SPDX-License-Identifier: BSD-3-Clause */
/* turn.h - one thread at a time waits for the next request
 *
 * A thread takes the turn, waits for a request, and either answers it with the
 * turn in its hands or passes the turn on first, and takes it again later:
 *
 *	ts_turn_take(turn);
 *	ts_turn_await(turn, fd);
 *	n = read(fd, ...);
 *	if (ts_turn_is_needed(turn, fd, request))
 *		ts_turn_pass(turn);
 */
#ifndef TS_FUSE_TURN_H
#define TS_FUSE_TURN_H

#include <linux/fuse.h>
#include <semaphore.h>
#include <stdbool.h>
#include <stdint.h>

enum ts_turn_phase { TS_TURN_TRY_SLEEP, TS_TURN_TRY_LOOK, TS_TURN_KEEP };

struct ts_turn {
	sem_t free;
	bool always_pass; /* an answer may have to wait for something */

	/* Only for who has the turn. */
	bool quick; /* the last request came soon after the one before */
	bool looks;
	enum ts_turn_phase phase;
	unsigned left;         /* requests in this phase */
	uint64_t waited_ns[2]; /* in trials, without and with looking */
};

void ts_turn_init(struct ts_turn *turn, bool always_pass);
void ts_turn_fini(struct ts_turn *turn);

void ts_turn_take(struct ts_turn *turn);
void ts_turn_pass(struct ts_turn *turn);

/* Wait for a request, and look for it before sleeping where one can be expected
 * soon. A signal ends the wait as well; the read that follows then waits. The
 * caller has the turn.
 */
void ts_turn_await(struct ts_turn *turn, int fd);

/* Should another thread receive what comes next, before this one has answered
 * @request? @request: as received, the header and what belongs to it.
 */
bool ts_turn_is_needed(const struct ts_turn *turn, int fd,
		       const struct fuse_in_header *request);

#endif
