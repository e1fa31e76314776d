// SPDX-License-Identifier: BSD-3-Clause
/* pager.c - a program under memory pressure that checks every byte it reads
 *
 * ts-pager fills memory with pages of real content, touches them at random,
 * reads them all once in order, frees them, and reports what that cost and
 * how many pages were wrong. Run it in a memory cgroup that is smaller than
 * --size and the difference is swapped. It exits 0 only with 0 wrong pages.
 *
 * Content. A page is described by its number and its generation, which goes
 * up at each rewrite. It holds the sample page that the two select, with its
 * first 16 bytes replaced by number, generation and seed: so no two pages
 * are equal, a page that is stale, misplaced or from another run is told
 * from the right one, and the expected bytes can always be made again. The
 * sample comes from the page file in runs of neighbours, spread over all of
 * it, and neighbours stay neighbours.
 *
 * Latency. A touch is timed round its first access only: one load, or, for a
 * rewrite, one atomic exchange of the page's first byte with the value it
 * must have, which takes a write fault and changes nothing. The comparison
 * of the page and its rewriting come after the clock has stopped. A touch
 * during which the kernel counted a major fault of this thread is a "fault",
 * that is, it waited for the swap device; both distributions are printed.
 *
 * Only the data is swapped: the program itself, the sample, the generations
 * and the histograms are locked first. With --sample 0 the page file is
 * mapped whole instead of copied, and is then ordinary page cache.
 */
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <inttypes.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define PAGE_BYTES 4096u
#define RUN_PAGES 64u		/* sample: neighbours kept together */
#define SHOWN_WRONG 8u
#define MAX_SAMPLE_BYTES (64ull << 20)

struct tag {
	uint64_t page;
	uint32_t generation;
	uint32_t run;		/* from the seed */
};

/* Log-linear: 64 steps an octave, so a value is at most 1.6 % off. */
#define HIST_SUB_BITS 6
#define HIST_SUB (1u << HIST_SUB_BITS)
#define HIST_BUCKETS (HIST_SUB * 40)

struct hist {
	uint64_t count;
	uint64_t bucket[HIST_BUCKETS];
};

struct options {
	const char *pages;
	uint64_t size_bytes;
	uint64_t sample_bytes;
	bool sample_given;
	double seconds;
	uint64_t touches;
	unsigned rewrite_percent;
	unsigned damage;
	uint64_t seed;
	bool json;
	bool progress;
};

struct pager {
	struct options opt;
	uint8_t *sample;
	uint64_t sample_pages;
	uint8_t *data;
	uint64_t n_pages;
	uint32_t *generation;
	uint8_t *is_wrong;
	uint64_t wrong;
	uint64_t rng;
	bool locked;
	struct hist touch, fault;
	uint64_t rewrites;
	double fill_seconds, touch_seconds, verify_seconds, free_seconds;
};

static uint8_t *data_start;	/* for the SIGBUS handler */
static uint64_t data_bytes;

__attribute__((noreturn, format(printf, 1, 2)))
static void die(const char *fmt, ...)
{
	va_list ap;

	fputs("ts-pager: ", stderr);
	va_start(ap, fmt);
	vfprintf(stderr, fmt, ap);
	va_end(ap);
	fputc('\n', stderr);
	exit(2);
}

static uint64_t now_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
}

static double seconds_since(uint64_t start_ns)
{
	return (double)(now_ns() - start_ns) / 1e9;
}

/* splitmix64, public domain, Sebastiano Vigna: prng.di.unimi.it */
static uint64_t next_random(uint64_t *state)
{
	uint64_t z = (*state += 0x9e3779b97f4a7c15u);

	z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
	z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
	return z ^ (z >> 31);
}

static unsigned hist_bucket(uint64_t ns)
{
	unsigned shift, b;

	if (ns < HIST_SUB)
		return (unsigned)ns;
	shift = 63u - (unsigned)__builtin_clzll(ns) - HIST_SUB_BITS;
	b = (shift + 1) * HIST_SUB + (unsigned)(ns >> shift) - HIST_SUB;
	return b < HIST_BUCKETS ? b : HIST_BUCKETS - 1;
}

/* The upper end of a bucket, in nanoseconds. */
static uint64_t hist_value(unsigned b)
{
	unsigned shift;

	if (b < HIST_SUB)
		return b;
	shift = b / HIST_SUB - 1;
	return (((uint64_t)(b % HIST_SUB) + HIST_SUB + 1) << shift) - 1;
}

static void hist_add(struct hist *h, uint64_t ns)
{
	h->count++;
	h->bucket[hist_bucket(ns)]++;
}

static double hist_us(const struct hist *h, double fraction)
{
	uint64_t seen = 0, want = (uint64_t)(fraction * (double)h->count);
	unsigned b;

	if (h->count == 0)
		return 0;
	if (want >= h->count)
		want = h->count - 1;
	for (b = 0; b < HIST_BUCKETS; b++) {
		seen += h->bucket[b];
		if (seen > want)
			return (double)hist_value(b) / 1e3;
	}
	return 0;
}

static void *map_anonymous(uint64_t bytes)
{
	void *p = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
		       MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (p == MAP_FAILED)
		die("cannot map %" PRIu64 " bytes: %s", bytes,
		    strerror(errno));
	return p;
}

static void read_at(int fd, uint8_t *to, uint64_t bytes, uint64_t offset)
{
	while (bytes) {
		ssize_t r = pread(fd, to, bytes, (off_t)offset);

		if (r < 0 && errno == EINTR)
			continue;
		if (r <= 0)
			die("reading pages: %s",
			    r ? strerror(errno) : "file became shorter");
		to += r;
		offset += (uint64_t)r;
		bytes -= (uint64_t)r;
	}
}

/* Take runs of neighbouring pages, spread evenly over the file. */
static void load_sample(struct pager *p)
{
	uint64_t file_pages, want, runs, run, at;
	struct stat st;
	int fd;

	fd = open(p->opt.pages, O_RDONLY | O_CLOEXEC);
	if (fd < 0 || fstat(fd, &st) < 0)
		die("%s: %s", p->opt.pages, strerror(errno));
	file_pages = (uint64_t)st.st_size / PAGE_BYTES;
	if (file_pages == 0)
		die("%s holds no whole page", p->opt.pages);

	if (p->opt.sample_given && p->opt.sample_bytes == 0) {
		p->sample_pages = file_pages;
		p->sample = mmap(NULL, file_pages * PAGE_BYTES, PROT_READ,
				 MAP_SHARED, fd, 0);
		if (p->sample == MAP_FAILED)
			die("mapping %s: %s", p->opt.pages, strerror(errno));
		close(fd);
		return;
	}

	want = p->opt.sample_bytes / PAGE_BYTES;
	if (want < RUN_PAGES)
		want = RUN_PAGES;
	if (want > file_pages)
		want = file_pages;
	p->sample_pages = want;
	p->sample = map_anonymous(want * PAGE_BYTES);
	runs = (want + RUN_PAGES - 1) / RUN_PAGES;
	for (run = 0; run < runs; run++) {
		uint64_t left = want - run * RUN_PAGES;
		uint64_t len = left < RUN_PAGES ? left : RUN_PAGES;

		at = (uint64_t)((__uint128_t)run * file_pages / runs);
		if (at + len > file_pages)
			at = file_pages - len;
		read_at(fd, p->sample + run * RUN_PAGES * PAGE_BYTES,
			len * PAGE_BYTES, at * PAGE_BYTES);
	}
	close(fd);
}

static struct tag tag_of(const struct pager *p, uint64_t page)
{
	return (struct tag){
		.page = page,
		.generation = p->generation[page],
		.run = (uint32_t)(p->opt.seed ^ (p->opt.seed >> 32)),
	};
}

/* The sample page under the page's present generation. */
static const uint8_t *base_of(const struct pager *p, uint64_t page)
{
	uint64_t g = p->generation[page];

	return p->sample + (page + g * 7919) % p->sample_pages * PAGE_BYTES;
}

static void write_page(struct pager *p, uint64_t page)
{
	uint8_t *to = p->data + page * PAGE_BYTES;
	struct tag tag = tag_of(p, page);

	memcpy(to, &tag, sizeof(tag));
	memcpy(to + sizeof(tag), base_of(p, page) + sizeof(tag),
	       PAGE_BYTES - sizeof(tag));
}

static void report_wrong(const struct pager *p, uint64_t page)
{
	const uint8_t *got = p->data + page * PAGE_BYTES;
	const uint8_t *want = base_of(p, page);
	struct tag have, tag = tag_of(p, page);
	unsigned i, bad = 0, first = PAGE_BYTES;

	memcpy(&have, got, sizeof(have));
	for (i = 0; i < PAGE_BYTES; i++) {
		uint8_t w = i < sizeof(tag) ? ((const uint8_t *)&tag)[i]
					    : want[i];

		if (got[i] != w && bad++ == 0)
			first = i;
	}
	fprintf(stderr,
		"ts-pager: page %" PRIu64 " is wrong: %u bytes from byte %u;"
		" tag says page %" PRIu64 " generation %" PRIu32
		" run %08" PRIx32 ", expected generation %" PRIu32
		" run %08" PRIx32 "\n",
		page, bad, first, have.page, have.generation, have.run,
		tag.generation, tag.run);
}

/* Compare every byte; a page counts as wrong once, however often seen. */
static void check_page(struct pager *p, uint64_t page)
{
	const uint8_t *got = p->data + page * PAGE_BYTES;
	struct tag tag = tag_of(p, page);

	if (memcmp(got, &tag, sizeof(tag)) == 0 &&
	    memcmp(got + sizeof(tag), base_of(p, page) + sizeof(tag),
		   PAGE_BYTES - sizeof(tag)) == 0)
		return;
	if (p->is_wrong[page])
		return;
	p->is_wrong[page] = 1;
	if (p->wrong++ < SHOWN_WRONG)
		report_wrong(p, page);
}

static void progress(const struct pager *p, const char *phase, uint64_t done,
		     uint64_t of, uint64_t *next_ns)
{
	uint64_t t;

	if (!p->opt.progress)
		return;
	t = now_ns();
	if (t < *next_ns)
		return;
	*next_ns = t + 1000000000u;
	if (of)
		fprintf(stderr, "  %-7s %3.0f %%\n", phase,
			100.0 * (double)done / (double)of);
	else
		fprintf(stderr, "  %-7s %" PRIu64 "\n", phase, done);
}

static void fill(struct pager *p)
{
	uint64_t page, next = 0, start = now_ns();

	for (page = 0; page < p->n_pages; page++) {
		write_page(p, page);
		if (page % 1024 == 0)
			progress(p, "fill", page, p->n_pages, &next);
	}
	p->fill_seconds = seconds_since(start);
}

/* Prove that the checks can fail: flip one bit in some pages. */
static void damage(struct pager *p)
{
	unsigned i;

	for (i = 0; i < p->opt.damage; i++) {
		uint64_t page = i * p->n_pages / p->opt.damage;
		unsigned byte = (i * 1031u + sizeof(struct tag)) % PAGE_BYTES;

		p->data[page * PAGE_BYTES + byte] ^= 1u << i % 8;
	}
}

static long major_faults(void)
{
	struct rusage ru;

	getrusage(RUSAGE_THREAD, &ru);
	return ru.ru_majflt;
}

static void touch_one(struct pager *p)
{
	uint64_t r = next_random(&p->rng);
	uint64_t page = (uint64_t)(((__uint128_t)r * p->n_pages) >> 64);
	bool rewrite = next_random(&p->rng) % 100 < p->opt.rewrite_percent;
	uint8_t *at = p->data + page * PAGE_BYTES;
	struct tag tag = tag_of(p, page);
	uint8_t expect = *(uint8_t *)&tag, got;
	long faults = major_faults();
	uint64_t ns = now_ns();

	if (rewrite)
		got = __atomic_exchange_n(at, expect, __ATOMIC_RELAXED);
	else
		got = *(volatile uint8_t *)at;
	ns = now_ns() - ns;

	hist_add(&p->touch, ns);
	if (major_faults() != faults)
		hist_add(&p->fault, ns);
	/* The exchange has repaired it; put it back for check_page(). */
	if (got != expect)
		*at = got;
	check_page(p, page);
	if (rewrite && !p->is_wrong[page]) {
		p->generation[page]++;
		p->rewrites++;
		write_page(p, page);
	}
}

static void touch(struct pager *p)
{
	uint64_t start = now_ns(), next = 0, n;
	double limit = p->opt.seconds;

	for (n = 0; p->opt.touches == 0 || n < p->opt.touches; n++) {
		if (n % 64 == 0) {
			if (limit > 0 && seconds_since(start) >= limit)
				break;
			progress(p, "touches", n, p->opt.touches, &next);
		}
		touch_one(p);
	}
	p->touch_seconds = seconds_since(start);
}

static void verify(struct pager *p)
{
	uint64_t page, next = 0, start = now_ns();

	for (page = 0; page < p->n_pages; page++) {
		check_page(p, page);
		if (page % 1024 == 0)
			progress(p, "verify", page, p->n_pages, &next);
	}
	p->verify_seconds = seconds_since(start);
}

static void release(struct pager *p)
{
	uint64_t start = now_ns();

	data_start = NULL;
	if (munmap(p->data, p->n_pages * PAGE_BYTES) < 0)
		die("munmap: %s", strerror(errno));
	p->free_seconds = seconds_since(start);
}

/* The kernel could not read a page back. */
static void on_sigbus(int sig, siginfo_t *info, void *context)
{
	static const char text[] = "ts-pager: a page could not be read back "
				   "(SIGBUS): swap I/O error\n";
	uintptr_t at = (uintptr_t)info->si_addr;
	uintptr_t start = (uintptr_t)data_start;

	if (start && at >= start && at - start < data_bytes) {
		ssize_t r = write(STDERR_FILENO, text, sizeof(text) - 1);

		(void)r;
		_exit(1);
	}
	signal(sig, SIG_DFL);
	raise(sig);
}

static double mb_per_s(const struct pager *p, double seconds)
{
	return (double)(p->n_pages * PAGE_BYTES) / 1e6 / seconds;
}

static void print_hist(const char *name, const struct hist *h)
{
	printf("%-14s p50 %.1f us  p90 %.1f us  p99 %.1f us  p99.9 %.1f us"
	       "  (%" PRIu64 ")\n",
	       name, hist_us(h, .5), hist_us(h, .9), hist_us(h, .99),
	       hist_us(h, .999), h->count);
}

static void print_text(const struct pager *p)
{
	printf("seed           %" PRIu64 "\n", p->opt.seed);
	printf("size           %.0f MiB, sample %.0f MiB, %s\n",
	       (double)p->n_pages / 256, (double)p->sample_pages / 256,
	       p->locked ? "bookkeeping locked" : "bookkeeping not locked");
	printf("fill           %.1f MB/s\n", mb_per_s(p, p->fill_seconds));
	printf("touch          %.0f touches/s, %" PRIu64 " touches, %" PRIu64
	       " rewrites\n",
	       (double)p->touch.count / p->touch_seconds, p->touch.count,
	       p->rewrites);
	print_hist("first touch", &p->touch);
	print_hist("major faults", &p->fault);
	printf("verify         %.1f MB/s\n", mb_per_s(p, p->verify_seconds));
	printf("free           %.1f ms\n", p->free_seconds * 1e3);
	printf("%" PRIu64 " pages wrong\n", p->wrong);
}

static void print_json_hist(const char *name, const struct hist *h)
{
	printf("\"%s\": {\"count\": %" PRIu64 ", \"p50\": %.1f, \"p90\": %.1f,"
	       " \"p99\": %.1f, \"p99.9\": %.1f}, ",
	       name, h->count, hist_us(h, .5), hist_us(h, .9),
	       hist_us(h, .99), hist_us(h, .999));
}

static void print_json(const struct pager *p)
{
	printf("{\"seed\": %" PRIu64 ", \"size_bytes\": %" PRIu64
	       ", \"sample_bytes\": %" PRIu64 ", \"locked\": %s, "
	       "\"fill_mb_per_s\": %.2f, \"touches\": %" PRIu64
	       ", \"rewrites\": %" PRIu64 ", \"touches_per_s\": %.1f, ",
	       p->opt.seed, p->n_pages * PAGE_BYTES,
	       p->sample_pages * PAGE_BYTES, p->locked ? "true" : "false",
	       mb_per_s(p, p->fill_seconds), p->touch.count, p->rewrites,
	       (double)p->touch.count / p->touch_seconds);
	print_json_hist("touch_us", &p->touch);
	print_json_hist("fault_us", &p->fault);
	printf("\"verify_mb_per_s\": %.2f, \"free_ms\": %.2f, "
	       "\"wrong_pages\": %" PRIu64 "}\n",
	       mb_per_s(p, p->verify_seconds), p->free_seconds * 1e3,
	       p->wrong);
}

static const char usage[] =
	"Usage: ts-pager --pages FILE --size BYTES [options]\n"
	"  --seconds N    touch for so long (default 10, or no limit with\n"
	"                 --touches)\n"
	"  --touches N    touch so many pages\n"
	"  --rewrite N    percent of the touches that rewrite (default 50)\n"
	"  --sample BYTES locked copy of so much of FILE (default: a 16th of\n"
	"                 the size, 64 MiB at most); 0 maps all of FILE\n"
	"  --seed N       default: random, printed\n"
	"  --damage N     flip a bit in N pages, to see the checks fail\n"
	"  --progress     a line a second on stderr\n"
	"  --json         result as one JSON object\n"
	"BYTES take the suffixes K, M and G (powers of 1024).\n";

static uint64_t parse_number(const char *name, const char *text, bool bytes)
{
	unsigned shift = 0;
	uint64_t v;
	char *end;

	errno = 0;
	v = strtoull(text, &end, 10);
	if (bytes && *end == 'K')
		shift = 10;
	else if (bytes && *end == 'M')
		shift = 20;
	else if (bytes && *end == 'G')
		shift = 30;
	if (shift)
		end++;
	if (errno || end == text || *end || *text == '-' ||
	    v > UINT64_MAX >> shift)
		die("--%s: '%s' is not a number here", name, text);
	return v << shift;
}

static void parse_options(struct options *opt, int argc, char **argv)
{
	enum { PAGES, SIZE, SECONDS, TOUCHES, REWRITE, SAMPLE, SEED, DAMAGE,
	       PROGRESS, JSON, HELP };
	static const struct option longs[] = {
		[PAGES] = { "pages", required_argument, NULL, PAGES },
		[SIZE] = { "size", required_argument, NULL, SIZE },
		[SECONDS] = { "seconds", required_argument, NULL, SECONDS },
		[TOUCHES] = { "touches", required_argument, NULL, TOUCHES },
		[REWRITE] = { "rewrite", required_argument, NULL, REWRITE },
		[SAMPLE] = { "sample", required_argument, NULL, SAMPLE },
		[SEED] = { "seed", required_argument, NULL, SEED },
		[DAMAGE] = { "damage", required_argument, NULL, DAMAGE },
		[PROGRESS] = { "progress", no_argument, NULL, PROGRESS },
		[JSON] = { "json", no_argument, NULL, JSON },
		[HELP] = { "help", no_argument, NULL, HELP },
		{ NULL, 0, NULL, 0 },
	};
	bool seed_given = false;
	uint64_t v;
	int c;

	while ((c = getopt_long(argc, argv, "", longs, NULL)) != -1) {
		if (c == '?')
			exit(2);
		v = c == PAGES || c >= PROGRESS ? 0 :
			parse_number(longs[c].name, optarg,
				     c == SIZE || c == SAMPLE);
		switch (c) {
		case PAGES: opt->pages = optarg; break;
		case SIZE: opt->size_bytes = v; break;
		case SECONDS: opt->seconds = (double)v; break;
		case TOUCHES: opt->touches = v; break;
		case REWRITE: opt->rewrite_percent = (unsigned)v; break;
		case DAMAGE: opt->damage = (unsigned)v; break;
		case PROGRESS: opt->progress = true; break;
		case JSON: opt->json = true; break;
		case HELP: fputs(usage, stdout); exit(0);
		case SAMPLE:
			opt->sample_bytes = v;
			opt->sample_given = true;
			break;
		case SEED:
			opt->seed = v;
			seed_given = true;
			break;
		}
	}
	if (optind < argc || !opt->pages || opt->size_bytes < PAGE_BYTES) {
		fputs(usage, stderr);
		exit(2);
	}
	if (opt->rewrite_percent > 100)
		die("--rewrite: at most 100");
	if (opt->damage > opt->size_bytes / PAGE_BYTES)
		die("--damage: more than there are pages");
	if (opt->seconds == 0 && opt->touches == 0)
		opt->seconds = 10;
	if (!opt->sample_given)
		opt->sample_bytes = opt->size_bytes / 16 < MAX_SAMPLE_BYTES ?
			opt->size_bytes / 16 : MAX_SAMPLE_BYTES;
	if (!seed_given &&
	    getrandom(&opt->seed, sizeof(opt->seed), 0) < 0)
		die("getrandom: %s", strerror(errno));
}

static void prepare(struct pager *p)
{
	bool whole = p->opt.sample_given && p->opt.sample_bytes == 0;
	struct sigaction sa = {
		.sa_sigaction = on_sigbus, .sa_flags = SA_SIGINFO,
	};

	p->n_pages = p->opt.size_bytes / PAGE_BYTES;
	p->rng = p->opt.seed;
	p->generation = map_anonymous(p->n_pages * sizeof(*p->generation));
	p->is_wrong = map_anonymous(p->n_pages);
	if (!whole)
		load_sample(p);
	p->locked = mlockall(MCL_CURRENT) == 0;
	if (!p->locked)
		fprintf(stderr, "ts-pager: bookkeeping is not locked: %s\n",
			strerror(errno));
	if (whole)
		load_sample(p);

	p->data = map_anonymous(p->n_pages * PAGE_BYTES);
	/* A fault is to mean one page, and the figures to compare. */
	madvise(p->data, p->n_pages * PAGE_BYTES, MADV_NOHUGEPAGE);
	data_start = p->data;
	data_bytes = p->n_pages * PAGE_BYTES;
	sigaction(SIGBUS, &sa, NULL);
}

int main(int argc, char **argv)
{
	static struct pager pager;
	struct pager *p = &pager;

	p->opt.rewrite_percent = 50;
	parse_options(&p->opt, argc, argv);
	prepare(p);
	fill(p);
	damage(p);
	touch(p);
	verify(p);
	release(p);
	if (p->opt.json)
		print_json(p);
	else
		print_text(p);
	if (fflush(stdout) != 0)
		die("stdout: %s", strerror(errno));
	return p->wrong != 0;
}
