/* SPDX-License-Identifier: BSD-3-Clause */
/* tune.c - what can be changed while a store runs: names, values, and asking
 *
 * Askers take turns by a lock on the mailbox's bytes of the file. Its owner is
 * the open file, so it goes away with an asker that dies.
 */
#include "tune.h"
#include "codec.h"
#include "util/size.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#define POLL_NS 10000000u

enum form { SIZE, NUMBER, BOOL };

static const struct {
	const char *name;
	enum form form;
	int64_t min, max;
} keys[] = {
	[TS_TUNE_RAM] = {"ram", SIZE, 8 << 20, INT64_MAX},
	[TS_TUNE_LEVEL] = {"level", NUMBER, TS_CODEC_LEVEL_MIN,
			   TS_CODEC_LEVEL_MAX},
	[TS_TUNE_HIGH_WATER] = {"high-water", NUMBER, 5, 99},
	[TS_TUNE_LOW_WATER] = {"low-water", NUMBER, 5, 98},
	[TS_TUNE_RAM_ADMISSION] = {"ram-admission", BOOL, 0, 1},
	[TS_TUNE_WRITE_BUDGET] = {"write-budget", SIZE, 0, INT64_MAX},
};

const char *ts_tune_name(enum ts_tune_key key)
{
	return keys[key].name;
}

static int parse_size(const char *text, int64_t *ret, char *why,
		      size_t why_bytes)
{
	uint64_t bytes;
	int err = ts_size_parse(text, &bytes, why, why_bytes);

	if (!err && bytes > INT64_MAX) {
		snprintf(why, why_bytes, "is too large");
		err = -EINVAL;
	}
	if (!err)
		*ret = (int64_t)bytes;
	return err;
}

static int parse_number(const char *text, int64_t *ret, char *why,
			size_t why_bytes)
{
	char *end;
	long n;

	errno = 0;
	n = strtol(text, &end, 10);
	if (errno || end == text || *end) {
		snprintf(why, why_bytes, "must be a whole number");
		return -EINVAL;
	}
	*ret = n;
	return 0;
}

static int parse_bool(const char *text, int64_t *ret, char *why,
		      size_t why_bytes)
{
	bool on = !strcmp(text, "on") || !strcmp(text, "true");

	if (!on && strcmp(text, "off") && strcmp(text, "false")) {
		snprintf(why, why_bytes, "must be on or off");
		return -EINVAL;
	}
	*ret = on;
	return 0;
}

static int find_key(const char *name, size_t len, enum ts_tune_key *ret)
{
	for (unsigned i = 0; i < TS_N_TUNE_KEYS; i++)
		if (strlen(keys[i].name) == len &&
		    !memcmp(keys[i].name, name, len)) {
			*ret = i;
			return 0;
		}
	return -ENOENT;
}

int ts_tune_parse(const char *text, enum ts_tune_key *ret_key,
		  int64_t *ret_value, char *err, size_t err_bytes)
{
	static int (*const parse[])(const char *, int64_t *, char *, size_t) = {
		[SIZE] = parse_size,
		[NUMBER] = parse_number,
		[BOOL] = parse_bool,
	};
	const char *equals = strchr(text, '=');
	char why[200], low[24], high[24];
	enum ts_tune_key key;
	int64_t value;

	if (!equals || find_key(text, (size_t)(equals - text), &key)) {
		snprintf(err, err_bytes,
			 "\"%s\": expected KEY=VALUE with one of the keys ram, "
			 "level, high-water, low-water, ram-admission, "
			 "write-budget",
			 text);
		return -EINVAL;
	}
	if (parse[keys[key].form](equals + 1, &value, why, sizeof(why))) {
		snprintf(err, err_bytes, "%s: %s", text, why);
		return -EINVAL;
	}
	if (value < keys[key].min || value > keys[key].max) {
		snprintf(
			err, err_bytes,
			"%s: out of range, allowed are %s to %s", text,
			ts_tune_format(key, keys[key].min, low, sizeof(low)),
			ts_tune_format(key, keys[key].max, high, sizeof(high)));
		return -EINVAL;
	}
	*ret_key = key;
	*ret_value = value;
	return 0;
}

char *ts_tune_format(enum ts_tune_key key, int64_t value, char *buf,
		     size_t buf_bytes)
{
	if (keys[key].form == BOOL)
		snprintf(buf, buf_bytes, "%s", value ? "true" : "false");
	else if (keys[key].form == SIZE)
		ts_size_format((uint64_t)value, buf, buf_bytes);
	else
		snprintf(buf, buf_bytes, "%" PRId64, value);
	return buf;
}

/* Put the request into the mailbox and wait for the answer. */
static int exchange(struct ts_statsfile_map *map, enum ts_tune_key key,
		    int64_t value, unsigned timeout_ms)
{
	struct ts_statsfile_reader reader = {.map = map};
	uint64_t end = ts_now_ns() + timeout_ms * 1000000ull;
	struct ts_mailbox *box = &map->mailbox;
	uint32_t ticket = ts_load_relaxed(&box->answered) + 1;
	struct ts_snapshot now;

	ts_statsfile_read(&reader, &now);
	if (!now.alive)
		return -ESRCH;
	box->key = key;
	box->value = value;
	/* Pairs with the server's acquire. */
	ts_store_release(&box->asked, ticket);
	while (ts_load_acquire(&box->answered) != ticket) {
		if (ts_now_ns() > end) {
			/* Not to be done later, when nobody expects it. */
			ts_store_release(&box->asked, ticket - 1);
			if (ts_load_acquire(&box->answered) == ticket)
				break;
			return -ETIMEDOUT;
		}
		ts_sleep_ns(POLL_NS);
	}
	return box->error;
}

static void explain(const struct ts_statsfile_map *map, const char *path,
		    enum ts_tune_key key, int error, char *err,
		    size_t err_bytes)
{
	char max[24];

	switch (error) {
	case -ESRCH:
		snprintf(err, err_bytes,
			 "%s: the server that wrote it (pid %d) is gone", path,
			 map->header.pid);
		break;
	case -ETIMEDOUT:
		snprintf(err, err_bytes,
			 "the server (pid %d) does not answer; nothing was "
			 "changed",
			 map->header.pid);
		break;
	case -ENOTSUP:
		snprintf(err, err_bytes,
			 "%s: the server has no spill file, so there is "
			 "nothing to tune",
			 keys[key].name);
		break;
	case -ERANGE:
		if (key == TS_TUNE_RAM)
			snprintf(err, err_bytes,
				 "ram: this server can use at most %s (ram-max "
				 "of its start)",
				 ts_size_format(
					 (uint64_t)map->looked_up.gauge
						 [TS_GAUGE_budget_max_bytes],
					 max, sizeof(max)));
		else
			snprintf(err, err_bytes,
				 "%s: low-water must be below high-water",
				 keys[key].name);
		break;
	default:
		snprintf(err, err_bytes, "%s: %s", keys[key].name,
			 strerror(-error));
	}
}

int ts_tune_ask(const char *path, enum ts_tune_key key, int64_t value,
		unsigned timeout_ms, char *err, size_t err_bytes)
{
	struct flock turn = {
		.l_type = F_WRLCK,
		.l_whence = SEEK_SET,
		.l_start = offsetof(struct ts_statsfile_map, mailbox),
		.l_len = sizeof(struct ts_mailbox),
	};
	struct ts_statsfile_reader reader = {0};
	struct ts_statsfile_map *map;
	int fd, error;

	/* Checks that it is a file of this build. */
	error = ts_statsfile_open(&reader, path, err, err_bytes);
	if (error)
		return error;
	ts_statsfile_close(&reader);
	fd = open(path, O_RDWR | O_NOFOLLOW | O_CLOEXEC);
	map = fd < 0 ? MAP_FAILED
		     : mmap(NULL, sizeof(*map), PROT_READ | PROT_WRITE,
			    MAP_SHARED, fd, 0);
	if (map == MAP_FAILED || fcntl(fd, F_OFD_SETLKW, &turn)) {
		error = -errno;
		snprintf(err, err_bytes, "%s: %s%s", path, strerror(errno),
			 errno == EACCES ? "; only its owner may tune, try sudo"
					 : "");
	} else {
		error = exchange(map, key, value, timeout_ms);
		if (error)
			explain(map, path, key, error, err, err_bytes);
	}
	if (map != MAP_FAILED)
		munmap(map, sizeof(*map));
	if (fd >= 0)
		close(fd);
	return error;
}
