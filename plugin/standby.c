/* SPDX-License-Identifier: BSD-3-Clause */
/* standby.c - a server that waits to take another one's place
 *
 * The real-time class while taking over is for the little memory that the
 * kernel gives such threads below its minimum; the store's own threads are
 * started outside it, since they compress.
 */
#include "standby.h"
#include "util/harden.h"
#include "util/lock.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define NBDKIT_API_VERSION 2
#include <nbdkit-plugin.h>

enum state { WAITING, TAKING, SERVING };

static int fd = -1;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static enum state state; /* under the lock */
static struct ts_store **place;

/* What begin() was given, for the thread. */
static const struct ts_params *params;
static bool realtime;

void ts_standby_load(void)
{
	const char *text = getenv("THINSWAP_STANDBY");

	if (!text)
		return;
	fd = atoi(text);
	fcntl(fd, F_SETFD, FD_CLOEXEC);
	unsetenv("THINSWAP_STANDBY");
}

bool ts_standby_is_on(void)
{
	return fd >= 0;
}

__attribute__((format(printf, 1, 2))) static void tell(const char *format, ...)
{
	char line[600];
	va_list args;
	int n;

	va_start(args, format);
	n = vsnprintf(line, sizeof(line) - 1, format, args);
	va_end(args);
	if (n > (int)sizeof(line) - 2)
		n = (int)sizeof(line) - 2;
	line[n] = '\n';
	send(fd, line, (size_t)n + 1, MSG_NOSIGNAL);
}

static void enter(enum state next)
{
	ts_lock(&lock);
	state = next;
	pthread_cond_broadcast(&changed);
	ts_unlock(&lock);
}

static int take_over(struct ts_store **ret, char *err, size_t err_bytes)
{
	int error;

	if (realtime)
		ts_harden_realtime(true);
	error = ts_store_new(params, ret, err, err_bytes);
	if (realtime)
		ts_harden_realtime(false);
	if (error)
		return error;
	error = ts_store_start(*ret);
	if (error)
		snprintf(err, err_bytes, "cannot start: %s", strerror(-error));
	return error;
}

static unsigned long long own_bytes(void)
{
	struct ts_harden_facts facts;

	if (ts_harden_observe(getpid(), &facts))
		return 0;
	return facts.rss_bytes - facts.anon_shm_bytes - facts.file_bytes;
}

/* Buffers of connections come from the same heap as the store's memory. */
static void be_ready(void)
{
	char err[512];

	if (ts_store_rehearse(params, err, sizeof(err))) {
		nbdkit_error("%s", err);
		tell("refused %s", err);
		_exit(EXIT_FAILURE);
	}
	tell("ready %llu", own_bytes());
}

/* Or told to be ready again. Ends when there is nobody who could tell. */
static bool told_to_take(void)
{
	char line[16];
	ssize_t got;

	do {
		got = recv(fd, line, sizeof(line), 0);
	} while (got < 0 && errno == EINTR);
	if (got <= 0)
		_exit(EXIT_SUCCESS);
	return got >= 5 && memcmp(line, "take\n", 5) == 0;
}

/* Ends the process without cleaning up: what is kept is not ours to remove. */
static void *wait_and_take(void *opaque)
{
	struct ts_store *store;
	char err[512];

	while (!told_to_take())
		be_ready();
	enter(TAKING);
	if (take_over(&store, err, sizeof(err))) {
		nbdkit_error("%s", err);
		tell("failed %s", err);
		_exit(EXIT_FAILURE);
	}
	__atomic_store_n(place, store, __ATOMIC_RELEASE);
	enter(SERVING);
	tell("taken");
	close(fd);
	return NULL;
}

int ts_standby_begin(const struct ts_params *given, bool rt,
		     struct ts_store **ret_store, char *err, size_t err_bytes)
{
	pthread_t thread;
	int error = ts_store_rehearse(given, err, err_bytes);

	params = given;
	realtime = rt;
	place = ret_store;
	if (!error)
		error = -pthread_create(&thread, NULL, wait_and_take, NULL);
	if (error) {
		tell("refused %s", err);
		return error;
	}
	pthread_detach(thread);
	tell("ready %llu", own_bytes());
	return 0;
}

struct ts_store *ts_standby_wait(void)
{
	struct ts_store *store = NULL;

	ts_lock(&lock);
	while (state == TAKING)
		pthread_cond_wait(&changed, &lock);
	if (state == SERVING)
		store = *place;
	ts_unlock(&lock);
	return store;
}
