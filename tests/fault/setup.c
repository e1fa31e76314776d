// SPDX-License-Identifier: BSD-3-Clause
/* setup.c - every call that setting up a store depends on fails once
 *
 * The calls are wrapped at link time. ts_store_new() and ts_store_start() must
 * return the error and leave nothing behind: memory leaks are for the
 * sanitizer to see, shared memory is counted here.
 */
#define ZSTD_STATIC_LINKING_ONLY
#include "tests/common/rig.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/shm.h>
#include <unistd.h>
#include <zstd.h>

enum call {
	CALLOC,
	ALIGNED_ALLOC,
	SHMGET,
	SHMAT,
	MADVISE,
	PTHREAD_CREATE,
	ZSTD_PARAMS,
	N_CALLS,
};

static enum call failing = N_CALLS;
static unsigned fail_at, n_calls;

static bool fails(enum call call)
{
	if (call != failing || ++n_calls != fail_at)
		return false;
	errno = ENOMEM;
	return true;
}

#define WRAP(call, type, name, failed, params, args)                           \
	type __real_##name params;                                             \
	type __wrap_##name params;                                             \
	type __wrap_##name params                                              \
	{                                                                      \
		return fails(call) ? failed : __real_##name args;              \
	}

WRAP(CALLOC, void *, calloc, NULL, (size_t n, size_t size), (n, size))
WRAP(ALIGNED_ALLOC, void *, aligned_alloc, NULL, (size_t align, size_t size),
     (align, size))
WRAP(SHMGET, int, shmget, -1, (key_t key, size_t size, int flags),
     (key, size, flags))
WRAP(SHMAT, void *, shmat, (void *)-1, (int id, const void *at, int flags),
     (id, at, flags))
WRAP(MADVISE, int, madvise, -1, (void *addr, size_t size, int advice),
     (addr, size, advice))
WRAP(PTHREAD_CREATE, int, pthread_create, ENOMEM,
     (pthread_t * thread, const pthread_attr_t *attr, void *(*fn)(void *),
      void *arg),
     (thread, attr, fn, arg))
WRAP(ZSTD_PARAMS, ZSTD_CCtx_params *, ZSTD_createCCtxParams, NULL, (void), ())

/* Segments that this process made and that are still there. */
static unsigned segments(void)
{
	FILE *f = fopen("/proc/sysvipc/shm", "r");
	char line[512];
	unsigned n = 0;
	int pid;

	if (!f)
		rig_die("no /proc/sysvipc/shm");
	while (fgets(line, sizeof(line), f))
		if (sscanf(line, "%*d %*d %*o %*u %d", &pid) == 1)
			n += pid == getpid();
	fclose(f);
	return n;
}

/* Returns false once there is no such call to fail any more. */
static bool attempt(enum call call, unsigned k)
{
	struct ts_store *store = (struct ts_store *)&store;
	struct ts_params params;
	char why[256];
	int err;

	ts_params_init(&params);
	params.size_bytes = 1ull << 40;
	params.ram_bytes = 8 * MIB;
	if (ts_params_finish(&params, why, sizeof(why)))
		rig_die("%s", why);
	failing = call;
	fail_at = k;
	n_calls = 0;
	err = ts_store_new(&params, &store, why, sizeof(why));
	if (!err) {
		err = ts_store_start(store);
		failing = N_CALLS;
		if (!err && !segments())
			rig_die("the test does not see shared memory");
		ts_store_free(store);
	} else if (store != (struct ts_store *)&store) {
		rig_die("a failed call left a store");
	}
	failing = N_CALLS;
	if (segments())
		rig_die("call %d, time %u: a segment was left", call, k);
	if (n_calls < k)
		return false;
	/* What is only advice may be ignored. */
	if (!err && call != MADVISE)
		rig_die("call %d, time %u: no error", call, k);
	if (err && err != -ENOMEM)
		rig_die("call %d, time %u: %s", call, k, strerror(-err));
	return true;
}

int main(void)
{
	for (unsigned call = 0; call < N_CALLS; call++) {
		unsigned k = 1;

		while (attempt((enum call)call, k))
			k++;
		if (k == 1)
			rig_die("call %u is not made any more", call);
		printf("call %u fails at %u points\n", call, k - 1);
	}
	return EXIT_SUCCESS;
}
