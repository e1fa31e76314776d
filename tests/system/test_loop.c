// SPDX-License-Identifier: BSD-3-Clause
/* test_loop.c - loop devices on a file of thinswap-fuse, again and again
 *
 * Usage: test_loop DIRECTORY FILE    (as root; test-fuse-loop.sh sets it up)
 *
 * Exits 0 when all holds, 1 with a sentence otherwise.
 */
#include "require.h"
#include "loop.h"

#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <signal.h>
#include <unistd.h>

#define CYCLES     50
#define PAGE_BYTES 4096

static void sysfs_is(const char *device, const char *name, const char *want)
{
	char path[96], got[32] = "";
	FILE *file;

	snprintf(path, sizeof(path), "/sys/block/%s/%s", device + 5, name);
	file = fopen(path, "re");
	require(file && fgets(got, sizeof(got), file), "%s", path);
	fclose(file);
	got[strcspn(got, "\n")] = '\0';
	require(strcmp(got, want) == 0, "%s is %s, not %s", path, got, want);
}

/* A page written through the device is there when it is attached again. */
static void cycle(const char *file, int i)
{
	static _Alignas(PAGE_BYTES) uint8_t page[PAGE_BYTES];
	off_t at = (off_t)i * PAGE_BYTES;
	struct ts_error error;
	char device[32];
	int fd, err;

	err = ts_loop_attach(file, device, sizeof(device), &fd, &error);
	require(err == 0, "attach: %s", error.text);
	sysfs_is(device, "loop/dio", "1");
	sysfs_is(device, "loop/autoclear", "1");
	sysfs_is(device, "queue/logical_block_size", "4096");
	sysfs_is(device, "queue/rotational", "0");
	if (i > 0) {
		require(pread(fd, page, sizeof(page), at - PAGE_BYTES) ==
				(ssize_t)sizeof(page),
			"read: %m");
		require(page[0] == i - 1 && page[PAGE_BYTES - 1] == i,
			"page %d is wrong", i - 1);
	}
	memset(page, i, sizeof(page));
	page[PAGE_BYTES - 1] = (uint8_t)(i + 1);
	require(pwrite(fd, page, sizeof(page), at) == (ssize_t)sizeof(page) &&
			fsync(fd) == 0,
		"write: %m");
	err = ts_loop_detach(device, fd, &error);
	require(err == 0, "detach: %s", error.text);
}

/* Many at once ask for free devices. */
static void race(const char *file)
{
	enum { N = 8 };
	pid_t pids[N];
	int status;

	for (int i = 0; i < N; i++) {
		pids[i] = fork();
		if (pids[i] == 0) {
			struct ts_error error;
			char device[32];
			int fd;

			for (int k = 0; k < 10; k++) {
				require(ts_loop_attach(file, device,
						       sizeof(device), &fd,
						       &error) == 0,
					"race: %s", error.text);
				require(ts_loop_detach(device, fd, &error) == 0,
					"race: %s", error.text);
			}
			_exit(0);
		}
	}
	for (int i = 0; i < N; i++)
		require(waitpid(pids[i], &status, 0) == pids[i] && status == 0,
			"racer %d: status %d", i, status);
}

/* What a process leaves that dies while somebody else has the device open. */
static void leftovers(const char *dir, const char *file)
{
	char longer[256], device[32];
	struct ts_error error;
	int fds[2], holder, fd;
	unsigned n;
	pid_t pid;

	require(pipe(fds) == 0, "pipe: %m");
	pid = fork();
	if (pid == 0) {
		require(ts_loop_attach(file, device, sizeof(device), &fd,
				       &error) == 0,
			"%s", error.text);
		if (write(fds[1], device, sizeof(device)) < 0)
			_exit(1);
		pause();
	}
	require(read(fds[0], device, sizeof(device)) == sizeof(device), "%m");
	holder = open(device, O_RDONLY);
	require(holder >= 0, "open %s: %m", device);
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
	require(ts_loop_find(dir, device, sizeof(device)) == 0,
		"the leftover is not found");
	snprintf(longer, sizeof(longer), "%.200s", dir);
	longer[strlen(longer) - 1] = '\0';
	require(ts_loop_find(longer, device, sizeof(device)) == -ENOENT,
		"a directory whose name begins alike counts as ours");
	require(ts_loop_reclaim(dir, &n, &error) == -EBUSY && n == 1,
		"reclaimed although held open");
	close(holder);
	require(ts_loop_reclaim(dir, &n, &error) == 0, "%s", error.text);
	require(ts_loop_find(dir, device, sizeof(device)) == -ENOENT,
		"still there after reclaim");
	/* Without a holder, the kernel does it by itself. */
	pid = fork();
	if (pid == 0)
		_exit(ts_loop_attach(file, device, sizeof(device), &fd,
				     &error) != 0);
	waitpid(pid, NULL, 0);
	for (int i = 0;
	     i < 100 && ts_loop_find(dir, device, sizeof(device)) == 0; i++)
		usleep(20000);
	require(ts_loop_find(dir, device, sizeof(device)) == -ENOENT,
		"autoclear did not let go");
}

int main(int argc, char **argv)
{
	char device[32];

	if (argc != 3)
		return 2;
	for (int i = 0; i < CYCLES; i++)
		cycle(argv[2], i);
	printf("ok: %d cycles\n", CYCLES);
	race(argv[2]);
	puts("ok: eight at once");
	leftovers(argv[1], argv[2]);
	puts("ok: leftovers");
	require(ts_loop_find(argv[1], device, sizeof(device)) == -ENOENT,
		"%s is left", device);
	return 0;
}
