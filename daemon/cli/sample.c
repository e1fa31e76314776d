// SPDX-License-Identifier: BSD-3-Clause
/* sample.c - a random sample of the memory that processes could swap out
 *
 * Reservoir sampling: the n-th page that is seen replaces a random one of the
 * sample with probability max/n, so that one walk is enough.
 */
#include "cli/sample.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/uio.h>
#include <unistd.h>

#define PAGE       4096u
#define ENTRIES    4096u /* of the page map at a time */
#define PM_PRESENT (1ull << 63)
#define PM_FILE    (1ull << 61) /* of a file, or shared */

int ts_sample_init(struct ts_sample *sample, size_t max_pages)
{
	*sample = (struct ts_sample){.max = max_pages};
	sample->page = calloc(max_pages, sizeof(*sample->page));
	if (!sample->page)
		return -ENOMEM;
	if (getrandom(&sample->rng, sizeof(sample->rng), 0) !=
	    sizeof(sample->rng))
		sample->rng = (uint64_t)getpid();
	return 0;
}

void ts_sample_fini(struct ts_sample *sample)
{
	free(sample->page);
	sample->page = NULL;
}

/* splitmix64 (Steele, Lea, Flood 2014). */
static uint64_t next_random(struct ts_sample *sample)
{
	uint64_t z = (sample->rng += 0x9e3779b97f4a7c15ull);

	z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ull;
	z = (z ^ (z >> 27)) * 0x94d049bb133111ebull;
	return z ^ (z >> 31);
}

static void see(struct ts_sample *sample, pid_t pid, uint64_t addr)
{
	uint64_t at = sample->seen++;

	if (at >= sample->max)
		at = next_random(sample) % sample->seen;
	else
		sample->n++;
	if (at < sample->max)
		sample->page[at] = (struct ts_sample_page){pid, addr};
}

static void add_range(struct ts_sample *sample, pid_t pid, int pagemap,
		      uint64_t from, uint64_t to)
{
	uint64_t entry[ENTRIES];

	while (from < to) {
		uint64_t want = (to - from) / PAGE;
		ssize_t got;

		if (want > ENTRIES)
			want = ENTRIES;
		got = pread(pagemap, entry, want * 8, (off_t)(from / PAGE * 8));
		if (got < 8)
			return;
		for (ssize_t i = 0; i < got / 8; i++)
			if (entry[i] & PM_PRESENT && !(entry[i] & PM_FILE))
				see(sample, pid, from + (uint64_t)i * PAGE);
		from += (uint64_t)(got / 8) * PAGE;
	}
}

/* A mapping that may hold pages that can be swapped and read: private ones of
 * files too, for what was written to them.
 */
static bool is_wanted(const char *perms, const char *name)
{
	return perms[0] == 'r' && perms[3] == 'p' &&
	       strncmp(name, "[v", 2) != 0; /* vdso, vvar, vsyscall */
}

int ts_sample_add(struct ts_sample *sample, pid_t pid)
{
	char path[64], line[4400], perms[8], name[4097];
	uint64_t from, to, before = sample->seen;
	FILE *maps;
	int pagemap;

	snprintf(path, sizeof(path), "/proc/%d/pagemap", pid);
	pagemap = open(path, O_RDONLY | O_CLOEXEC);
	snprintf(path, sizeof(path), "/proc/%d/maps", pid);
	maps = pagemap < 0 ? NULL : fopen(path, "re");
	if (!maps) {
		int error = errno;

		if (pagemap >= 0)
			close(pagemap);
		return error == ENOENT || error == ESRCH ? -ESRCH : -EACCES;
	}
	while (fgets(line, sizeof(line), maps)) {
		name[0] = '\0';
		if (sscanf(line,
			   "%" SCNx64 "-%" SCNx64 " %7s %*s %*s %*s %4096s",
			   &from, &to, perms, name) >= 3 &&
		    is_wanted(perms, name))
			add_range(sample, pid, pagemap, from, to);
	}
	fclose(maps);
	close(pagemap);
	if (sample->seen > before)
		sample->processes++;
	return 0;
}

void ts_sample_add_all(struct ts_sample *sample)
{
	DIR *proc = opendir("/proc");
	struct dirent *entry;

	while (proc && (entry = readdir(proc))) {
		pid_t pid = (pid_t)atoi(entry->d_name);

		if (isdigit((unsigned char)entry->d_name[0]) &&
		    pid != getpid() && ts_sample_add(sample, pid) == -EACCES)
			sample->refused++;
	}
	if (proc)
		closedir(proc);
}

static int compare(const void *a, const void *b)
{
	const struct ts_sample_page *x = a, *y = b;

	if (x->pid != y->pid)
		return x->pid < y->pid ? -1 : 1;
	return x->addr < y->addr ? -1 : x->addr > y->addr;
}

void ts_sample_sort(struct ts_sample *sample)
{
	qsort(sample->page, sample->n, sizeof(*sample->page), compare);
}

bool ts_sample_read(const struct ts_sample_page *page, void *ret_page)
{
	struct iovec to = {ret_page, PAGE};
	struct iovec from = {(void *)(uintptr_t)page->addr, PAGE};

	return process_vm_readv(page->pid, &to, 1, &from, 1, 0) == PAGE;
}
