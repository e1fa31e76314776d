// SPDX-License-Identifier: BSD-3-Clause
/* turn.c - one thread at a time waits for the next request
 *
 * A fault is a short request, and what it costs is being woken: by the program
 * the loop device's worker, by that the server, by that the program. On a
 * processor that sleeps, most of all in a virtual machine, each takes longer
 * than the page takes to decompress. Two things save one of them:
 *
 * - the kernel wakes one waiting thread a request, also when another has just
 *   found the request by itself. So only one waits there. Another is called
 *   when this one will be busy for longer than the call takes: with a long
 *   request, with one that may wait for a disk, or when more are there;
 * - that one looks for the next request for LOOK_NS before it sleeps, if the
 *   last one came within that time. A lone request is never looked for, so
 *   that an idle machine stays idle, and what is wasted is one such time at
 *   the end of a series.
 *
 * Looking helps where processors would sleep, and harms where other programs
 * want them: who sleeps is woken before these, who yields waits behind them.
 * Nobody tells which it is, so both are tried for a while every few thousand
 * requests, and what waited less is kept: for looking, clearly less.
 * Measured in man/thinswap-design.7.
 */
#include "turn.h"
#include "util/lock.h"

#include <assert.h>
#include <errno.h>
#include <poll.h>
#include <sched.h>

#define LOOK_NS      100000u
#define TRIAL        256u
#define KEEP         8192u
#define SHORT_BYTES  (4u << 12)

void ts_turn_init(struct ts_turn *turn, bool always_pass)
{
	int err = sem_init(&turn->free, 0, 1);

	assert(!err);
	(void)err;
	turn->always_pass = always_pass;
	turn->quick = false;
	turn->looks = true;
	turn->phase = TS_TURN_TRY_LOOK;
	turn->left = TRIAL;
	turn->waited_ns[0] = turn->waited_ns[1] = 0;
}

void ts_turn_fini(struct ts_turn *turn)
{
	sem_destroy(&turn->free);
}

void ts_turn_take(struct ts_turn *turn)
{
	while (sem_wait(&turn->free) < 0)
		assert(errno == EINTR);
}

void ts_turn_pass(struct ts_turn *turn)
{
	sem_post(&turn->free);
}

static bool is_there(int fd, int timeout_ms)
{
	struct pollfd p = {.fd = fd, .events = POLLIN};

	return poll(&p, 1, timeout_ms) != 0;
}

static bool look(int fd, uint64_t start)
{
	while (!is_there(fd, 0)) {
		if (ts_now_ns() - start >= LOOK_NS)
			return false;
		sched_yield();
	}
	return true;
}

static void next_phase(struct ts_turn *turn)
{
	turn->phase = turn->phase == TS_TURN_KEEP ? TS_TURN_TRY_SLEEP
						  : turn->phase + 1;
	turn->left = TRIAL;
	if (turn->phase == TS_TURN_KEEP) {
		turn->left = KEEP;
		turn->looks = turn->waited_ns[true] <
			      turn->waited_ns[false] / 8 * 7;
	} else {
		turn->looks = turn->phase == TS_TURN_TRY_LOOK;
		turn->waited_ns[turn->looks] = 0;
	}
}

/* A long pause says nothing about either way: it counts no more than
 * the longest that does.
 */
static void weigh(struct ts_turn *turn, uint64_t waited_ns)
{
	if (turn->phase != TS_TURN_KEEP)
		turn->waited_ns[turn->looks] +=
			waited_ns < 2 * LOOK_NS ? waited_ns : 2 * LOOK_NS;
	if (--turn->left == 0)
		next_phase(turn);
}

void ts_turn_await(struct ts_turn *turn, int fd)
{
	uint64_t start = ts_now_ns(), waited_ns;
	bool quick = turn->quick;

	if (!quick || !turn->looks || !look(fd, start))
		is_there(fd, -1);
	waited_ns = ts_now_ns() - start;
	turn->quick = waited_ns < 2 * LOOK_NS;
	if (quick)
		weigh(turn, waited_ns);
}

static uint32_t bytes_of(const struct fuse_in_header *request)
{
	const struct fuse_read_in *in = (const void *)(request + 1);

	return request->opcode == FUSE_READ ? in->size : request->len;
}

bool ts_turn_is_needed(const struct ts_turn *turn, int fd,
		       const struct fuse_in_header *request)
{
	return turn->always_pass || bytes_of(request) > SHORT_BYTES ||
	       is_there(fd, 0);
}
