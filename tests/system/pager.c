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
#include "pager.h"
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define RUN_PAGES 64u		/* sample: neighbours kept together */
#define SHOWN_WRONG 8u

struct tag {
	uint64_t page;
	uint32_t generation;
	uint32_t run;		/* from the seed */
};

static volatile sig_atomic_t enough;
static uint8_t *data_start;	/* for the SIGBUS handler */
static uint64_t data_bytes;

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

	for (n = 0; !enough && (p->opt.touches == 0 || n < p->opt.touches);
	     n++) {
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

/* SIGUSR1: touch no more, verify and report. */
static void on_enough(int sig)
{
	enough = 1;
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
	signal(SIGUSR1, on_enough);
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
