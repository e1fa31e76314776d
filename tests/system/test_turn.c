// SPDX-License-Identifier: BSD-3-Clause
/* test_turn.c - who waits for a FUSE request, and when another is called
 *
 * An eventfd stands for the connection. Exits 0 when all holds, 1 with a
 * sentence otherwise.
 */
#include "require.h"
#include "fuse/turn.h"
#include "util/atomic.h"
#include "util/lock.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#define THREADS  4
#define REQUESTS 40000u /* several trials */

struct message {
	struct fuse_in_header header;
	struct fuse_read_in read;
};

static struct message reading(uint32_t bytes)
{
	return (struct message){
		.header = {.opcode = FUSE_READ, .len = sizeof(struct message)},
		.read.size = bytes,
	};
}

static struct message writing(uint32_t bytes)
{
	return (struct message){
		.header = {.opcode = FUSE_WRITE,
			   .len = (uint32_t)sizeof(struct message) + bytes},
	};
}

static bool needed(struct ts_turn *turn, int fd, struct message m)
{
	return ts_turn_is_needed(turn, fd, &m.header);
}

static void check_when_another_is_called(void)
{
	int fd = eventfd(0, 0);
	struct ts_turn turn, waiting;

	ts_turn_init(&turn, false);
	ts_turn_init(&waiting, true);
	require(!needed(&turn, fd, reading(4096)), "a short read");
	require(!needed(&turn, fd, writing(4096)), "a short write");
	require(needed(&turn, fd, reading(1 << 20)), "a long read");
	require(needed(&turn, fd, writing(1 << 20)), "a long write");
	require(needed(&waiting, fd, reading(4096)), "where reads may wait");
	require(eventfd_write(fd, 1) == 0, "eventfd: %m");
	require(needed(&turn, fd, reading(4096)), "when there is more to do");
	ts_turn_fini(&turn);
	ts_turn_fini(&waiting);
	close(fd);
}

struct rig {
	struct ts_turn turn;
	int fd;
	unsigned holders;
	uint64_t received;
	bool ended;
};

/* Receive as a server does: with the turn, and every other one passes it on. */
static void *receive(void *opaque)
{
	struct rig *rig = opaque;
	uint64_t n = 0, one;
	bool have = false;

	while (!ts_load_acquire(&rig->ended)) {
		if (!have)
			ts_turn_take(&rig->turn);
		require(!__atomic_fetch_add(&rig->holders, 1, __ATOMIC_ACQ_REL),
			"two have the turn");
		ts_turn_await(&rig->turn, rig->fd);
		require(read(rig->fd, &one, sizeof(one)) == sizeof(one),
			"read: %m");
		__atomic_fetch_add(&rig->received, 1, __ATOMIC_ACQ_REL);
		__atomic_fetch_sub(&rig->holders, 1, __ATOMIC_ACQ_REL);
		have = ++n % 2;
		if (!have)
			ts_turn_pass(&rig->turn);
	}
	if (have)
		ts_turn_pass(&rig->turn);
	return NULL;
}

static void check_that_one_waits_and_nothing_is_lost(void)
{
	struct rig rig = {.fd = eventfd(0, EFD_SEMAPHORE)};
	pthread_t thread[THREADS];

	ts_turn_init(&rig.turn, false);
	for (int i = 0; i < THREADS; i++)
		require(!pthread_create(&thread[i], NULL, receive, &rig),
			"a thread");
	for (uint64_t n = 1; n <= REQUESTS; n++) {
		if (n % 4096 == 0)
			usleep(1000); /* longer than is looked for */
		require(eventfd_write(rig.fd, 1) == 0, "eventfd: %m");
		while (n % 2 && __atomic_load_n(&rig.received,
						__ATOMIC_ACQUIRE) < n)
			sched_yield();
	}
	while (__atomic_load_n(&rig.received, __ATOMIC_ACQUIRE) < REQUESTS)
		usleep(100);
	ts_store_release(&rig.ended, true);
	require(eventfd_write(rig.fd, THREADS) == 0, "eventfd: %m");
	for (int i = 0; i < THREADS; i++)
		pthread_join(thread[i], NULL);
	ts_turn_fini(&rig.turn);
	close(rig.fd);
}

int main(void)
{
	check_when_another_is_called();
	check_that_one_waits_and_nothing_is_lost();
	return 0;
}
