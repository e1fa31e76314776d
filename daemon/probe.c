// SPDX-License-Identifier: BSD-3-Clause
/* probe.c - a thread that keeps reading through the store
 *
 * It reads slot 0: once mkswap has run that is the swap header, a page that
 * is really stored and really decompressed.
 *
 * A read that does not come back in time is reported and waited for further,
 * on the same connection. Making a new one would have the server map stacks
 * and start threads just when memory is short; in a guest that was seen to
 * queue behind, and hold up, a thread that was populating memory. Only a
 * connection that is broken is made anew. The first one is warmed like those
 * of the device: what happens once must not look like a fault while serving.
 */
#include "probe.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "nbdclient.h"

/* To connect, and then to read. */
#define TIMEOUT_MS 5000
#define FIRST_TIMEOUT_MS 60000

struct ts_probe {
	const struct ts_probe_ops *ops;
	const char *path;
	const struct ts_child *server;
	int interval_ms;
	pthread_t thread;
	void *handle;     /* the thread's; NULL after a failure */
	bool under_way;   /* a read that was begun */
	int64_t start_ns; /* when it began */

	pthread_mutex_t lock; /* for all below */
	pthread_cond_t changed;
	bool stop;
	uint64_t allocated_asked, allocated_done; /* count requests */
	uint64_t allocated_bytes;
	int allocated_err;
	struct ts_error allocated_error;
	struct ts_probe_state state;
	int64_t good_ns; /* monotonic time of the last good read; 0: none */
};

static int64_t now_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return ts.tv_sec * 1000000000ll + ts.tv_nsec;
}

static struct timespec in_ms(int ms)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	ts.tv_sec += ms / 1000;
	ts.tv_nsec += ms % 1000 * 1000000;
	if (ts.tv_nsec >= 1000000000) {
		ts.tv_nsec -= 1000000000;
		ts.tv_sec++;
	}
	return ts;
}

static bool must_stop(void *opaque)
{
	struct ts_probe *probe = opaque;
	bool stop;

	pthread_mutex_lock(&probe->lock);
	stop = probe->stop;
	pthread_mutex_unlock(&probe->lock);
	return stop;
}

static int connect_probe(struct ts_probe *probe, int timeout_ms,
			 struct ts_error *error)
{
	if (probe->handle)
		return 0;
	return probe->ops->open(probe->path, probe->server, timeout_ms,
				&probe->handle, error);
}

static void drop(struct ts_probe *probe)
{
	if (probe->handle)
		probe->ops->close(probe->handle);
	probe->handle = NULL;
	probe->under_way = false;
}

/* Begin a read unless one is still under way, and wait for its end. */
static int read_once(struct ts_probe *probe, int timeout_ms,
		     struct ts_error *error)
{
	struct ts_nbd_patience patience = {
		.timeout_ms = timeout_ms,
		.must_stop = must_stop,
		.opaque = probe,
	};
	int err;

	err = connect_probe(probe, timeout_ms, error);
	if (err == 0 && !probe->under_way) {
		probe->start_ns = now_ns();
		err = probe->ops->read_start(probe->handle, error);
		probe->under_way = err == 0;
	}
	if (err == 0)
		err = probe->ops->read_wait(probe->handle, &patience, error);
	if (err == 0)
		probe->under_way = false;
	else if (err != -ETIMEDOUT)
		drop(probe);
	return err;
}

static void probe_once(struct ts_probe *probe, int timeout_ms)
{
	struct ts_error error = { .text = "" };
	int err = read_once(probe, timeout_ms, &error);

	pthread_mutex_lock(&probe->lock);
	probe->state.reads++;
	probe->state.error = error;
	if (err == 0) {
		probe->good_ns = now_ns();
		probe->state.last_ns = probe->good_ns - probe->start_ns;
	} else {
		probe->state.failures++;
	}
	pthread_mutex_unlock(&probe->lock);
}

static void answer_allocated(struct ts_probe *probe, uint64_t asked)
{
	/* Who asks does not wait that long; the answer is then for nobody. */
	struct ts_nbd_patience patience = {
		.timeout_ms = -1,
		.must_stop = must_stop,
		.opaque = probe,
	};
	struct ts_error error = { .text = "" };
	uint64_t bytes = 0;
	int err;

	if (probe->under_way)
		err = ts_fail(&error, -ETIMEDOUT, "the server does not answer");
	else
		err = connect_probe(probe, TIMEOUT_MS, &error);
	if (err == 0) {
		err = probe->ops->allocated(probe->handle, &patience, &bytes,
					    &error);
		if (err < 0 && err != -EOPNOTSUPP && err != -EFBIG)
			drop(probe);
	}
	pthread_mutex_lock(&probe->lock);
	probe->allocated_bytes = bytes;
	probe->allocated_err = err;
	probe->allocated_error = error;
	probe->allocated_done = asked;
	pthread_cond_broadcast(&probe->changed);
	pthread_mutex_unlock(&probe->lock);
}

static void *probe_main(void *opaque)
{
	struct ts_probe *probe = opaque;
	struct timespec next = in_ms(probe->interval_ms);

	for (;;) {
		uint64_t asked;
		bool stop;
		int err = 0;

		pthread_mutex_lock(&probe->lock);
		while (!probe->stop && err != ETIMEDOUT &&
		       probe->allocated_asked == probe->allocated_done)
			err = pthread_cond_timedwait(&probe->changed,
						     &probe->lock, &next);
		stop = probe->stop;
		asked = probe->allocated_asked;
		if (asked == probe->allocated_done)
			asked = 0;
		pthread_mutex_unlock(&probe->lock);
		if (stop)
			break;
		if (asked) {
			answer_allocated(probe, asked);
		} else {
			probe_once(probe, TIMEOUT_MS);
			next = in_ms(probe->interval_ms);
		}
	}
	return NULL;
}

int ts_probe_start(const struct ts_probe_ops *ops, const char *path,
		   const struct ts_child *server, int interval_ms,
		   struct ts_probe **ret, struct ts_error *error)
{
	struct ts_probe *probe = calloc(1, sizeof(*probe));
	pthread_condattr_t attr;
	int err = 0;

	if (!probe)
		return ts_fail(error, -ENOMEM, "probe: %m");
	probe->ops = ops;
	probe->path = path;
	probe->server = server;
	probe->interval_ms = interval_ms;
	pthread_mutex_init(&probe->lock, NULL);
	pthread_condattr_init(&attr);
	pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
	pthread_cond_init(&probe->changed, &attr);
	pthread_condattr_destroy(&attr);

	probe_once(probe, FIRST_TIMEOUT_MS);
	if (!probe->good_ns)
		err = ts_fail(error, -EIO, "first read through the store: %s",
			      probe->state.error.text);
	else if (ops->warm)
		err = ops->warm(probe->handle, server->pid, error);
	/* Warming reads through the store as well, and may take long. */
	if (err == 0)
		probe->good_ns = now_ns();
	if (err == 0)
		err = -pthread_create(&probe->thread, NULL, probe_main, probe);
	if (err < 0) {
		drop(probe);
		pthread_cond_destroy(&probe->changed);
		pthread_mutex_destroy(&probe->lock);
		free(probe);
		return err;
	}
	*ret = probe;
	return 0;
}

void ts_probe_stop(struct ts_probe *probe)
{
	if (!probe)
		return;
	pthread_mutex_lock(&probe->lock);
	probe->stop = true;
	pthread_cond_broadcast(&probe->changed);
	pthread_mutex_unlock(&probe->lock);
	pthread_join(probe->thread, NULL);
	drop(probe);
	pthread_cond_destroy(&probe->changed);
	pthread_mutex_destroy(&probe->lock);
	free(probe);
}

void ts_probe_look(struct ts_probe *probe, struct ts_probe_state *ret)
{
	pthread_mutex_lock(&probe->lock);
	*ret = probe->state;
	ret->since_good_ms = probe->good_ns ?
			(now_ns() - probe->good_ns) / 1000000 : -1;
	pthread_mutex_unlock(&probe->lock);
}

int ts_probe_allocated(struct ts_probe *probe, int timeout_ms,
		       uint64_t *ret_bytes, struct ts_error *error)
{
	struct timespec end = in_ms(timeout_ms);
	uint64_t asked;
	int err = 0;

	pthread_mutex_lock(&probe->lock);
	asked = ++probe->allocated_asked;
	pthread_cond_broadcast(&probe->changed);
	while (err != ETIMEDOUT && probe->allocated_done < asked)
		err = pthread_cond_timedwait(&probe->changed, &probe->lock,
					     &end);
	if (probe->allocated_done < asked) {
		err = ts_fail(error, -ETIMEDOUT,
			      "the server did not answer in time");
	} else {
		err = probe->allocated_err;
		*error = probe->allocated_error;
		if (err == 0)
			*ret_bytes = probe->allocated_bytes;
	}
	pthread_mutex_unlock(&probe->lock);
	return err;
}
