// SPDX-License-Identifier: BSD-3-Clause
/* swaparea.c - a block device as a swap area: make, on, off, how full
 *
 * The room for a drain is MemAvailable, which counts caches that can be
 * dropped, and what other swap areas have free, less a reserve: swapoff that
 * runs into the last pages of memory makes the OOM killer choose. What the
 * store itself will give back is not counted, since it frees only as the
 * drain proceeds.
 */
#include "swaparea.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/fs.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <time.h>
#include <unistd.h>

#include "stop.h"
#include "swapname.h"

#define HELPER_TIMEOUT_MS 60000
#define RETRY_FIRST_MS    50
#define RETRY_MOST_MS     1000

typedef void swaps_fn(void *opaque, const struct ts_swaps_line *line);

static int each_swap(swaps_fn *fn, void *opaque)
{
	struct ts_swaps_line line;
	char text[PATH_MAX + 256];
	FILE *swaps = fopen("/proc/swaps", "re");

	if (!swaps)
		return -errno;
	while (fgets(text, sizeof(text), swaps))
		if (ts_swaps_parse(text, &line))
			fn(opaque, &line);
	fclose(swaps);
	return 0;
}

struct lookup {
	const char *device;
	struct ts_swap_use use;
	uint64_t others_free_bytes;
	bool found;
};

static void look_at(void *opaque, const struct ts_swaps_line *line)
{
	struct lookup *lookup = opaque;

	if (!ts_swaps_is_device(line, lookup->device)) {
		lookup->others_free_bytes +=
			(line->size_kib - line->used_kib) * 1024;
		return;
	}
	lookup->found = true;
	lookup->use.size_bytes = line->size_kib * 1024;
	lookup->use.used_bytes = line->used_kib * 1024;
	lookup->use.priority = line->priority;
}

int ts_swap_lookup(const char *device, struct ts_swap_use *ret)
{
	struct lookup lookup = {.device = device};
	int err = each_swap(look_at, &lookup);

	if (err < 0)
		return err;
	if (!lookup.found)
		return -ENOENT;
	*ret = lookup.use;
	return 0;
}

/* Try again while the device is busy, until the configured time is over. */
typedef int try_fn(const struct ts_config *config, const char *device,
		   struct ts_error *error);

static int retry(try_fn *fn, const char *step, const struct ts_config *config,
		 const char *device, struct ts_error *error)
{
	int wait_ms = RETRY_FIRST_MS, waited_ms = 0, err;

	for (;;) {
		err = fn(config, device, error);
		if (err != -EBUSY)
			break;
		if (waited_ms >= config->tuning.attach_timeout_s * 1000)
			break;
		if (ts_stop_sleep(wait_ms))
			return ts_fail(error, -ECANCELED, "%s: told to stop",
				       step);
		waited_ms += wait_ms;
		wait_ms = wait_ms * 2 > RETRY_MOST_MS ? RETRY_MOST_MS
						      : wait_ms * 2;
	}
	if (err < 0)
		return ts_fail(error, err, "%s: %s%s", step, error->text,
			       err == -EBUSY ? "; gave up waiting" : "");
	return 0;
}

/* One attribute of the device's queue, from sysfs. */
static int queue_value(dev_t dev, const char *name,
		       unsigned long long *ret_value)
{
	char path[128];
	FILE *file;
	int got;

	snprintf(path, sizeof(path), "/sys/dev/block/%u:%u/queue/%s",
		 major(dev), minor(dev), name);
	file = fopen(path, "re");
	if (!file)
		return -errno;
	got = fscanf(file, "%llu", ret_value);
	fclose(file);
	return got == 1 ? 0 : -EIO;
}

static int open_alone(const struct ts_config *config, const char *device,
		      struct ts_error *error)
{
	uint64_t bytes = 0;
	int fd = open(device, O_RDWR | O_EXCL | O_CLOEXEC);

	if (fd < 0) {
		/* Nodes of new devices come from udev or devtmpfs. */
		int err = errno == ENOENT || errno == ENXIO ? -EBUSY : -errno;

		ts_fail(error, -errno, "open %s: %m", device);
		return err;
	}
	if (ioctl(fd, BLKGETSIZE64, &bytes) < 0 || bytes == 0) {
		close(fd);
		return ts_fail(error, -EBUSY, "%s has no size yet", device);
	}
	close(fd);
	return 0;
}

bool ts_swap_is_claimed(const char *device)
{
	int fd = open(device, O_RDONLY | O_EXCL | O_NONBLOCK | O_CLOEXEC);

	if (fd < 0)
		return errno == EBUSY;
	close(fd);
	return false;
}

static int device_size(const char *device, uint64_t *ret_bytes)
{
	int fd = open(device, O_RDONLY | O_CLOEXEC);
	int err = 0;

	if (fd < 0)
		return -errno;
	if (ioctl(fd, BLKGETSIZE64, ret_bytes) < 0)
		err = -errno;
	close(fd);
	return err;
}

int ts_swap_check_device(const struct ts_config *config, const char *device,
			 uint64_t size_bytes, struct ts_error *error)
{
	unsigned long long rotational, discard;
	uint64_t bytes = 0;
	struct stat st;
	int err;

	err = retry(open_alone, "wait for the device", config, device, error);
	if (err < 0)
		return err;
	if (stat(device, &st) < 0 || !S_ISBLK(st.st_mode))
		return ts_fail(error, -ENOTBLK, "%s is no block device",
			       device);
	err = device_size(device, &bytes);
	if (err < 0 || bytes != size_bytes)
		return ts_fail(error, -EIO,
			       "%s has %llu bytes instead of %llu: it is not "
			       "what was attached",
			       device, (unsigned long long)bytes,
			       (unsigned long long)size_bytes);
	err = queue_value(st.st_rdev, "rotational", &rotational);
	if (err == 0)
		err = queue_value(st.st_rdev, "discard_max_bytes", &discard);
	if (err < 0)
		return ts_fail(error, err, "queue of %s in sysfs: %m", device);
	if (rotational != 0)
		return ts_fail(error, -EIO, "%s says that it is rotational",
			       device);
	if (discard == 0)
		return ts_fail(error, -EOPNOTSUPP,
			       "%s does not discard: freed swap would stay "
			       "stored",
			       device);
	return 0;
}

static int run_mkswap(const struct ts_config *config, const char *device,
		      struct ts_error *error)
{
	const char *argv[] = {config->tuning.mkswap, "-L", "thinswap", device,
			      NULL};

	return ts_run(argv, HELPER_TIMEOUT_MS, error);
}

int ts_swap_make(const struct ts_config *config, const char *device,
		 struct ts_error *error)
{
	return retry(run_mkswap, "write the swap header", config, device,
		     error);
}

static int run_swapon(const struct ts_config *config, const char *device,
		      struct ts_error *error)
{
	char priority[16];
	const char *argv[] = {config->tuning.swapon_program,
			      "--discard",
			      "--priority",
			      priority,
			      device,
			      NULL};

	snprintf(priority, sizeof(priority), "%d", config->device.priority);
	return ts_run(argv, HELPER_TIMEOUT_MS, error);
}

int ts_swap_on(const struct ts_config *config, const char *device,
	       struct ts_error *error)
{
	return retry(run_swapon, "switch swap on", config, device, error);
}

int ts_swap_off_start(const struct ts_config *config, const char *device,
		      int output_fd, struct ts_child *ret,
		      struct ts_error *error)
{
	const char *argv[] = {config->tuning.swapoff_program, device, NULL};
	struct ts_spawn how = TS_SPAWN(argv);

	how.output_fd = output_fd;
	return ts_spawn(&how, ret, error);
}

int ts_swap_off(const struct ts_config *config, const char *device,
		struct ts_error *error)
{
	const char *argv[] = {config->tuning.swapoff_program, device, NULL};
	int err = ts_run(argv, -1, error);

	return err < 0 ? ts_fail(error, err, "switch swap off: %s", error->text)
		       : 0;
}

static int read_meminfo(uint64_t *ret_total, uint64_t *ret_available)
{
	unsigned long long total = 0, available = 0;
	char line[128];
	FILE *meminfo = fopen("/proc/meminfo", "re");

	if (!meminfo)
		return -errno;
	while (fgets(line, sizeof(line), meminfo)) {
		sscanf(line, "MemTotal: %llu", &total);
		sscanf(line, "MemAvailable: %llu", &available);
	}
	fclose(meminfo);
	if (!total)
		return -EIO;
	*ret_total = total * 1024;
	*ret_available = available * 1024;
	return 0;
}

int ts_swap_measure_room(const char *device, struct ts_swap_room *ret,
			 struct ts_error *error)
{
	struct lookup lookup = {.device = device};
	uint64_t total = 0, available = 0, reserve;
	struct ts_swap_room room;
	int err;

	err = each_swap(look_at, &lookup);
	if (err == 0)
		err = read_meminfo(&total, &available);
	if (err < 0)
		return ts_fail(error, err, "room for a drain: %m");
	reserve = total / 50;
	room.used_bytes = lookup.use.used_bytes;
	room.room_bytes = lookup.others_free_bytes +
			  (available > reserve ? available - reserve : 0);
	room.missing_bytes = room.used_bytes > room.room_bytes
				     ? room.used_bytes - room.room_bytes
				     : 0;
	*ret = room;
	return 0;
}
