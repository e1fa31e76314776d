/* SPDX-License-Identifier: BSD-3-Clause */
/* faults.h - a spill device that fails, by wrapping what the engine calls
 *
 * Link with -Wl,--wrap for pread64, pwrite64, io_uring_submit and
 * io_uring_submit_and_wait (spill_wraps in meson.build). Counted are
 * transfers of either engine.
 */
#ifndef TS_TESTS_SPILL_FAULTS_H
#define TS_TESTS_SPILL_FAULTS_H

enum fault {
	FAULT_NONE,
	FAULT_SHORT,   /* half of the bytes */
	FAULT_INTR,    /* EINTR */
	FAULT_AGAIN,   /* EAGAIN */
	FAULT_DELAY,   /* 10 ms late */
	FAULT_LATE,    /* writes only: 10 ms late */
	FAULT_EIO,     /* of writes */
	FAULT_ENOSPC,  /* of writes */
	FAULT_READ,    /* EIO of reads */
	FAULT_STUCK,   /* reads only: until another fault is set */
};

/* Every @every-th transfer from now on. */
void faults_set(enum fault fault, unsigned every);

/* How many were injected. */
unsigned faults_injected(void);

#endif
