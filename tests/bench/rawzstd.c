/* SPDX-License-Identifier: BSD-3-Clause */
/* rawzstd.c - what zstd alone makes of a page file: the bound for any store
 *
 * rawzstd --pages FILE [--sample PAGES] [--rounds N] [--threads N]
 *         [--json] CONFIG...
 *
 * What a CONFIG is says rawzstd.h; a plain level is one.
 * Configurations are run in turn, round by round, and the fastest round of
 * each is printed: other load on the machine can only slow a round down.
 * Times are CPU time of the thread; MB/s is pages over wall time, all
 * threads. Zero and same-filled pages are left out, as a store does not
 * compress them; they are counted. Every page is decompressed and compared.
 */
#include "rawzstd.h"

#include <err.h>
#include <fcntl.h>
#include <getopt.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define MAX_CONFIGS 64
#define MAX_THREADS 64

struct job {
	const struct rz_config *config;
	size_t first_unit, end_unit;
	double comp_ns, decomp_ns; /* CPU time */
	uint64_t out_bytes, raw_units;
};

static uint8_t *pages; /* pages worth compressing, back to back */
static size_t n_pages;
static size_t n_trivial;
static uint8_t *packed;      /* compressed units, each in its own place */
static uint32_t *packed_len; /* 0: stored raw */
static pthread_barrier_t barrier;

static uint64_t clock_ns(clockid_t id)
{
	struct timespec ts;

	clock_gettime(id, &ts);
	return ts.tv_sec * 1000000000ull + ts.tv_nsec;
}

static bool is_trivial(const uint8_t *page)
{
	return !memcmp(page, page + 8, RZ_PAGE_BYTES - 8);
}

static void load_pages(const char *name, size_t sample)
{
	struct stat st;
	int fd = open(name, O_RDONLY | O_CLOEXEC);

	if (fd < 0 || fstat(fd, &st) < 0)
		err(1, "%s", name);
	size_t total = st.st_size / RZ_PAGE_BYTES;
	size_t take = sample && sample < total ? sample : total;

	/* Runs of 16 pages, evenly spread, so that units hold neighbours. */
	take -= take % 16;
	if (!take)
		errx(1, "%s: too few pages", name);
	pages = aligned_alloc(RZ_PAGE_BYTES, take * RZ_PAGE_BYTES);
	if (!pages)
		err(1, "memory for %zu pages", take);
	for (size_t i = 0; i < take; i += 16) {
		size_t at = i * (total / 16) / (take / 16) / 16 * 16;

		if (take == total)
			at = i;
		for (size_t k = 0; k < 16; k++) {
			uint8_t *to = pages + n_pages * RZ_PAGE_BYTES;

			if (pread(fd, to, RZ_PAGE_BYTES,
				  (at + k) * RZ_PAGE_BYTES) != RZ_PAGE_BYTES)
				err(1, "%s", name);
			if (is_trivial(to))
				n_trivial++;
			else
				n_pages++;
		}
	}
	close(fd);
	n_pages -= n_pages % 16;
	packed = malloc(n_pages * RZ_PAGE_BYTES);
	packed_len = calloc(n_pages, sizeof(*packed_len));
	if (!packed || !packed_len)
		err(1, "memory for results");
	memset(packed, 1, n_pages * RZ_PAGE_BYTES);
}

static void decompress_all(struct job *job)
{
	const struct rz_config *config = job->config;
	size_t n = config->unit_bytes;
	ZSTD_DCtx *dctx = ZSTD_createDCtx();
	uint8_t *out = aligned_alloc(RZ_PAGE_BYTES, n);
	uint64_t start, spent = 0;

	ZSTD_DCtx_setParameter(dctx, ZSTD_d_format, ZSTD_f_zstd1_magicless);
	if (config->ddict)
		ZSTD_DCtx_refDDict(dctx, config->ddict);
	start = clock_ns(CLOCK_THREAD_CPUTIME_ID);
	for (size_t i = job->first_unit; i < job->end_unit; i++) {
		if (!packed_len[i])
			continue;
		size_t got = rz_decompress(config, dctx, out, packed + i * n,
					   packed_len[i]);

		if (got != n || memcmp(out, pages + i * n, n))
			errx(1, "%s: unit %zu comes back wrong", config->text,
			     i);
	}
	spent = clock_ns(CLOCK_THREAD_CPUTIME_ID) - start;
	/* What the comparison costs is measured and taken off. */
	start = clock_ns(CLOCK_THREAD_CPUTIME_ID);
	for (size_t i = job->first_unit; i < job->end_unit; i++) {
		memcpy(out, pages + i * n, n);
		__asm__ volatile("" ::: "memory");
	}
	spent -= clock_ns(CLOCK_THREAD_CPUTIME_ID) - start;
	job->decomp_ns = spent;
	ZSTD_freeDCtx(dctx);
	free(out);
}

static void *worker(void *arg)
{
	struct job *job = arg;
	const struct rz_config *config = job->config;
	size_t n = config->unit_bytes;
	ZSTD_CCtx *cctx = rz_new_cctx(config);

	pthread_barrier_wait(&barrier);
	uint64_t start = clock_ns(CLOCK_THREAD_CPUTIME_ID);

	for (size_t i = job->first_unit; i < job->end_unit; i++) {
		size_t len = rz_compress(config, cctx, packed + i * n,
					 pages + i * n);

		if (ZSTD_isError(len) || !len) {
			packed_len[i] = 0;
			job->raw_units++;
			job->out_bytes += n;
		} else {
			packed_len[i] = len;
			job->out_bytes += len;
		}
	}
	job->comp_ns = clock_ns(CLOCK_THREAD_CPUTIME_ID) - start;
	pthread_barrier_wait(&barrier);
	pthread_barrier_wait(&barrier);
	decompress_all(job);
	pthread_barrier_wait(&barrier);
	free(cctx);
	return NULL;
}

static void run_round(struct rz_config *config, unsigned threads)
{
	pthread_t tid[MAX_THREADS];
	struct job job[MAX_THREADS] = {0};
	size_t units = n_pages * RZ_PAGE_BYTES / config->unit_bytes;
	double comp_ns = 0, decomp_ns = 0;
	uint64_t t[4];

	pthread_barrier_init(&barrier, NULL, threads + 1);
	for (unsigned i = 0; i < threads; i++) {
		job[i].config = config;
		job[i].first_unit = units * i / threads;
		job[i].end_unit = units * (i + 1) / threads;
		if (pthread_create(&tid[i], NULL, worker, &job[i]))
			errx(1, "cannot start threads");
	}
	for (int i = 0; i < 4; i++) {
		pthread_barrier_wait(&barrier);
		t[i] = clock_ns(CLOCK_MONOTONIC);
	}
	config->best.out_bytes = config->best.raw_units = 0;
	for (unsigned i = 0; i < threads; i++) {
		pthread_join(tid[i], NULL);
		comp_ns += job[i].comp_ns;
		decomp_ns += job[i].decomp_ns;
		config->best.out_bytes += job[i].out_bytes;
		config->best.raw_units += job[i].raw_units;
	}
	pthread_barrier_destroy(&barrier);

	double mb = n_pages * (RZ_PAGE_BYTES / 1e6);

	if (comp_ns / n_pages / 1e3 < config->best.comp_us)
		config->best.comp_us = comp_ns / n_pages / 1e3;
	if (decomp_ns / n_pages / 1e3 < config->best.decomp_us)
		config->best.decomp_us = decomp_ns / n_pages / 1e3;
	if (mb / ((t[1] - t[0]) / 1e9) > config->best.comp_mb)
		config->best.comp_mb = mb / ((t[1] - t[0]) / 1e9);
	if (mb / ((t[3] - t[2]) / 1e9) > config->best.decomp_mb)
		config->best.decomp_mb = mb / ((t[3] - t[2]) / 1e9);
}

static void show(const struct rz_config *c, unsigned threads, bool json,
		 bool last)
{
	double ratio = (double)n_pages * RZ_PAGE_BYTES / c->best.out_bytes;

	if (!json) {
		printf("%-38s %6.3f %8.2f %8.2f %8.0f %8.0f %7" PRIu64 "\n",
		       c->text, ratio, c->best.comp_us, c->best.decomp_us,
		       c->best.comp_mb, c->best.decomp_mb, c->best.raw_units);
		return;
	}
	printf("{\"config\": \"%s\", \"threads\": %u, \"pages\": %zu, "
	       "\"trivial_pages\": %zu, \"out_bytes\": %" PRIu64
	       ", \"ratio\": %.4f, \"comp_us\": %.3f, \"decomp_us\": %.3f, "
	       "\"comp_mb_s\": %.1f, \"decomp_mb_s\": %.1f}%s\n",
	       c->text, threads, n_pages, n_trivial, c->best.out_bytes, ratio,
	       c->best.comp_us, c->best.decomp_us, c->best.comp_mb,
	       c->best.decomp_mb, last ? "" : ",");
}

int main(int argc, char **argv)
{
	static const struct option options[] = {
		{"pages", required_argument, NULL, 'p'},
		{"sample", required_argument, NULL, 's'},
		{"rounds", required_argument, NULL, 'r'},
		{"threads", required_argument, NULL, 't'},
		{"json", no_argument, NULL, 'j'},
		{0},
	};
	static struct rz_config configs[MAX_CONFIGS];
	const char *file = NULL;
	unsigned rounds = 3, threads = 1, n = 0;
	size_t sample = 16384;
	bool json = false;
	int c;

	while ((c = getopt_long(argc, argv, "+", options, NULL)) != -1) {
		if (c == 'p')
			file = optarg;
		else if (c == 's')
			sample = strtoul(optarg, NULL, 10);
		else if (c == 'r')
			rounds = strtoul(optarg, NULL, 10);
		else if (c == 't')
			threads = strtoul(optarg, NULL, 10);
		else if (c == 'j')
			json = true;
		else
			return 2;
	}
	if (!file || optind == argc || argc - optind > MAX_CONFIGS ||
	    !threads || threads > MAX_THREADS || !rounds)
		errx(2, "usage: rawzstd --pages FILE [--sample PAGES] "
			"[--rounds N] [--threads N] [--json] CONFIG...");
	load_pages(file, sample);
	for (int i = optind; i < argc; i++) {
		rz_config_parse(&configs[n], argv[i]);
		rz_config_dict(&configs[n++], pages, n_pages);
	}
	for (unsigned r = 0; r < rounds; r++)
		for (unsigned i = 0; i < n; i++)
			run_round(&configs[i], threads);
	if (json)
		puts("[");
	else
		printf("%-38s %6s %8s %8s %8s %8s %7s\n", "config", "ratio",
		       "comp us", "back us", "MB/s", "back", "raw");
	for (unsigned i = 0; i < n; i++)
		show(&configs[i], threads, json, i + 1 == n);
	if (json)
		puts("]");
	return 0;
}
