// SPDX-License-Identifier: BSD-3-Clause
/* pager_cli.c - ts-pager's command line and its report
 *
 * Times are printed in microseconds, rates in 10^6 bytes a second.
 */
#include "pager.h"
#include <errno.h>
#include <getopt.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#define MAX_SAMPLE_BYTES (64ull << 20)

__attribute__((noreturn, format(printf, 1, 2)))
void die(const char *fmt, ...)
{
	va_list ap;

	fputs("ts-pager: ", stderr);
	va_start(ap, fmt);
	vfprintf(stderr, fmt, ap);
	va_end(ap);
	fputc('\n', stderr);
	exit(2);
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
	"SIGUSR1 ends the touching: the rest is verified and reported.\n"
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

void parse_options(struct options *opt, int argc, char **argv)
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

void print_text(const struct pager *p)
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

void print_json(const struct pager *p)
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
