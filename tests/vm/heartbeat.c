/* SPDX-License-Identifier: BSD-3-Clause */
/* heartbeat.c - a bystander that shows whether the machine is alive
 *
 *   heartbeat [-m MIB] [-i MILLISECONDS] PORT
 *
 * Every interval it touches some of its own ordinary, swappable memory,
 * starts and reaps a child, and writes one JSON line to PORT:
 *   {"event":"beat","n":3,"t_ms":4021,"gap_ms":1004,"swpin":10,"swpout":200,
 *    "free_kb":5120,"swap_used_kb":80000}
 * gap_ms is the time since the last beat. It locks nothing on purpose: a
 * machine on which only locked programs make progress has hung.
 */
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static uint64_t now_ms(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_BOOTTIME, &ts);
	return (uint64_t)ts.tv_sec * 1000 + ts.tv_nsec / 1000000;
}

/* The number behind "KEY" in a "key value" file of /proc; 0 when absent. */
static long proc_value(const char *path, const char *key)
{
	char line[256];
	size_t len = strlen(key);
	long value = 0;
	FILE *f = fopen(path, "re");

	if (!f)
		return 0;
	while (fgets(line, sizeof(line), f)) {
		if (!strncmp(line, key, len)) {
			value = strtol(line + len, NULL, 10);
			break;
		}
	}
	fclose(f);
	return value;
}

static void touch(volatile char *mem, size_t bytes)
{
	for (size_t i = 0; i < bytes; i += 4096)
		mem[i]++;
}

static void beat(int port, unsigned long n, uint64_t gap_ms)
{
	char line[256];
	long swap_kb = proc_value("/proc/meminfo", "SwapTotal:") -
		       proc_value("/proc/meminfo", "SwapFree:");
	int len = snprintf(line, sizeof(line),
			   "{\"event\":\"beat\",\"n\":%lu,\"t_ms\":%llu,"
			   "\"gap_ms\":%llu,\"swpin\":%ld,\"swpout\":%ld,"
			   "\"free_kb\":%ld,\"swap_used_kb\":%ld}\n",
			   n, (unsigned long long)now_ms(),
			   (unsigned long long)gap_ms,
			   proc_value("/proc/vmstat", "pswpin "),
			   proc_value("/proc/vmstat", "pswpout "),
			   proc_value("/proc/meminfo", "MemFree:"), swap_kb);

	if (write(port, line, len) != len)
		_exit(1);
}

int main(int argc, char **argv)
{
	size_t bytes = 1u << 20;
	unsigned interval_ms = 1000;
	uint64_t last;
	char *mem;
	int c, port;

	while ((c = getopt(argc, argv, "m:i:")) != -1) {
		if (c == 'm')
			bytes = strtoul(optarg, NULL, 10) << 20;
		else if (c == 'i')
			interval_ms = strtoul(optarg, NULL, 10);
		else
			return 2;
	}
	if (optind + 1 != argc) {
		fprintf(stderr, "usage: heartbeat [-m MIB] [-i MS] PORT\n");
		return 2;
	}
	port = open(argv[optind], O_WRONLY | O_NOCTTY | O_CLOEXEC);
	mem = malloc(bytes);
	if (port < 0 || !mem) {
		perror("heartbeat");
		return 1;
	}
	last = now_ms();
	for (unsigned long n = 0;; n++) {
		uint64_t now;
		pid_t child;

		touch(mem, bytes);
		child = fork();
		if (!child)
			_exit(0);
		if (child > 0)
			waitpid(child, NULL, 0);
		now = now_ms();
		beat(port, n, now - last);
		last = now;
		usleep(interval_ms * 1000);
	}
}
