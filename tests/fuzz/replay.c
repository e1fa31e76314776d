// SPDX-License-Identifier: BSD-3-Clause
/* replay.c - run a harness on the files of a corpus, and on changes of them
 *
 *	fuzz-NAME DIRECTORY [SEED [CHANGES]]
 *
 * Takes the place of libFuzzer where there is none. Each file is run as it
 * is, then CHANGES times with some bytes changed, cut off or doubled.
 */
#include "tests/fuzz/fuzz.h"
#include "tests/common/rig.h"
#include "tests/common/rng.h"

#include <dirent.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MAX_BYTES 8192u

static void run(const uint8_t *data, size_t n)
{
	/* To the byte, so that a sanitizer sees one too many. */
	uint8_t *copy = malloc(n ? n : 1);

	if (!copy)
		rig_die("no memory for the test");
	memcpy(copy, data, n);
	LLVMFuzzerTestOneInput(copy, n);
	free(copy);
}

static size_t change(struct rng *rng, uint8_t *data, size_t n)
{
	unsigned times = (unsigned)rng_range(rng, 1, 8);
	size_t at, len;

	while (times--) {
		at = n ? rng_below(rng, n) : 0;
		switch (rng_below(rng, 4)) {
		case 0:
			n = at;
			break;
		case 1:
			len = n - at;
			if (len > MAX_BYTES - n)
				len = MAX_BYTES - n;
			memcpy(data + n, data + at, len);
			n += len;
			break;
		case 2:
			if (n)
				data[at] ^= (uint8_t)(1u << rng_below(rng, 8));
			break;
		default:
			if (n)
				data[at] = (uint8_t)rng_next(rng);
		}
	}
	return n;
}

static void run_file(const char *path, struct rng *rng, unsigned changes)
{
	static uint8_t data[MAX_BYTES], changed[MAX_BYTES];
	FILE *f = fopen(path, "rb");
	size_t n;

	if (!f)
		rig_die("cannot open %s", path);
	n = fread(data, 1, sizeof(data), f);
	fclose(f);
	run(data, n);
	for (unsigned i = 0; i < changes; i++) {
		memcpy(changed, data, n);
		run(changed, change(rng, changed, n));
	}
}

int main(int argc, char **argv)
{
	struct rng rng = {argc > 2 ? strtoull(argv[2], NULL, 0) : 1};
	unsigned changes = argc > 3 ? (unsigned)atoi(argv[3]) : 40, n = 0;
	char path[4096];
	struct dirent *entry;
	DIR *dir;

	dir = argc > 1 ? opendir(argv[1]) : NULL;
	if (!dir)
		rig_die("usage: %s DIRECTORY [SEED [CHANGES]]", argv[0]);
	printf("seed %" PRIu64 "\n", rng.state);
	fflush(stdout);
	while ((entry = readdir(dir))) {
		if (entry->d_name[0] == '.')
			continue;
		snprintf(path, sizeof(path), "%s/%s", argv[1], entry->d_name);
		run_file(path, &rng, changes);
		n++;
	}
	closedir(dir);
	printf("%u files\n", n);
	if (!n)
		rig_die("no files in %s", argv[1]);
	return EXIT_SUCCESS;
}
