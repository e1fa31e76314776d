// SPDX-License-Identifier: BSD-3-Clause
/* nbdjournal.c - an NBD client that survives its server, and checks it
 *
 * ts-nbdjournal --socket PATH [--seconds N] [--slots N] [--seed N]
 *
 * Four connections write, overwrite, discard and read pages of their own
 * part of the device, several in one request, and write down what was tried
 * and what was acknowledged. When its server dies, a connection is made anew,
 * and everything in its part is read: each slot must hold what was
 * acknowledged last, or what was on its way. The same once more at the end,
 * which comes after N seconds or at SIGTERM.
 * Prints one JSON object; exit 0 only if nothing was wrong.
 */
#include <errno.h>
#include <getopt.h>
#include <inttypes.h>
#include <libnbd.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define PAGE_BYTES    4096u
#define LANES	      4u
#define RUN_MAX	      32u
#define DISCARD_EVERY 5u
#define CONNECT_MS    60000u
/* One connection has this many requests under way at once. */
#define DEPTH 4u

static const char *socket_path;
static uint64_t slots = 16384, seed;
static time_t end_time;
static volatile sig_atomic_t told_to_end;

struct lane {
	pthread_t thread;
	unsigned number;
	uint64_t rng, first, n;
	uint32_t *tried, *acked; /* generations, of each slot of the lane */
	uint64_t writes, discards, connects, verified, wrong;
	struct nbd_handle *nbd;
};

static void on_term(int sig)
{
	told_to_end = 1;
}

static uint64_t next(struct lane *lane)
{
	lane->rng ^= lane->rng << 13;
	lane->rng ^= lane->rng >> 7;
	lane->rng ^= lane->rng << 17;
	return lane->rng;
}

static bool is_discard(uint32_t generation)
{
	return generation % DISCARD_EVERY == 0;
}

/* What a slot holds; some pages compress, some do not. */
static void make_page(uint64_t *words, uint64_t slot, uint32_t generation)
{
	uint64_t x = slot * 0x9e3779b97f4a7c15ull + generation + 1;
	unsigned kind = (slot / 4 + generation) % 4;

	if (is_discard(generation)) {
		memset(words, 0, PAGE_BYTES);
		return;
	}
	for (unsigned i = 0; i < PAGE_BYTES / 8; i++) {
		x ^= x << 13;
		x ^= x >> 7;
		x ^= x << 17;
		words[i] = kind == 0 || i % (2u << kind) == 0 ? x : i & 7;
	}
	words[0] = slot;
	words[PAGE_BYTES / 8 - 1] = generation;
}

static void check(struct lane *lane, uint64_t at, const uint64_t *page)
{
	uint64_t want[PAGE_BYTES / 8];

	for (uint32_t g = lane->acked[at]; g <= lane->tried[at]; g++) {
		make_page(want, lane->first + at, g);
		if (memcmp(want, page, PAGE_BYTES) != 0)
			continue;
		/* From here on this is what the slot holds. */
		lane->acked[at] = lane->tried[at] = g;
		lane->verified++;
		return;
	}
	lane->wrong++;
	fprintf(stderr, "slot %" PRIu64 ": acknowledged %u, tried %u; the page "
		"says slot %" PRIu64 ", generation %" PRIu64 "\n",
		lane->first + at, lane->acked[at], lane->tried[at], page[0],
		page[PAGE_BYTES / 8 - 1]);
}

/* -1: the server is gone once more. */
static int verify(struct lane *lane)
{
	static _Thread_local uint64_t pages[RUN_MAX * PAGE_BYTES / 8];

	for (uint64_t at = 0; at < lane->n; at += RUN_MAX) {
		uint64_t n = lane->n - at < RUN_MAX ? lane->n - at : RUN_MAX;

		if (nbd_pread(lane->nbd, pages, n * PAGE_BYTES,
			      (lane->first + at) * PAGE_BYTES, 0) < 0)
			return -1;
		for (uint64_t i = 0; i < n; i++)
			check(lane, at + i, pages + i * PAGE_BYTES / 8);
	}
	return 0;
}

static int connect_again(struct lane *lane)
{
	for (unsigned ms = 0; ms < CONNECT_MS; ms += 5) {
		nbd_close(lane->nbd);
		lane->nbd = nbd_create();
		if (lane->nbd && nbd_connect_unix(lane->nbd, socket_path) == 0) {
			lane->connects++;
			return 0;
		}
		usleep(5000);
	}
	fprintf(stderr, "no server for %u s: %s\n", CONNECT_MS / 1000,
		nbd_get_error());
	return -1;
}

struct request {
	uint64_t at;
	unsigned n;
	uint32_t generation;
	int64_t cookie;
	uint64_t pages[RUN_MAX * PAGE_BYTES / 8];
};

static int start(struct lane *lane, struct request *r)
{
	uint64_t off = (lane->first + r->at) * PAGE_BYTES;

	r->generation = 0;
	for (unsigned i = 0; i < r->n; i++)
		if (lane->tried[r->at + i] > r->generation)
			r->generation = lane->tried[r->at + i];
	r->generation++;
	for (unsigned i = 0; i < r->n; i++) {
		lane->tried[r->at + i] = r->generation;
		make_page(r->pages + i * PAGE_BYTES / 8,
			  lane->first + r->at + i, r->generation);
	}
	if (is_discard(r->generation))
		r->cookie = nbd_aio_trim(lane->nbd, r->n * PAGE_BYTES, off,
					 NBD_NULL_COMPLETION, 0);
	else
		r->cookie = nbd_aio_pwrite(lane->nbd, r->pages,
					   r->n * PAGE_BYTES, off,
					   NBD_NULL_COMPLETION, 0);
	return r->cookie < 0 ? -1 : 0;
}

static int finish(struct lane *lane, struct request *r)
{
	int done;

	while ((done = nbd_aio_command_completed(lane->nbd, r->cookie)) == 0)
		if (nbd_poll(lane->nbd, -1) < 0)
			return -1;
	if (done < 0)
		return -1;
	for (unsigned i = 0; i < r->n; i++)
		lane->acked[r->at + i] = r->generation;
	if (is_discard(r->generation))
		lane->discards += r->n;
	else
		lane->writes += r->n;
	return 0;
}

/* DEPTH requests at a time, each in a quarter of its own of the lane: two
 * under way for one slot could end in either order.
 */
static int work(struct lane *lane, struct request *requests)
{
	uint64_t part = lane->n / DEPTH;

	for (unsigned i = 0; i < DEPTH; i++) {
		struct request *r = &requests[i];

		r->n = 1 + next(lane) % RUN_MAX;
		r->at = i * part + next(lane) % (part - r->n);
		if (start(lane, r) < 0)
			return -1;
	}
	for (unsigned i = 0; i < DEPTH; i++)
		if (finish(lane, &requests[i]) < 0)
			return -1;
	return 0;
}

static void *run(void *opaque)
{
	struct request *requests = calloc(DEPTH, sizeof(*requests));
	struct lane *lane = opaque;
	bool broken = true;

	while (requests &&
	       (broken || (!told_to_end && time(NULL) < end_time))) {
		if (broken && connect_again(lane) < 0) {
			lane->wrong++;
			break;
		}
		if (broken && verify(lane) < 0)
			continue;
		broken = work(lane, requests) < 0;
	}
	while (verify(lane) < 0)
		if (connect_again(lane) < 0) {
			lane->wrong++;
			break;
		}
	nbd_close(lane->nbd);
	free(requests);
	return NULL;
}

static void parse(int argc, char **argv)
{
	static const struct option options[] = {
		{ "socket", required_argument, NULL, 's' },
		{ "seconds", required_argument, NULL, 't' },
		{ "slots", required_argument, NULL, 'n' },
		{ "seed", required_argument, NULL, 'r' },
		{ 0 },
	};
	long seconds = 10;
	int c;

	seed = (uint64_t)time(NULL);
	while ((c = getopt_long(argc, argv, "", options, NULL)) != -1) {
		if (c == 's')
			socket_path = optarg;
		else if (c == 't')
			seconds = strtol(optarg, NULL, 10);
		else if (c == 'n')
			slots = strtoull(optarg, NULL, 10);
		else if (c == 'r')
			seed = strtoull(optarg, NULL, 10);
		else
			exit(2);
	}
	if (!socket_path || slots < LANES * DEPTH * 2 * RUN_MAX) {
		fprintf(stderr, "--socket is missing, or too few slots\n");
		exit(2);
	}
	end_time = time(NULL) + seconds;
}

int main(int argc, char **argv)
{
	static struct lane lanes[LANES];
	struct lane sum = {0};

	parse(argc, argv);
	signal(SIGTERM, on_term);
	for (unsigned i = 0; i < LANES; i++) {
		struct lane *lane = &lanes[i];

		lane->number = i;
		lane->rng = seed * 0x9e3779b97f4a7c15ull + i + 1;
		lane->n = slots / LANES;
		lane->first = i * lane->n;
		lane->tried = calloc(lane->n, sizeof(uint32_t));
		lane->acked = calloc(lane->n, sizeof(uint32_t));
		if (!lane->tried || !lane->acked ||
		    pthread_create(&lane->thread, NULL, run, lane) != 0)
			return 1;
	}
	for (unsigned i = 0; i < LANES; i++) {
		pthread_join(lanes[i].thread, NULL);
		sum.writes += lanes[i].writes;
		sum.discards += lanes[i].discards;
		sum.connects += lanes[i].connects;
		sum.verified += lanes[i].verified;
		sum.wrong += lanes[i].wrong;
	}
	printf("{\"seed\": %" PRIu64 ", \"pages_written\": %" PRIu64
	       ", \"pages_discarded\": %" PRIu64 ", \"connects\": %" PRIu64
	       ", \"pages_verified\": %" PRIu64 ", \"wrong\": %" PRIu64 "}\n",
	       seed, sum.writes, sum.discards, sum.connects, sum.verified,
	       sum.wrong);
	return sum.wrong != 0;
}
