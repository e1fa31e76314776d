/* SPDX-License-Identifier: BSD-3-Clause */
/* steady.c - steady overwrites, once warm, make no page fault (case 2)
 *
 * Request threads are those that a connection adds to the server. They are
 * warmed until a round makes no fault; ten thousand overwrites after that must
 * make none at all. steady.sh then looks at the system calls: it reads the
 * line "warm" with the threads' numbers, attaches strace, answers with a line,
 * reads "done" after ten thousand more overwrites, and answers again once
 * strace is gone.
 */
#include "nbdtest.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define AREA        (64 * NT_MIB)
#define OVERWRITES  10000
#define WARM_ROUNDS 300
#define IN_FLIGHT   64u
#define MAX_TASKS   256u

static struct nbd_handle *nbd;
static unsigned long others[MAX_TASKS], tasks[MAX_TASKS];
static unsigned n_others, n_tasks; /* tasks: the request threads */

static DIR *open_tasks(void)
{
	char path[64];
	DIR *dir;

	snprintf(path, sizeof(path), "/proc/%s/task", getenv("SERVER_PID"));
	dir = opendir(path);
	check(dir, "%s: %s", path, strerror(errno));
	return dir;
}

static unsigned list_tasks(unsigned long *ret_tids)
{
	struct dirent *entry;
	DIR *dir = open_tasks();
	unsigned n = 0;

	while ((entry = readdir(dir))) {
		if (entry->d_name[0] == '.')
			continue;
		check(n < MAX_TASKS, "too many threads");
		ret_tids[n++] = strtoul(entry->d_name, NULL, 10);
	}
	closedir(dir);
	return n;
}

/* nbdkit starts the threads of a connection after it has answered. */
static void find_request_threads(void)
{
	unsigned long all[MAX_TASKS];
	unsigned n_all = list_tasks(all), i, j;

	n_tasks = 0;
	for (i = 0; i < n_all; i++) {
		for (j = 0; j < n_others && others[j] != all[i]; j++)
			;
		if (j == n_others)
			tasks[n_tasks++] = all[i];
	}
	check(n_tasks > 0, "a connection added no thread");
}

/* Minor and major faults of all request threads so far. */
static uint64_t faults(void)
{
	unsigned long minor, major;
	char path[96], line[1024], *rest;
	uint64_t sum = 0;
	unsigned i;
	FILE *file;

	for (i = 0; i < n_tasks; i++) {
		snprintf(path, sizeof(path), "/proc/%s/task/%lu/stat",
			 getenv("SERVER_PID"), tasks[i]);
		file = fopen(path, "r");
		check(file && fgets(line, sizeof(line), file), "%s", path);
		fclose(file);
		rest = strrchr(line, ')');
		check(rest && sscanf(rest + 1,
				     " %*c %*d %*d %*d %*d %*d %*u %lu %*u %lu",
				     &minor, &major) == 2,
		      "cannot read %s", path);
		sum += minor + major;
	}
	return sum;
}

/* All requests of a round are in flight together, so that every thread gets
 * some and grows its buffer.
 */
static void warm_round(uint8_t *buf)
{
	unsigned i;

	for (i = 0; i < IN_FLIGHT; i++)
		must(nbd_aio_pwrite(nbd, buf, NT_MIB, i * NT_MIB,
				    NBD_NULL_COMPLETION, 0));
	while (must(nbd_aio_in_flight(nbd)) > 0)
		must(nbd_poll(nbd, -1));
	while (nbd_aio_peek_command_completed(nbd) > 0)
		must(nbd_aio_command_completed(
			nbd, nbd_aio_peek_command_completed(nbd)));
}

static void warm(uint8_t *buf, uint64_t *state)
{
	uint64_t before, pos;
	int round;

	for (round = 0; round < WARM_ROUNDS; round++) {
		for (pos = 0; pos < NT_MIB; pos += NT_PAGE)
			nt_page(buf + pos, nt_rand(state) % NT_KINDS,
				nt_rand(state));
		find_request_threads();
		before = faults();
		warm_round(buf);
		if (faults() == before && round >= 20) {
			printf("%u threads warm after %d rounds\n", n_tasks,
			       round + 1);
			return;
		}
	}
	fail("still faulting after %d rounds", WARM_ROUNDS);
}

static void overwrite(uint8_t *buf, uint64_t *state)
{
	uint64_t len, pos, off;
	int i;

	for (i = 0; i < OVERWRITES; i++) {
		len = (1 + nt_rand(state) % 8) * NT_PAGE;
		off = nt_rand(state) % (AREA / NT_PAGE - 8) * NT_PAGE;
		for (pos = 0; pos < len; pos += NT_PAGE)
			nt_page(buf + pos, nt_rand(state) % NT_KINDS,
				nt_rand(state));
		must(nbd_pwrite(nbd, buf, len, off, 0));
	}
}

int main(void)
{
	uint64_t before, made, state = 2;
	uint8_t *buf = malloc(NT_MIB);
	unsigned i;

	check(buf, "out of memory");
	n_others = list_tasks(others);
	nbd = nt_connect();
	warm(buf, &state);

	before = faults();
	overwrite(buf, &state);
	made = faults() - before;
	printf("%llu faults in %d overwrites\n", (unsigned long long)made,
	       OVERWRITES);
	check(made == 0, "request threads fault");

	printf("warm");
	for (i = 0; i < n_tasks; i++)
		printf(" %lu", tasks[i]);
	putchar('\n');
	fflush(stdout);
	check(getchar() == '\n', "nobody answered");
	overwrite(buf, &state);
	puts("done");
	fflush(stdout);
	check(getchar() == '\n', "nobody answered");
	nt_disconnect(nbd);
	return 0;
}
