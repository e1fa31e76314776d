/* SPDX-License-Identifier: BSD-3-Clause */
/* rawzstd.c - what zstd alone makes of a page file: the bound for any store
 *
 * rawzstd --pages FILE [--sample PAGES] [--rounds N] [--threads N]
 *         [--json] CONFIG...
 *
 * CONFIG is LEVEL or LEVEL,KEY=VALUE,... with the keys w c h s (logarithms
 * of window, chain, hash, searches), m (minimal match), t (target length),
 * st (strategy, 1 fast .. 9 btultra2), lit (literal compression: 0 auto,
 * 1 on, 2 off), unit (bytes compressed together, default 4096), dict (train
 * a dictionary of so many bytes on every 31st page first), dictfile (take the
 * dictionary in that file), and api:
 *   api=frame  magicless frames without size and checksum (default)
 *   api=block  the block interface, no frame at all
 * Configurations are run in turn, round by round, and the fastest round of
 * each is printed: other load on the machine can only slow a round down.
 * Times are CPU time of the thread; MB/s is pages over wall time, all
 * threads. Zero and same-filled pages are left out, as a store does not
 * compress them; they are counted. Every page is decompressed and compared.
 */
#define ZSTD_STATIC_LINKING_ONLY
#define ZSTD_DISABLE_DEPRECATE_WARNINGS
#include <zstd.h>
#include <zdict.h>

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

#define PAGE_BYTES 4096u
#define MAX_CONFIGS 64
#define MAX_THREADS 64
#define MAX_UNIT (1u << 16)
#define DICT_STEP 31
#define MAX_DICT (1u << 20)

struct config {
	const char *text;
	int level;
	ZSTD_compressionParameters cparams;
	int literals;
	size_t unit_bytes;
	size_t dict_bytes;
	const char *dict_file;
	bool block_api;
	void *dict;
	ZSTD_CDict *cdict;
	ZSTD_DDict *ddict;
	/* best round so far */
	double comp_us, decomp_us; /* CPU microseconds a page */
	double comp_mb, decomp_mb; /* MB/s of wall time, all threads */
	uint64_t out_bytes, raw_units;
};

struct job {
	const struct config *config;
	size_t first_unit, end_unit;
	double comp_ns, decomp_ns; /* CPU time */
	uint64_t out_bytes, raw_units;
};

static uint8_t *pages; /* pages worth compressing, back to back */
static size_t n_pages;
static size_t n_trivial;
static uint8_t *packed;	     /* compressed units, each in its own place */
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
	return !memcmp(page, page + 8, PAGE_BYTES - 8);
}

static void load_pages(const char *name, size_t sample)
{
	struct stat st;
	int fd = open(name, O_RDONLY | O_CLOEXEC);

	if (fd < 0 || fstat(fd, &st) < 0)
		err(1, "%s", name);
	size_t total = st.st_size / PAGE_BYTES;
	size_t take = sample && sample < total ? sample : total;

	/* Runs of 16 pages, evenly spread, so that units hold neighbours. */
	take -= take % 16;
	if (!take)
		errx(1, "%s: too few pages", name);
	pages = aligned_alloc(PAGE_BYTES, take * PAGE_BYTES);
	if (!pages)
		err(1, "memory for %zu pages", take);
	for (size_t i = 0; i < take; i += 16) {
		size_t at = i * (total / 16) / (take / 16) / 16 * 16;

		if (take == total)
			at = i;
		for (size_t k = 0; k < 16; k++) {
			uint8_t *to = pages + n_pages * PAGE_BYTES;

			if (pread(fd, to, PAGE_BYTES,
				  (at + k) * PAGE_BYTES) != PAGE_BYTES)
				err(1, "%s", name);
			if (is_trivial(to))
				n_trivial++;
			else
				n_pages++;
		}
	}
	close(fd);
	n_pages -= n_pages % 16;
	packed = malloc(n_pages * PAGE_BYTES);
	packed_len = calloc(n_pages, sizeof(*packed_len));
	if (!packed || !packed_len)
		err(1, "memory for results");
	memset(packed, 1, n_pages * PAGE_BYTES);
}

static void set_key(struct config *config, const char *key, const char *value)
{
	ZSTD_compressionParameters *p = &config->cparams;
	unsigned number = strtoul(value, NULL, 10);

	if (!strcmp(key, "w"))
		p->windowLog = number;
	else if (!strcmp(key, "c"))
		p->chainLog = number;
	else if (!strcmp(key, "h"))
		p->hashLog = number;
	else if (!strcmp(key, "s"))
		p->searchLog = number;
	else if (!strcmp(key, "m"))
		p->minMatch = number;
	else if (!strcmp(key, "t"))
		p->targetLength = number;
	else if (!strcmp(key, "st"))
		p->strategy = number;
	else if (!strcmp(key, "lit"))
		config->literals = number;
	else if (!strcmp(key, "unit"))
		config->unit_bytes = number;
	else if (!strcmp(key, "dict"))
		config->dict_bytes = number;
	else if (!strcmp(key, "dictfile"))
		config->dict_file = strdup(value);
	else if (!strcmp(key, "api"))
		config->block_api = !strcmp(value, "block");
	else
		errx(2, "%s: unknown key %s", config->text, key);
}

static void parse_config(struct config *config, const char *text)
{
	char *copy = strdup(text), *rest = copy, *part;

	*config = (struct config){
		.text = text,
		.level = atoi(text),
		.unit_bytes = PAGE_BYTES,
		.comp_us = 1e9,
		.decomp_us = 1e9,
	};
	/* Twice: the defaults of a level depend on the unit's size. */
	for (int pass = 0; pass < 2; pass++) {
		if (pass)
			config->cparams = ZSTD_getCParams(config->level,
							  config->unit_bytes,
							  config->dict_bytes);
		strcpy(copy, text);
		rest = copy;
		strsep(&rest, ",");
		while ((part = strsep(&rest, ","))) {
			char *value = strchr(part, '=');

			if (!value)
				errx(2, "%s: %s has no value", text, part);
			*value++ = '\0';
			set_key(config, part, value);
		}
	}
	free(copy);
	if (config->unit_bytes % PAGE_BYTES || config->unit_bytes > MAX_UNIT ||
	    !config->unit_bytes)
		errx(2, "%s: unit must be 4096 .. 65536", text);
	if (ZSTD_isError(ZSTD_checkCParams(config->cparams)))
		errx(2, "%s: parameters out of range", text);
}

static size_t train(struct config *config)
{
	size_t n = n_pages / DICT_STEP, *sizes = malloc(n * sizeof(*sizes));
	uint8_t *samples = malloc(n * PAGE_BYTES);

	config->dict = malloc(config->dict_bytes);
	if (!sizes || !samples || !config->dict)
		err(1, "memory for training");
	for (size_t i = 0; i < n; i++) {
		sizes[i] = PAGE_BYTES;
		memcpy(samples + i * PAGE_BYTES,
		       pages + i * DICT_STEP * PAGE_BYTES, PAGE_BYTES);
	}
	size_t got = ZDICT_trainFromBuffer(config->dict, config->dict_bytes,
					   samples, sizes, n);
	if (ZDICT_isError(got))
		errx(1, "training: %s", ZDICT_getErrorName(got));
	free(sizes);
	free(samples);
	return got;
}

static size_t load_dict(struct config *config)
{
	FILE *in = fopen(config->dict_file, "re");
	size_t got;

	config->dict = malloc(MAX_DICT);
	if (!in || !config->dict)
		err(1, "%s", config->dict_file);
	got = fread(config->dict, 1, MAX_DICT, in);
	fclose(in);
	return got;
}

static void make_dict(struct config *config)
{
	size_t got;

	if (config->dict_file)
		got = load_dict(config);
	else if (config->dict_bytes)
		got = train(config);
	else
		return;
	config->cdict = ZSTD_createCDict_advanced(config->dict, got,
						  ZSTD_dlm_byRef,
						  ZSTD_dct_fullDict,
						  config->cparams,
						  ZSTD_defaultCMem);
	config->ddict = ZSTD_createDDict(config->dict, got);
	if (!config->cdict || !config->ddict)
		errx(1, "%s: no dictionary", config->text);
}

static ZSTD_CCtx *new_cctx(const struct config *config)
{
	size_t bytes = ZSTD_estimateCCtxSize_usingCParams(config->cparams) +
		       (64 << 10);
	ZSTD_CCtx *cctx = ZSTD_initStaticCCtx(aligned_alloc(64, bytes & ~63ul),
					      bytes & ~63ul);

	if (!cctx)
		errx(1, "%s: no context", config->text);
	struct {
		ZSTD_cParameter param;
		int value;
	} set[] = {
		{ ZSTD_c_format, ZSTD_f_zstd1_magicless },
		{ ZSTD_c_contentSizeFlag, 0 },
		{ ZSTD_c_checksumFlag, 0 },
		{ ZSTD_c_dictIDFlag, 0 },
		{ ZSTD_c_compressionLevel, config->level },
		{ ZSTD_c_windowLog, config->cparams.windowLog },
		{ ZSTD_c_chainLog, config->cparams.chainLog },
		{ ZSTD_c_hashLog, config->cparams.hashLog },
		{ ZSTD_c_searchLog, config->cparams.searchLog },
		{ ZSTD_c_minMatch, config->cparams.minMatch },
		{ ZSTD_c_targetLength, config->cparams.targetLength },
		{ ZSTD_c_strategy, config->cparams.strategy },
		{ ZSTD_c_literalCompressionMode, config->literals },
	};
	for (size_t i = 0; i < sizeof(set) / sizeof(set[0]); i++) {
		size_t rc = ZSTD_CCtx_setParameter(cctx, set[i].param,
						   set[i].value);

		if (ZSTD_isError(rc))
			errx(1, "%s: %s", config->text, ZSTD_getErrorName(rc));
	}
	if (config->cdict)
		ZSTD_CCtx_refCDict(cctx, config->cdict);
	return cctx;
}

static size_t compress_unit(const struct config *config, ZSTD_CCtx *cctx,
			    uint8_t *to, const uint8_t *from)
{
	size_t n = config->unit_bytes;

	if (!config->block_api)
		return ZSTD_compress2(cctx, to, n - 1, from, n);
	if (config->cdict) {
		ZSTD_compressBegin_usingCDict(cctx, config->cdict);
	} else {
		ZSTD_parameters params = { .cParams = config->cparams };

		ZSTD_compressBegin_advanced(cctx, NULL, 0, params, n);
	}
	return ZSTD_compressBlock(cctx, to, n - 1, from, n);
}

static size_t decompress_unit(const struct config *config, ZSTD_DCtx *dctx,
			      uint8_t *to, const uint8_t *from, size_t len)
{
	size_t n = config->unit_bytes;

	if (!config->block_api)
		return ZSTD_decompressDCtx(dctx, to, n, from, len);
	if (config->ddict)
		ZSTD_decompressBegin_usingDDict(dctx, config->ddict);
	else
		ZSTD_decompressBegin(dctx);
	return ZSTD_decompressBlock(dctx, to, n, from, len);
}

static void decompress_all(struct job *job)
{
	const struct config *config = job->config;
	size_t n = config->unit_bytes;
	ZSTD_DCtx *dctx = ZSTD_createDCtx();
	uint8_t *out = aligned_alloc(PAGE_BYTES, n);
	uint64_t start, spent = 0;

	ZSTD_DCtx_setParameter(dctx, ZSTD_d_format, ZSTD_f_zstd1_magicless);
	if (config->ddict)
		ZSTD_DCtx_refDDict(dctx, config->ddict);
	start = clock_ns(CLOCK_THREAD_CPUTIME_ID);
	for (size_t i = job->first_unit; i < job->end_unit; i++) {
		if (!packed_len[i])
			continue;
		size_t got = decompress_unit(config, dctx, out, packed + i * n,
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
	const struct config *config = job->config;
	size_t n = config->unit_bytes;
	ZSTD_CCtx *cctx = new_cctx(config);

	pthread_barrier_wait(&barrier);
	uint64_t start = clock_ns(CLOCK_THREAD_CPUTIME_ID);

	for (size_t i = job->first_unit; i < job->end_unit; i++) {
		size_t len = compress_unit(config, cctx, packed + i * n,
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

static void run_round(struct config *config, unsigned threads)
{
	pthread_t tid[MAX_THREADS];
	struct job job[MAX_THREADS] = { 0 };
	size_t units = n_pages * PAGE_BYTES / config->unit_bytes;
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
	config->out_bytes = config->raw_units = 0;
	for (unsigned i = 0; i < threads; i++) {
		pthread_join(tid[i], NULL);
		comp_ns += job[i].comp_ns;
		decomp_ns += job[i].decomp_ns;
		config->out_bytes += job[i].out_bytes;
		config->raw_units += job[i].raw_units;
	}
	pthread_barrier_destroy(&barrier);

	double mb = n_pages * (PAGE_BYTES / 1e6);

	if (comp_ns / n_pages / 1e3 < config->comp_us)
		config->comp_us = comp_ns / n_pages / 1e3;
	if (decomp_ns / n_pages / 1e3 < config->decomp_us)
		config->decomp_us = decomp_ns / n_pages / 1e3;
	if (mb / ((t[1] - t[0]) / 1e9) > config->comp_mb)
		config->comp_mb = mb / ((t[1] - t[0]) / 1e9);
	if (mb / ((t[3] - t[2]) / 1e9) > config->decomp_mb)
		config->decomp_mb = mb / ((t[3] - t[2]) / 1e9);
}

static void show(const struct config *c, unsigned threads, bool json, bool last)
{
	double ratio = (double)n_pages * PAGE_BYTES / c->out_bytes;

	if (!json) {
		printf("%-38s %6.3f %8.2f %8.2f %8.0f %8.0f %7" PRIu64 "\n",
		       c->text, ratio, c->comp_us, c->decomp_us, c->comp_mb,
		       c->decomp_mb, c->raw_units);
		return;
	}
	printf("{\"config\": \"%s\", \"threads\": %u, \"pages\": %zu, "
	       "\"trivial_pages\": %zu, \"out_bytes\": %" PRIu64
	       ", \"ratio\": %.4f, \"comp_us\": %.3f, \"decomp_us\": %.3f, "
	       "\"comp_mb_s\": %.1f, \"decomp_mb_s\": %.1f}%s\n",
	       c->text, threads, n_pages, n_trivial, c->out_bytes, ratio,
	       c->comp_us, c->decomp_us, c->comp_mb, c->decomp_mb,
	       last ? "" : ",");
}

int main(int argc, char **argv)
{
	static const struct option options[] = {
		{ "pages", required_argument, NULL, 'p' },
		{ "sample", required_argument, NULL, 's' },
		{ "rounds", required_argument, NULL, 'r' },
		{ "threads", required_argument, NULL, 't' },
		{ "json", no_argument, NULL, 'j' },
		{ 0 },
	};
	static struct config configs[MAX_CONFIGS];
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
		parse_config(&configs[n], argv[i]);
		make_dict(&configs[n++]);
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
