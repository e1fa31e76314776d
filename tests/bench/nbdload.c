/* SPDX-License-Identifier: BSD-3-Clause */
/* nbdload.c - load an NBD server with real pages and measure it
 *
 * nbdload --socket PATH --pages FILE [--size BYTES] [--connections N]
 *         [--depth N] [--server-pid PID] [--verify] [--unique] [--seed N]
 *         PHASE...
 *
 * Phases (load.h) run one after the other on the same connections and are
 * printed as JSON lines when done: throughput in MB/s (10^6), latencies in
 * microseconds by kind of request, and with --server-pid the CPU time the
 * server spent for each page and its resident memory, as it is and at its
 * peak. What every slot holds is known; `check` reads all and compares, and
 * --verify compares whatever is read. With --unique no two pages are equal.
 * Exit status 1 if a page was wrong.
 */
#include "load.h"
#include "serverstat.h"

#include <err.h>
#include <getopt.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *const op_name[TS_OPS] = {
	[TS_OP_READ] = "read",
	[TS_OP_WRITE] = "write",
	[TS_OP_TRIM] = "discard",
	[TS_OP_ZERO] = "zero",
};

static void print_latency(const char *name, const struct ts_hist *hist)
{
	static const struct {
		const char *name;
		double share;
	} points[] = {
		{"p50", .5},
		{"p95", .95},
		{"p99", .99},
		{"p99.9", .999},
	};

	printf(", \"%s_us\": {", name);
	for (size_t i = 0; i < sizeof(points) / sizeof(*points); i++)
		printf("\"%s\": %.1f, ", points[i].name,
		       ts_hist_percentile(hist, points[i].share) / 1e3);
	printf("\"max\": %.1f, \"mean\": %.1f}", hist->max_ns / 1e3,
	       (double)hist->sum_ns / hist->count / 1e3);
}

static void print_result(const struct ts_load *load,
			 const struct ts_phase *phase,
			 const struct ts_result *result)
{
	printf("{\"phase\": \"%s\", \"bs\": %" PRIu64
	       ", \"connections\": %u, \"depth\": %u, \"requests\": %" PRIu64
	       ", \"pages\": %" PRIu64 ", \"seconds\": %.4f, "
	       "\"mb_s\": %.2f, \"iops\": %.1f, \"wrong_pages\": %" PRIu64,
	       phase->name, phase->bs_bytes, load->connections, load->depth,
	       result->requests, result->pages, result->seconds,
	       result->pages * TS_PAGE_BYTES / result->seconds / 1e6,
	       result->requests / result->seconds, result->wrong_pages);
	for (int op = 0; op < TS_OPS; op++)
		if (result->latency[op].count)
			print_latency(op_name[op], &result->latency[op]);
}

static void print_server(const struct ts_serverstat *before,
			 const struct ts_serverstat *after, uint64_t pages)
{
	printf(", \"server_cpu_us_page\": %.3f, \"server_rss_kib\": %" PRIu64
	       ", \"server_peak_kib\": %" PRIu64,
	       (after->cpu_ns - before->cpu_ns) / 1e3 / pages, after->rss_kib,
	       after->peak_kib);
}

static void read_server(pid_t pid, struct ts_serverstat *ret)
{
	int rc = pid ? ts_serverstat_read(pid, ret) : 0;

	if (rc)
		errx(1, "server process %d: %s", pid, strerror(-rc));
}

static unsigned long number(const char *text, unsigned long max)
{
	char *end;
	unsigned long value = strtoul(text, &end, 10);

	if (!*text || *end || value < 1 || value > max)
		errx(2, "%s is not a number from 1 to %lu", text, max);
	return value;
}

static const struct option options[] = {
	{"socket", required_argument, NULL, 's'},
	{"pages", required_argument, NULL, 'p'},
	{"size", required_argument, NULL, 'z'},
	{"connections", required_argument, NULL, 'c'},
	{"depth", required_argument, NULL, 'd'},
	{"server-pid", required_argument, NULL, 'P'},
	{"seed", required_argument, NULL, 'S'},
	{"verify", no_argument, NULL, 'v'},
	{"unique", no_argument, NULL, 'u'},
	{0},
};

int main(int argc, char **argv)
{
	static struct ts_load load = {.connections = 2, .depth = 16};
	static struct ts_result result;
	struct ts_serverstat before = {0}, after = {0};
	const char *pages = NULL;
	uint64_t size_bytes = 0, wrong = 0;
	bool unique = false;
	pid_t pid = 0;
	int c;

	while ((c = getopt_long(argc, argv, "+", options, NULL)) != -1) {
		switch (c) {
		case 's':
			load.socket = optarg;
			break;
		case 'p':
			pages = optarg;
			break;
		case 'z':
			size_bytes = number(optarg, 1ul << 50);
			break;
		case 'c':
			load.connections = number(optarg, TS_MAX_CONNECTIONS);
			break;
		case 'd':
			load.depth = number(optarg, TS_MAX_DEPTH);
			break;
		case 'P':
			pid = number(optarg, 1u << 30);
			break;
		case 'S':
			load.seed = number(optarg, 1ul << 60);
			break;
		case 'v':
			load.verify = true;
			break;
		case 'u':
			unique = true;
			break;
		default:
			return 2;
		}
	}
	if (!load.socket || !pages || optind == argc)
		errx(2, "needs --socket, --pages and a phase");

	struct ts_phase *phases = calloc(argc - optind, sizeof(*phases));

	if (!phases)
		err(1, "memory for phases");
	for (int i = optind; i < argc; i++)
		ts_phase_parse(&phases[i - optind], argv[i]);
	ts_content_init(&load.content, pages, size_bytes / TS_PAGE_BYTES);
	load.content.unique = unique;
	ts_load_open(&load);
	for (int i = 0; i < argc - optind; i++) {
		read_server(pid, &before);
		ts_load_run(&load, &phases[i], &result);
		read_server(pid, &after);
		print_result(&load, &phases[i], &result);
		if (pid)
			print_server(&before, &after, result.pages);
		puts("}");
		fflush(stdout);
		wrong += result.wrong_pages;
	}
	ts_load_close(&load);
	free(phases);
	if (wrong)
		errx(1, "%" PRIu64 " pages were wrong", wrong);
	return 0;
}
