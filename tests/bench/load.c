/* SPDX-License-Identifier: BSD-3-Clause */
/* load.c - phases of load on an NBD server, over several connections
 *
 * A connection's thread alternates between filling its free request slots and
 * nbd_poll(). Completions arrive as callbacks out of nbd_poll() (or out of the
 * call that sends a request); libnbd holds the handle's lock then, so they
 * only take the time, check, and push the request on the thread's free list.
 */
#include "load.h"

#include <err.h>
#include <errno.h>
#include <libnbd.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

struct ts_workload {
	const char *name;
	bool sequential, check;
	enum ts_op op;
	unsigned write_percent; /* random only: the rest is `op` */
};

static const struct ts_workload workloads[] = {
	{"fill", .sequential = true, .op = TS_OP_WRITE},
	{"seqread", .sequential = true, .op = TS_OP_READ},
	{"check", .sequential = true, .op = TS_OP_READ, .check = true},
	{"discard", .sequential = true, .op = TS_OP_TRIM},
	{"zero", .sequential = true, .op = TS_OP_ZERO},
	{"overwrite", .op = TS_OP_WRITE},
	{"randread", .op = TS_OP_READ},
	{"mixed", .op = TS_OP_READ, .write_percent = 30},
};

struct connection;

struct request {
	struct connection *connection;
	struct request *next_free;
	uint8_t *buffer;
	enum ts_op op;
	uint64_t unit;
	uint64_t start_ns;
};

/* What the threads of a phase share. */
struct run {
	struct ts_load *load;
	const struct ts_phase *phase;
	uint64_t units;             /* requests that cover the device once */
	uint64_t shift_pages;       /* what a fill writes to slot 0 */
	_Atomic uint64_t next_unit; /* sequential */
	_Atomic uint64_t left;      /* random, by number */
	uint64_t deadline_ns;       /* random, by time */
	pthread_barrier_t start;
};

struct connection {
	struct run *run;
	unsigned number;
	struct nbd_handle *nbd;
	struct request request[TS_MAX_DEPTH];
	struct request *free;
	unsigned in_flight;
	uint8_t *busy; /* random: a byte for each unit of this connection */
	uint64_t random;
	uint64_t requests, wrong_pages;
	struct ts_hist latency[TS_OPS];
};

static uint64_t now_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return ts.tv_sec * 1000000000ull + ts.tv_nsec;
}

/* xorshift64*: Vigna, "An experimental exploration of Marsaglia's xorshift
 * generators, scrambled", 2016.
 */
static uint64_t next_random(uint64_t *state)
{
	*state ^= *state >> 12;
	*state ^= *state << 25;
	*state ^= *state >> 27;
	return *state * 2685821657736338717ull;
}

static uint64_t parse_bytes(const char *text)
{
	char *end;
	uint64_t value = strtoull(text, &end, 10);

	if (*end == 'K')
		value <<= 10, end++;
	else if (*end == 'M')
		value <<= 20, end++;
	return *end ? 0 : value;
}

static void set_key(struct ts_phase *phase, const char *key, const char *value)
{
	if (!strcmp(key, "bs"))
		phase->bs_bytes = parse_bytes(value);
	else if (!strcmp(key, "seconds"))
		phase->seconds = atof(value);
	else if (!strcmp(key, "requests"))
		phase->requests = strtoull(value, NULL, 10);
	else if (!strcmp(key, "rounds"))
		phase->rounds = strtoull(value, NULL, 10);
	else
		errx(2, "phase %s: unknown key %s", phase->name, key);
}

void ts_phase_parse(struct ts_phase *phase, const char *text)
{
	char *copy = strdup(text), *rest = copy, *part;
	char *name = strsep(&rest, ":");

	*phase =
		(struct ts_phase){.bs_bytes = 65536, .rounds = 1, .seconds = 3};
	for (size_t i = 0; i < sizeof(workloads) / sizeof(*workloads); i++)
		if (!strcmp(workloads[i].name, name))
			phase->workload = &workloads[i];
	if (!phase->workload)
		errx(2, "unknown phase: %s", name);
	phase->name = phase->workload->name;
	while ((part = strsep(&rest, ","))) {
		char *value = strchr(part, '=');

		if (!value)
			errx(2, "phase %s: %s has no value", name, part);
		*value++ = '\0';
		set_key(phase, part, value);
	}
	if (!phase->bs_bytes || phase->bs_bytes % TS_PAGE_BYTES ||
	    phase->bs_bytes / TS_PAGE_BYTES > TS_CONTENT_MAX_PAGES)
		errx(2, "phase %s: bs must be 4K .. 32M", name);
	if (!phase->rounds || (!phase->requests && phase->seconds <= 0))
		errx(2, "phase %s: has no end", name);
	free(copy);
}

void ts_load_open(struct ts_load *load)
{
	for (unsigned i = 0; i < load->connections; i++) {
		struct nbd_handle *nbd = nbd_create();

		if (!nbd)
			errx(1, "%s", nbd_get_error());
		nbd_set_request_structured_replies(nbd, false);
		nbd_set_pread_initialize(nbd, false);
		if (nbd_connect_unix(nbd, load->socket) < 0)
			errx(1, "%s: %s", load->socket, nbd_get_error());
		if (nbd_get_size(nbd) <
		    (int64_t)(load->content.n_slots * TS_PAGE_BYTES))
			errx(1, "%s: the device is too small", load->socket);
		load->handle[i] = nbd;
	}
}

void ts_load_close(struct ts_load *load)
{
	for (unsigned i = 0; i < load->connections; i++) {
		nbd_shutdown(load->handle[i], 0);
		nbd_close(load->handle[i]);
	}
}

static uint64_t unit_pages(const struct run *run)
{
	return run->phase->bs_bytes / TS_PAGE_BYTES;
}

/* Which unit comes next for this connection? False: the phase is over. */
static bool next_unit(struct connection *c, uint64_t *ret_unit)
{
	struct run *run = c->run;
	const struct ts_phase *phase = run->phase;
	unsigned connections = run->load->connections;

	if (phase->workload->sequential) {
		uint64_t n = atomic_fetch_add(&run->next_unit, 1);

		*ret_unit = n % run->units;
		return n < run->units * phase->rounds;
	}
	if (phase->requests) {
		uint64_t left = atomic_load(&run->left);

		do {
			if (!left)
				return false;
		} while (!atomic_compare_exchange_weak(&run->left, &left,
						       left - 1));
	} else if (now_ns() >= run->deadline_ns) {
		return false;
	}
	uint64_t mine = run->units / connections, pick;

	do {
		pick = next_random(&c->random) % mine;
	} while (c->busy[pick]);
	c->busy[pick] = 1;
	*ret_unit = pick * connections + c->number;
	return true;
}

static int completed(void *opaque, int *error)
{
	struct request *request = opaque;
	struct connection *c = request->connection;
	struct run *run = c->run;
	const struct ts_workload *workload = run->phase->workload;
	uint64_t pages = unit_pages(run);

	if (*error) {
		errno = *error;
		err(1, "%s at byte %llu", run->phase->name,
		    (unsigned long long)(request->unit * pages *
					 TS_PAGE_BYTES));
	}
	ts_hist_add(&c->latency[request->op], now_ns() - request->start_ns);
	if (request->op == TS_OP_READ && (workload->check || run->load->verify))
		c->wrong_pages += ts_content_wrong(&run->load->content,
						   request->unit * pages, pages,
						   request->buffer);
	if (!workload->sequential)
		c->busy[request->unit / run->load->connections] = 0;
	c->requests++;
	c->in_flight--;
	request->next_free = c->free;
	c->free = request;
	return 1;
}

/* What a write sends: pages of the file as they lie there, or made unique in
 * the request's own memory.
 */
static const uint8_t *written(struct request *request, uint64_t slot,
			      uint64_t pages, uint64_t index)
{
	struct ts_content *content = &request->connection->run->load->content;

	ts_content_wrote(content, slot, pages, index);
	if (!content->unique)
		return ts_content_pages(content, index);
	ts_content_make(content, slot, pages, index, request->buffer);
	return request->buffer;
}

static void issue(struct connection *c, struct request *request, uint64_t unit)
{
	struct run *run = c->run;
	struct ts_content *content = &run->load->content;
	const struct ts_workload *workload = run->phase->workload;
	uint64_t pages = unit_pages(run), slot = unit * pages, index;
	uint64_t bytes = run->phase->bs_bytes, at = slot * TS_PAGE_BYTES;
	nbd_completion_callback done = {completed, request, NULL};
	int64_t cookie = -1;

	request->unit = unit;
	request->op = workload->op;
	if (workload->write_percent &&
	    next_random(&c->random) % 100 < workload->write_percent)
		request->op = TS_OP_WRITE;
	c->in_flight++;
	request->start_ns = now_ns();
	switch (request->op) {
	case TS_OP_READ:
		cookie = nbd_aio_pread(c->nbd, request->buffer, bytes, at, done,
				       0);
		break;
	case TS_OP_WRITE:
		index = workload->sequential ? slot + run->shift_pages
					     : next_random(&c->random) >> 16;
		cookie = nbd_aio_pwrite(c->nbd,
					written(request, slot, pages, index),
					bytes, at, done, 0);
		break;
	case TS_OP_TRIM:
		ts_content_dropped(content, slot, pages);
		cookie = nbd_aio_trim(c->nbd, bytes, at, done, 0);
		break;
	case TS_OP_ZERO:
		ts_content_dropped(content, slot, pages);
		cookie = nbd_aio_zero(c->nbd, bytes, at, done, 0);
		break;
	case TS_OPS:
		abort();
	}
	if (cookie < 0)
		errx(1, "%s: %s", run->phase->name, nbd_get_error());
}

static void *connection_main(void *arg)
{
	struct connection *c = arg;
	struct run *run = c->run;
	bool more = true;

	pthread_barrier_wait(&run->start);
	do {
		struct request *request;
		uint64_t unit;

		while (more && (request = c->free)) {
			more = next_unit(c, &unit);
			if (!more)
				break;
			c->free = request->next_free;
			issue(c, request, unit);
		}
		if (c->in_flight && nbd_poll(c->nbd, -1) < 0)
			errx(1, "%s: %s", run->phase->name, nbd_get_error());
	} while (more || c->in_flight);
	return NULL;
}

static struct connection *connection_new(struct run *run, unsigned number)
{
	struct ts_load *load = run->load;
	struct connection *c = calloc(1, sizeof(*c));
	uint64_t mine = run->units / load->connections;
	unsigned depth = load->depth;

	if (!c)
		err(1, "memory for a connection");
	c->run = run;
	c->number = number;
	c->nbd = load->handle[number];
	c->random = (load->seed + number + 1) * 0x9e3779b97f4a7c15ull;
	c->busy = calloc(mine + 1, 1);
	/* Random places are taken while in flight: leave some free. */
	if (!run->phase->workload->sequential && depth > mine / 2)
		depth = mine / 2;
	if (!c->busy || !depth)
		errx(1, "%s: the device is too small for this request size",
		     run->phase->name);
	for (unsigned i = 0; i < depth; i++) {
		struct request *request = &c->request[i];

		request->connection = c;
		request->buffer =
			aligned_alloc(TS_PAGE_BYTES, run->phase->bs_bytes);
		if (!request->buffer)
			err(1, "memory for requests");
		memset(request->buffer, 0xa5, run->phase->bs_bytes);
		request->next_free = c->free;
		c->free = request;
	}
	return c;
}

static void connection_free(struct connection *c)
{
	for (unsigned i = 0; i < TS_MAX_DEPTH; i++)
		free(c->request[i].buffer);
	free(c->busy);
	free(c);
}

static void collect(const struct connection *c, struct ts_result *ret)
{
	ret->requests += c->requests;
	ret->wrong_pages += c->wrong_pages;
	for (int op = 0; op < TS_OPS; op++)
		ts_hist_merge(&ret->latency[op], &c->latency[op]);
}

void ts_load_run(struct ts_load *load, const struct ts_phase *phase,
		 struct ts_result *ret)
{
	struct run run = {
		.load = load,
		.phase = phase,
		.units =
			load->content.n_slots * TS_PAGE_BYTES / phase->bs_bytes,
		.left = phase->requests,
	};
	struct connection *c[TS_MAX_CONNECTIONS];
	pthread_t thread[TS_MAX_CONNECTIONS];
	uint64_t start;

	if (!strcmp(phase->name, "fill"))
		run.shift_pages = load->fills++ * 8191;
	pthread_barrier_init(&run.start, NULL, load->connections + 1);
	for (unsigned i = 0; i < load->connections; i++) {
		c[i] = connection_new(&run, i);
		if (pthread_create(&thread[i], NULL, connection_main, c[i]))
			errx(1, "cannot start threads");
	}
	start = now_ns();
	run.deadline_ns = start + phase->seconds * 1e9;
	pthread_barrier_wait(&run.start);
	memset(ret, 0, sizeof(*ret));
	for (unsigned i = 0; i < load->connections; i++)
		pthread_join(thread[i], NULL);
	ret->seconds = (now_ns() - start) / 1e9;
	for (unsigned i = 0; i < load->connections; i++) {
		collect(c[i], ret);
		connection_free(c[i]);
	}
	ret->pages = ret->requests * unit_pages(&run);
	pthread_barrier_destroy(&run.start);
}
