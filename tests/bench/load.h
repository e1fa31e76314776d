/* SPDX-License-Identifier: BSD-3-Clause */
/* load.h - phases of load on an NBD server, over several connections
 *
 * Each connection has a thread of its own, with one poll loop that keeps
 * `depth` requests in flight. Simple replies are negotiated, as the kernel's
 * client does. A phase is a workload with a request size and an end:
 *
 *   fill       write the whole device in order
 *   seqread    read it in order
 *   check      the same, and compare every page
 *   discard    trim it in order
 *   zero       zero it in order
 *   overwrite  write requests at random places
 *   randread   read them
 *   mixed      seven reads to three writes
 *
 * The first five run over the device `rounds` times, the others for `seconds`
 * or for `requests` requests. Connections share the requests of the former in
 * turn; in the latter each has places of its own, and never two requests at
 * one place at a time, so that what is read can be verified.
 */
#ifndef TS_BENCH_LOAD_H
#define TS_BENCH_LOAD_H

#include "content.h"
#include "hist.h"

#define TS_MAX_CONNECTIONS 64
#define TS_MAX_DEPTH       256

enum ts_op { TS_OP_READ, TS_OP_WRITE, TS_OP_TRIM, TS_OP_ZERO, TS_OPS };

struct ts_workload;

struct ts_phase {
	const struct ts_workload *workload;
	const char *name;
	uint64_t bs_bytes;
	uint64_t rounds;
	uint64_t requests; /* 0: until the time is over */
	double seconds;
};

struct ts_result {
	double seconds;
	uint64_t requests, pages, wrong_pages;
	struct ts_hist latency[TS_OPS];
};

struct ts_load {
	const char *socket;
	unsigned connections, depth;
	bool verify; /* compare what every phase reads, not only check's */
	uint64_t seed;
	struct ts_content content;
	struct nbd_handle *handle[TS_MAX_CONNECTIONS];
	uint64_t fills; /* so that every fill writes other pages */
};

/* NAME[:KEY=VALUE,...], keys bs (with K or M), seconds, requests, rounds.
 * Exits with a message when it is not one.
 */
void ts_phase_parse(struct ts_phase *phase, const char *text);

/* Connect. The device must hold load->content.n_slots. Exits on failure. */
void ts_load_open(struct ts_load *load);
void ts_load_close(struct ts_load *load);

/* Run one phase. Any failed request ends the program with a message. */
void ts_load_run(struct ts_load *load, const struct ts_phase *phase,
		 struct ts_result *ret);

#endif
