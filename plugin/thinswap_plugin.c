/* SPDX-License-Identifier: BSD-3-Clause */
/* thinswap_plugin.c - the nbdkit plugin: an NBD request becomes a store call
 *
 * One store serves all connections. It is made in get_ready, before nbdkit
 * forks into the background; threads and locks come in after_fork, because
 * neither crosses a fork.
 */
#include "build.h"
#include "standby.h"
#include "thinswap.h"
#include "util/harden.h"
#include "util/lock.h"

#include <dlfcn.h>
#include <errno.h>
#include <inttypes.h>
#include <libgen.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

#define NBDKIT_API_VERSION 2
#include <nbdkit-plugin.h>

#define THREAD_MODEL NBDKIT_THREAD_MODEL_PARALLEL

/* The largest request that the NBD protocol's peers expect to work. */
#define MAX_REQUEST_BYTES (32u << 20)

#define LOG_AGAIN_NS (60ull * 1000000000)

#define STANDBY_READ_US 2000

/* Code, stacks, request buffers and contexts. */
#define LOCKED_BESIDE_RAM_BYTES (64ull << 20)

static struct ts_params params;
static struct ts_store *store; /* NULL until there is one: see standby.h */

static struct ts_store *store_now(void)
{
	struct ts_store *now = __atomic_load_n(&store, __ATOMIC_ACQUIRE);

	return now ? now : ts_standby_wait();
}

/* nbdkit makes a thread for each request that may run beside others. Whoever
 * connects warms all of them; from then on none faults on its stack.
 */
static void enter(void)
{
	static _Thread_local bool entered;

	if (!entered)
		ts_harden_touch_stack();
	entered = true;
}

/* The sorts of requests, for the log. */
enum request { READ, WRITE, TRIM, ZERO, N_REQUESTS };

/* A request that fails is worth a line, a thousand that do are not worth more:
 * one line a minute for each sort. The counters know how many there were.
 */
static void log_failure(enum request what, int err)
{
	static const char *const names[N_REQUESTS] = { "read", "write", "trim",
						       "zero" };
	static uint64_t last_ns[N_REQUESTS];
	uint64_t now_ns = ts_now_ns();
	uint64_t last = __atomic_load_n(&last_ns[what], __ATOMIC_RELAXED);

	if ((last && now_ns - last < LOG_AGAIN_NS) ||
	    !__atomic_compare_exchange_n(&last_ns[what], &last, now_ns, false,
					 __ATOMIC_RELAXED, __ATOMIC_RELAXED))
		return;
	nbdkit_error("%s failed: %s (further ones within a minute are only "
		     "counted)", names[what], strerror(-err));
}

/* Started in the real-time class (thinswapd does so), the process keeps only
 * the threads that serve there, and these not while they compress: workers
 * were never in it.
 */
static bool realtime;

static void enter_class(bool on)
{
	static _Thread_local bool is_in;

	if (!realtime || is_in == on)
		return;
	if (!ts_harden_realtime(on))
		is_in = on;
}

static int result(enum request what, int err)
{
	if (!err)
		return 0;
	log_failure(what, err);
	nbdkit_set_error(-err);
	return -1;
}

/* nbdkit gives warnings no level of their own. */
static void log_event(void *opaque, enum ts_event_level level,
		      const char *text)
{
	if (level == TS_EVENT_WARNING)
		nbdkit_error("warning: %s", text);
	else
		nbdkit_debug("%s", text);
}

static void plugin_load(void)
{
	ts_standby_load();
	ts_params_init(&params);
	params.event = log_event;
}

static void plugin_unload(void)
{
	ts_store_free(store);
	ts_params_fini(&params);
}

static void plugin_dump(void)
{
	struct ts_params defaults;
	char err[256];

	ts_params_init(&defaults);
	defaults.size_bytes = TS_SLOT_BYTES;
	if (ts_params_finish(&defaults, err, sizeof(err)))
		return;
	printf("thinswap_version=%s\n", TS_VERSION);
	printf("thinswap_default_ram=%llu\n",
	       (unsigned long long)defaults.ram_bytes);
	printf("thinswap_default_level=%d\n", defaults.level);
}

static int plugin_config(const char *key, const char *value)
{
	char err[512];

	if (!ts_params_set(&params, key, value, err, sizeof(err)))
		return 0;
	nbdkit_error("%s", err);
	return -1;
}

/* The folder that this plugin was loaded from, for the trainer's sake. */
static void find_trainer(void)
{
	Dl_info info;
	char *path;

	if (!dladdr(&params, &info))
		return;
	path = nbdkit_realpath(info.dli_fname);
	if (path)
		ts_params_find_trainer(&params, dirname(path));
	free(path);
}

static int plugin_config_complete(void)
{
	char err[512];

	find_trainer();
	if (!ts_params_finish(&params, err, sizeof(err)))
		return 0;
	nbdkit_error("%s", err);
	return -1;
}

static int plugin_get_ready(void)
{
	char err[512];

	if (ts_standby_is_on())
		return 0;
	if (!ts_store_new(&params, &store, err, sizeof(err)))
		return 0;
	nbdkit_error("%s", err);
	return -1;
}

/* Locks do not cross a fork, so this cannot come earlier. A lock that the
 * limit would break later, at some large write, is not taken at all.
 */
static void harden(void)
{
	uint64_t limit, need = params.ram_bytes + LOCKED_BESIDE_RAM_BYTES;
	int err = ts_harden_memlock_limit(need, &limit);

	if (err)
		nbdkit_error("warning: memory is not locked and can be "
			     "swapped out: RLIMIT_MEMLOCK is %" PRIu64
			     " bytes, %" PRIu64 " are needed", limit, need);
	else if ((err = ts_harden_lock_memory()))
		nbdkit_error("warning: memory is not locked and can be "
			     "swapped out: mlockall: %s", strerror(-err));
	err = ts_harden_populate_code(NULL);
	if (err)
		nbdkit_debug("code is not populated: %s", strerror(-err));
}

static int stand_by(void)
{
	char err[512];

	if (!ts_standby_begin(&params, realtime, &store, err, sizeof(err)))
		return 0;
	nbdkit_error("%s", err);
	return -1;
}

static int plugin_after_fork(void)
{
	int err;

	/* nbdkit arranges for SIGTERM at its parent's death when it is given
	 * a listening socket. Under live swap that loses what is swapped out.
	 */
	if (getenv("THINSWAP_OUTLIVES_PARENT"))
		prctl(PR_SET_PDEATHSIG, 0);
	harden();
	realtime = ts_harden_is_realtime();
	if (realtime)
		ts_harden_realtime(false);
	if (ts_standby_is_on())
		return stand_by();
	err = ts_store_start(store);

	if (!err)
		return 0;
	nbdkit_error("cannot start: %s", strerror(-err));
	return -1;
}

static void *plugin_open(int readonly)
{
	return NBDKIT_HANDLE_NOT_NEEDED;
}

static int64_t plugin_get_size(void *handle)
{
	return (int64_t)params.size_bytes;
}

static int plugin_block_size(void *handle, uint32_t *minimum,
			     uint32_t *preferred, uint32_t *maximum)
{
	*minimum = 1;
	*preferred = TS_SLOT_BYTES;
	*maximum = MAX_REQUEST_BYTES;
	return 0;
}

static int yes(void *handle)
{
	return 1;
}

static int no(void *handle)
{
	return 0;
}

/* Flush and FUA are free: memory has no durability to lose. */
static int plugin_can_fua(void *handle)
{
	return NBDKIT_FUA_NATIVE;
}

static int plugin_can_cache(void *handle)
{
	return NBDKIT_CACHE_NATIVE;
}

static int plugin_pread(void *handle, void *buf, uint32_t count,
			uint64_t offset, uint32_t flags)
{
	struct ts_store *now;

	enter();
	enter_class(true);
	now = store_now();
	if (now)
		return result(READ, ts_store_read(now, buf, count, offset));
	/* Slow enough that every thread of the connection has its turn. */
	usleep(STANDBY_READ_US);
	memset(buf, 0, count);
	return 0;
}

static int plugin_pwrite(void *handle, const void *buf, uint32_t count,
			 uint64_t offset, uint32_t flags)
{
	struct ts_store *now = store_now();
	int err;

	if (!now)
		return result(WRITE, -EBUSY);
	enter();
	/* A page that is only copied is no reason to leave. */
	enter_class(ts_store_would_stage(now, count));
	err = ts_store_write(now, buf, count, offset);
	enter_class(true);
	return result(WRITE, err);
}

static int plugin_trim(void *handle, uint32_t count, uint64_t offset,
		       uint32_t flags)
{
	struct ts_store *now = store_now();

	return result(TRIM, now ? ts_store_discard(now, count, offset) :
				  -EBUSY);
}

static int plugin_zero(void *handle, uint32_t count, uint64_t offset,
		       uint32_t flags)
{
	struct ts_store *now = store_now();
	int err;

	if (!now)
		return result(ZERO, -EBUSY);
	enter_class(false);
	err = ts_store_zero(now, count, offset);
	enter_class(true);
	return result(ZERO, err);
}

static int plugin_flush(void *handle, uint32_t flags)
{
	return 0;
}

static int plugin_cache(void *handle, uint32_t count, uint64_t offset,
			uint32_t flags)
{
	return 0;
}

static int add_extent(void *opaque, uint64_t off, uint64_t len,
		      enum ts_extent type)
{
	static const uint32_t nbd_type[] = {
		[TS_EXTENT_DATA] = 0,
		[TS_EXTENT_ZERO] = NBDKIT_EXTENT_ZERO,
		[TS_EXTENT_HOLE] = NBDKIT_EXTENT_ZERO | NBDKIT_EXTENT_HOLE,
	};

	return nbdkit_add_extent(opaque, off, len, nbd_type[type]);
}

static int plugin_extents(void *handle, uint32_t count, uint64_t offset,
			  uint32_t flags, struct nbdkit_extents *extents)
{
	struct ts_store *now = store_now();

	if (!now) {
		nbdkit_set_error(EBUSY);
		return -1;
	}
	return ts_store_extents(now, count, offset, add_extent, extents) ? -1 :
									   0;
}

static struct nbdkit_plugin plugin = {
	.name = "thinswap",
	.longname = "thinswap compressed swap",
	.version = TS_VERSION,
	.description = "a thin device of compressed pages, made for swap",
	.config_help =
		"size=<SIZE>   (required) virtual size of the device\n"
		"ram=<SIZE>    budget for all memory of pages (default: half of the machine's)\n"
		"reserve=<SIZE>  memory kept touched ahead of demand (default: 2M)\n"
		"level=<N>     zstd level, -7 to 19 (default: 1)\n"
		"dictionary=<BOOL>  train dictionaries on what is stored (default: true)\n"
		"write-behind=<SIZE>  pages accepted before they are compressed (default: 8M)\n"
		"workers=<N>   threads that compress them (default: one a processor)\n"
		"spill=<PATH>  file or block device for what does not fit in ram\n"
		"spill-size=<SIZE>    size of the spill file\n"
		"encrypt=<BOOL>       seal what is spilled (default: true)\n"
		"spill-force=<BOOL>   use a file or device that holds something else\n"
		"write-budget=<SIZE>  most bytes a day to spill (default: 0, no limit)\n"
		"stats=<PATH>         statistics for others to read\n"
		"write-budget-spent=fail|wait  what writes do then (default: fail)\n"
		"high-water=<N>, low-water=<N>  percent of ram in use at which\n"
		"              spilling begins and ends (default: 95 and 90)\n"
		"io-uring=<BOOL>      use io_uring where permitted (default: true)",
	.load = plugin_load,
	.unload = plugin_unload,
	.dump_plugin = plugin_dump,
	.config = plugin_config,
	.config_complete = plugin_config_complete,
	.get_ready = plugin_get_ready,
	.after_fork = plugin_after_fork,
	.open = plugin_open,
	.get_size = plugin_get_size,
	.block_size = plugin_block_size,
	.can_write = yes,
	.can_flush = yes,
	.can_trim = yes,
	.can_zero = yes,
	.can_fast_zero = yes,
	.can_extents = yes,
	.can_fua = plugin_can_fua,
	.can_cache = plugin_can_cache,
	.can_multi_conn = yes,
	.is_rotational = no,
	.pread = plugin_pread,
	.pwrite = plugin_pwrite,
	.trim = plugin_trim,
	.zero = plugin_zero,
	.flush = plugin_flush,
	.cache = plugin_cache,
	.extents = plugin_extents,
	.errno_is_preserved = 1,
};

NBDKIT_REGISTER_PLUGIN(plugin)
