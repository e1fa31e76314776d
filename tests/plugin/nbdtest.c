/* SPDX-License-Identifier: BSD-3-Clause */
/* nbdtest.c - what the libnbd test programs share */
#include "nbdtest.h"

#include <errno.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define MAX_THREADS 64

void nt_fail(const char *file, int line, const char *fmt, ...)
{
	const char *slash = strrchr(file, '/');
	va_list ap;

	fflush(stdout);
	fprintf(stderr, "FAIL: %s:%d: ", slash ? slash + 1 : file, line);
	va_start(ap, fmt);
	vfprintf(stderr, fmt, ap);
	va_end(ap);
	fputc('\n', stderr);
	/* Other threads may still be using their connections. */
	_exit(1);
}

void nt_skip(const char *why)
{
	printf("SKIP: %s\n", why);
	exit(77);
}

static const char *env(const char *name)
{
	const char *value = getenv(name);

	if (!value)
		fail("%s is not set: run this under with-server", name);
	return value;
}

struct nbd_handle *nt_connect(void)
{
	struct nbd_handle *nbd = nbd_create();

	check(nbd, "nbd_create: %s", nbd_get_error());
	must(nbd_set_strict_mode(nbd,
				 LIBNBD_STRICT_COMMANDS | LIBNBD_STRICT_FLAGS));
	must(nbd_add_meta_context(nbd, LIBNBD_CONTEXT_BASE_ALLOCATION));
	must(nbd_connect_uri(nbd, env("SERVER_URI")));
	return nbd;
}

void nt_disconnect(struct nbd_handle *nbd)
{
	must(nbd_shutdown(nbd, 0));
	nbd_close(nbd);
}

static uint64_t status_kib(const char *pid, const char *key)
{
	char path[64], line[256];
	uint64_t kib = 0;
	FILE *file;

	snprintf(path, sizeof(path), "/proc/%s/status", pid);
	file = fopen(path, "r");
	check(file, "%s: %s", path, strerror(errno));
	while (fgets(line, sizeof(line), file)) {
		if (strncmp(line, key, strlen(key)) == 0)
			kib = strtoull(line + strlen(key), NULL, 10);
	}
	fclose(file);
	return kib;
}

/* A segment's pages count whether or not the server has them mapped. */
static uint64_t segments_kib(const char *pid)
{
	unsigned long long rss, kib = 0;
	char line[512], cpid[32];
	FILE *file = fopen("/proc/sysvipc/shm", "r");

	check(file, "/proc/sysvipc/shm: %s", strerror(errno));
	while (fgets(line, sizeof(line), file)) {
		if (sscanf(line,
			   "%*s %*s %*s %*s %31s %*s %*s %*s %*s %*s %*s %*s "
			   "%*s %*s %llu",
			   cpid, &rss) == 2 &&
		    strcmp(cpid, pid) == 0)
			kib += rss / 1024;
	}
	fclose(file);
	return kib;
}

uint64_t nt_server_resident_kib(void)
{
	const char *pid = env("SERVER_PID");
	uint64_t mapped = status_kib(pid, "RssShmem:");
	uint64_t segments = segments_kib(pid);

	return status_kib(pid, "RssAnon:") + status_kib(pid, "RssFile:") +
	       (mapped > segments ? mapped : segments);
}

bool nt_server_is_thinswap(void)
{
	const char *plugin = getenv("TS_PLUGIN");

	return strstr(plugin ? plugin : env("PLUGIN"), "thinswap") != NULL;
}

bool nt_server_is_sanitized(void)
{
	return env("SERVER_SANITIZED")[0] != '\0';
}

uint64_t nt_rand(uint64_t *state)
{
	uint64_t z = *state += 0x9e3779b97f4a7c15;

	z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
	z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
	return z ^ (z >> 31);
}

void nt_mixed_page(uint8_t *page, unsigned random_bytes, uint64_t seed)
{
	uint64_t value, state = seed;
	unsigned pos, len;

	memset(page, 0, NT_PAGE - random_bytes);
	for (pos = NT_PAGE - random_bytes; pos < NT_PAGE; pos += len) {
		value = nt_rand(&state);
		len = NT_PAGE - pos < 8 ? NT_PAGE - pos : 8;
		memcpy(page + pos, &value, len);
	}
}

static void text_page(uint8_t *page, uint64_t seed)
{
	static const char words[16][8] = {
		"slot   ", "cluster", "object ", "segment",
		"page   ", "store  ", "of     ", "the    ",
		"memory ", "swap   ", "reads  ", "writes ",
		"frees  ", "is     ", "and    ", "not    ",
	};
	uint64_t value, state = seed;
	unsigned pos;

	/* The first word makes the page unlike any other. */
	memcpy(page, &seed, sizeof(seed));
	for (pos = 8; pos < NT_PAGE; pos += 8) {
		value = nt_rand(&state);
		memcpy(page + pos, words[value % 16], 8);
		if ((value >> 32) % 4 == 0)
			memcpy(page + pos + 4, &value, 4);
	}
}

void nt_page(uint8_t *page, enum nt_kind kind, uint64_t seed)
{
	uint64_t word, state = seed;
	unsigned pos;

	switch (kind) {
	case NT_ZERO:
		memset(page, 0, NT_PAGE);
		break;
	case NT_FILL:
		word = nt_rand(&state) | 1;
		for (pos = 0; pos < NT_PAGE; pos += sizeof(word))
			memcpy(page + pos, &word, sizeof(word));
		break;
	case NT_TEXT:
		text_page(page, seed);
		break;
	case NT_RAW:
		nt_mixed_page(page, NT_PAGE, seed);
		break;
	case NT_EDGE:
		nt_mixed_page(page, NT_PAGE - nt_rand(&state) % 128, seed);
		break;
	default:
		fail("no such kind of page: %d", kind);
	}
}

bool nt_is_zero(const uint8_t *buf, size_t len)
{
	return len == 0 || (buf[0] == 0 && memcmp(buf, buf + 1, len - 1) == 0);
}

void nt_expect(struct nbd_handle *nbd, const uint8_t *want, size_t len,
	       uint64_t off)
{
	uint8_t *got = malloc(len);
	size_t pos;

	check(got, "out of memory");
	must(nbd_pread(nbd, got, len, off, 0));
	for (pos = 0; pos < len; pos++) {
		if (got[pos] != want[pos])
			fail("byte %llu is 0x%02x, not 0x%02x",
			     (unsigned long long)(off + pos), got[pos],
			     want[pos]);
	}
	free(got);
}

struct thread {
	pthread_t id;
	unsigned self;
	void (*fn)(unsigned self);
};

static void *thread_main(void *opaque)
{
	struct thread *thread = opaque;

	thread->fn(thread->self);
	return NULL;
}

void nt_threads(unsigned n, void (*fn)(unsigned self))
{
	struct thread threads[MAX_THREADS];
	unsigned i;

	check(n <= MAX_THREADS, "too many threads");
	for (i = 0; i < n; i++) {
		threads[i] = (struct thread){.self = i, .fn = fn};
		check(pthread_create(&threads[i].id, NULL, thread_main,
				     &threads[i]) == 0,
		      "pthread_create");
	}
	for (i = 0; i < n; i++)
		pthread_join(threads[i].id, NULL);
}
