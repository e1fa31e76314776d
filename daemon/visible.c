// SPDX-License-Identifier: BSD-3-Clause
/* visible.c - the store's statistics and settings, as the daemon uses them
 *
 * The file is opened for each look: it is in a tmpfs, and a server that was
 * started anew has a new one.
 */
#include "visible.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "daemon.h"
#include "log.h"
#include "tune.h"
#include "util/size.h"

#define TUNE_TIMEOUT_MS 4000
#define AGAIN_NS        (3600ull * 1000000000)
#define DETACHED        "device-detached"
#define DETACHED_TEXT                                                          \
	"the kernel has let go of the device; what is swapped out there "      \
	"cannot be read"

static int take_snapshot(struct ts_daemon *d, struct ts_snapshot *ret)
{
	char path[TS_RUNTIME_PATH_BYTES], why[512];
	struct ts_statsfile_reader reader;
	int err;

	err = ts_statsfile_open(&reader,
				ts_runtime_path(&d->rt, TS_STATS_NAME, path),
				why, sizeof(why));
	if (err)
		return err;
	ts_statsfile_read(&reader, ret);
	ts_statsfile_close(&reader);
	return 0;
}

/* The kernel keeps these as long as the device has its server. */
static bool device_is_there(const char *device)
{
	const char *name = strrchr(device, '/');
	char path[128];

	if (!name)
		return true;
	snprintf(path, sizeof(path),
		 strncmp(name, "/nbd", 4) == 0 ? "/sys/block%s/pid"
					       : "/sys/block%s/loop",
		 name);
	return access(path, F_OK) == 0;
}

static bool device_detached(struct ts_daemon *d)
{
	return d->state == TS_RUNNING && d->attach.device[0] &&
	       !device_is_there(d->attach.device);
}

/* Log @text where @on has just begun. */
static void note(struct ts_daemon *d, unsigned bit, bool on, const char *name,
		 const char *text)
{
	uint64_t now_ns = ts_now_ns();

	if (on) {
		if (!d->warned_ns[bit] || now_ns - d->warned_ns[bit] > AGAIN_NS)
			ts_log(LOG_WARNING, "%s: %s", name, text);
		d->warned_ns[bit] = now_ns;
	}
}

void ts_visible_tick(struct ts_daemon *d)
{
	struct ts_snapshot now;
	struct ts_view view;
	char text[400];

	note(d, TS_WARN_DEVICE_DETACHED, device_detached(d), DETACHED,
	     DETACHED_TEXT);
	if (take_snapshot(d, &now))
		return;
	ts_view_make(&now, &view);
	for (unsigned i = 0; i < TS_N_WARNINGS; i++)
		note(d, i, view.warnings >> i & 1, ts_warning_name(i),
		     ts_warning_text(i, &now, &view, text, sizeof(text)));
}

static void append(json_t *all, const char *name, const char *text)
{
	json_array_append_new(
		all, json_pack("{s:s, s:s}", "name", name, "text", text));
}

static json_t *describe_warnings(const struct ts_snapshot *now,
				 const struct ts_view *view)
{
	json_t *all = json_array();
	char text[400];

	for (unsigned i = 0; i < TS_N_WARNINGS; i++)
		if (view->warnings >> i & 1)
			append(all, ts_warning_name(i),
			       ts_warning_text(i, now, view, text,
					       sizeof(text)));
	return all;
}

static json_t *describe_settings(const int64_t *gauge, unsigned tuned)
{
	json_t *names = json_array();

	for (unsigned i = 0; i < TS_N_TUNE_KEYS; i++)
		if (tuned >> i & 1)
			json_array_append_new(names,
					      json_string(ts_tune_name(i)));
	return json_pack(
		"{s:o, s:I, s:I, s:I, s:I, s:b, s:I}", "tuned", names,
		"ram_bytes", (json_int_t)gauge[TS_GAUGE_budget_bytes], "level",
		(json_int_t)gauge[TS_GAUGE_level], "high_water_percent",
		(json_int_t)gauge[TS_GAUGE_high_water_percent],
		"low_water_percent",
		(json_int_t)gauge[TS_GAUGE_low_water_percent], "ram_admission",
		(int)gauge[TS_GAUGE_ram_admission], "write_budget_bytes",
		(json_int_t)gauge[TS_GAUGE_write_budget_bytes]);
}

static json_t *describe_spill(const char *path, const struct ts_snapshot *now,
			      const struct ts_view *view)
{
	const int64_t *gauge = now->looked_up.gauge;

	if (!gauge[TS_GAUGE_spill_present])
		return json_null();
	return json_pack(
		"{s:s, s:I, s:I, s:I, s:I, s:b, s:b}", "path", path,
		"size_bytes", (json_int_t)gauge[TS_GAUGE_spill_size_bytes],
		"used_bytes", (json_int_t)view->spill_used_bytes, "pages",
		(json_int_t)view->spill_pages, "written_bytes",
		(json_int_t)now->sums.value[TS_STAT_spill_written_bytes],
		"encrypted", (int)gauge[TS_GAUGE_spill_encrypted], "degraded",
		(int)gauge[TS_GAUGE_spill_degraded]);
}

void ts_visible_describe(struct ts_daemon *d, json_t *status)
{
	json_t *settings = json_null(), *spill = json_null();
	json_t *warnings = json_array();
	struct ts_snapshot now;
	struct ts_view view;

	if (take_snapshot(d, &now) == 0) {
		ts_view_make(&now, &view);
		settings = describe_settings(now.looked_up.gauge, d->tuned);
		spill = describe_spill(d->config.spill.path, &now, &view);
		json_decref(warnings);
		warnings = describe_warnings(&now, &view);
	}
	if (device_detached(d))
		append(warnings, DETACHED, DETACHED_TEXT);
	json_object_set_new(status, "settings", settings);
	json_object_set_new(status, "spill", spill);
	json_object_set_new(status, "warnings", warnings);
}

static void set_argument(struct ts_daemon *d, enum ts_tune_key key,
			 int64_t value)
{
	char text[24];

	snprintf(text, sizeof(text), "%" PRId64, value);
	ts_args_set(&d->server_args, ts_tune_name(key), text);
}

void ts_visible_keep_max(struct ts_daemon *d)
{
	struct ts_snapshot now;

	if (!d->config.ram.max_bytes && !take_snapshot(d, &now))
		d->config.ram.max_bytes = (uint64_t)
			now.looked_up.gauge[TS_GAUGE_budget_max_bytes];
}

/* The configuration follows, so that it says what is in force, and so does the
 * command line, for a server that takes this one's place.
 */
static void take_over(struct ts_daemon *d, enum ts_tune_key key, int64_t value)
{
	struct ts_config *config = &d->config;

	switch (key) {
	case TS_TUNE_RAM:
		config->ram.budget_bytes = (uint64_t)value;
		break;
	case TS_TUNE_LEVEL:
		config->codec.level = (int)value;
		break;
	case TS_TUNE_HIGH_WATER:
		config->tuning.high_water_percent = (int)value;
		/* The server has done the same. */
		if (config->tuning.low_water_percent >= value)
			take_over(d, TS_TUNE_LOW_WATER, value - 1);
		break;
	case TS_TUNE_LOW_WATER:
		config->tuning.low_water_percent = (int)value;
		break;
	case TS_TUNE_WRITE_BUDGET:
		config->spill.write_budget_bytes = (uint64_t)value;
		break;
	case TS_TUNE_RAM_ADMISSION:
		d->ram_closed = !value;
		return;
	case TS_N_TUNE_KEYS:
		return;
	}
	set_argument(d, key, value);
}

static int ask(struct ts_daemon *d, enum ts_tune_key key, int64_t value,
	       struct ts_error *error)
{
	char path[TS_RUNTIME_PATH_BYTES], why[512];
	int err;

	err = ts_tune_ask(ts_runtime_path(&d->rt, TS_STATS_NAME, path), key,
			  value, TUNE_TIMEOUT_MS, why, sizeof(why));
	return err ? ts_fail(error, err, "%s", why) : 0;
}

int ts_visible_tune(struct ts_daemon *d, const char *text, const char *who,
		    bool tuned, struct ts_error *error)
{
	char why[512], shown[24];
	enum ts_tune_key key;
	int64_t value;
	int err;

	err = ts_tune_parse(text, &key, &value, why, sizeof(why));
	if (err)
		return ts_fail(error, err, "%s", why);
	err = ask(d, key, value, error);
	if (err)
		return err;
	take_over(d, key, value);
	d->tuned = tuned ? d->tuned | 1u << key : d->tuned & ~(1u << key);
	ts_log(LOG_NOTICE, "%s: %s is now %s", who, ts_tune_name(key),
	       ts_tune_format(key, value, shown, sizeof(shown)));
	return 0;
}

void ts_visible_tune_again(struct ts_daemon *d)
{
	struct ts_error error;

	if (d->ram_closed && ask(d, TS_TUNE_RAM_ADMISSION, false, &error) < 0)
		ts_log(LOG_WARNING, "ram-admission is true again: %s",
		       error.text);
}

const char *ts_visible_tuning(const struct ts_config *config, const char *name,
			      char *buf, size_t room)
{
	if (strcmp(name, "ram.budget") == 0)
		snprintf(buf, room, "ram=%" PRIu64, config->ram.budget_bytes);
	else if (strcmp(name, "codec.level") == 0)
		snprintf(buf, room, "level=%d", config->codec.level);
	else if (strcmp(name, "tuning.high-water") == 0)
		snprintf(buf, room, "high-water=%d",
			 config->tuning.high_water_percent);
	else if (strcmp(name, "tuning.low-water") == 0)
		snprintf(buf, room, "low-water=%d",
			 config->tuning.low_water_percent);
	else if (strcmp(name, "spill.write-budget") == 0)
		snprintf(buf, room, "write-budget=%" PRIu64,
			 config->spill.write_budget_bytes);
	else
		return NULL;
	return buf;
}
