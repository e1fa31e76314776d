/* SPDX-License-Identifier: BSD-3-Clause */
/* parallel.c - do one piece of work on all processors, at start */
#include "parallel.h"

#include <pthread.h>
#include <unistd.h>

#define THREADS_MAX 64u

struct call {
	void (*fn)(void *arg);
	void *arg;
};

static void *run(void *arg)
{
	struct call *call = arg;

	call->fn(call->arg);
	return NULL;
}

void ts_in_parallel(unsigned max, void (*fn)(void *arg), void *arg)
{
	long n_cpus = sysconf(_SC_NPROCESSORS_ONLN);
	struct call call = {fn, arg};
	pthread_t thread[THREADS_MAX];
	unsigned n = 0;

	if (max > THREADS_MAX)
		max = THREADS_MAX;
	while (n + 1 < max && (long)n + 1 < n_cpus &&
	       !pthread_create(&thread[n], NULL, run, &call))
		n++;
	fn(arg);
	while (n)
		pthread_join(thread[--n], NULL);
}
