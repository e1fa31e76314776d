// SPDX-License-Identifier: BSD-3-Clause
/* pager.h - what the two halves of ts-pager share
 *
 * pager.c does the work and fills in the results; pager_cli.c reads the
 * command line and prints.
 */
#pragma once
#include "hist.h"
#include <stdbool.h>
#include <stdint.h>

#define PAGE_BYTES 4096u

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

__attribute__((noreturn, format(printf, 1, 2)))
void die(const char *fmt, ...);

void parse_options(struct options *opt, int argc, char **argv);
void print_text(const struct pager *p);
void print_json(const struct pager *p);
