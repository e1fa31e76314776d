// SPDX-License-Identifier: BSD-3-Clause
/* config_echo.c - a configuration told back to people
 *
 * The three sizes that are taken for each other come first, each by its own
 * name and in exact bytes; then every key that the file sets.
 */
#include "config_keys.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "util/size.h"

#define VALUE_BYTES (TS_CONFIG_PATH_BYTES + 8)
#define LINE_BYTES  (VALUE_BYTES + 128)

/* Beyond these, a setting is allowed but rarely meant. */
#define BUDGET_PERCENT_WARN  80
#define SIZE_PER_BUDGET_WARN 16

__attribute__((format(printf, 3, 4))) static void
say(ts_config_line_fn *fn, void *opaque, const char *fmt, ...)
{
	char line[LINE_BYTES];
	va_list args;

	va_start(args, fmt);
	vsnprintf(line, sizeof(line), fmt, args);
	va_end(args);
	fn(opaque, line);
}

static const char *origin(const struct ts_config *config, const char *section,
			  const char *name)
{
	return config->given >> ts_config_key_find(section, name) & 1
		       ? "from the file"
		       : "default";
}

void ts_config_echo(const struct ts_config *config, ts_config_line_fn *fn,
		    void *opaque)
{
	char size[TS_SIZE_TEXT_BYTES], value[VALUE_BYTES];
	const struct ts_config_key *keys;
	unsigned n;

	say(fn, opaque, "configuration: %s",
	    config->file[0] ? config->file : "no file, all defaults");
	say(fn, opaque, "virtual size: %s = %" PRIu64 " bytes (%s)",
	    ts_size_format(config->device.size_bytes, size, sizeof(size)),
	    config->device.size_bytes, origin(config, "device", "size"));
	say(fn, opaque, "RAM cap: %s = %" PRIu64 " bytes (%s)",
	    ts_size_format(config->ram.budget_bytes, size, sizeof(size)),
	    config->ram.budget_bytes, origin(config, "ram", "budget"));
	if (config->spill.path[0] && !config->spill.size_bytes)
		say(fn, opaque, "spill cap: as large as %s is",
		    config->spill.path);
	else if (config->spill.path[0])
		say(fn, opaque, "spill cap: %s = %" PRIu64 " bytes (%s)",
		    ts_size_format(config->spill.size_bytes, size,
				   sizeof(size)),
		    config->spill.size_bytes, origin(config, "spill", "size"));
	else
		say(fn, opaque, "spill cap: 0 bytes (no spill tier)");
	keys = ts_config_keys(&n);
	for (unsigned i = 0; i < n; i++) {
		if (!(config->given >> i & 1))
			continue;
		ts_config_key_text(&keys[i], config, value, sizeof(value));
		say(fn, opaque, "%s.%s = %s", keys[i].section, keys[i].name,
		    value);
	}
}

unsigned ts_config_warnings(const struct ts_config *config,
			    ts_config_line_fn *fn, void *opaque)
{
	unsigned n = 0;

	if (config->ram.budget_bytes / BUDGET_PERCENT_WARN >
	    config->memory_bytes / 100) {
		say(fn, opaque,
		    "ram.budget is more than %d %% of memory: what is locked "
		    "for swap is missing for everything else",
		    BUDGET_PERCENT_WARN);
		n++;
	}
	if (config->device.size_bytes / SIZE_PER_BUDGET_WARN >
	    config->ram.budget_bytes) {
		say(fn, opaque,
		    "device.size is more than %d times ram.budget: memory will "
		    "run out long before free swap does",
		    SIZE_PER_BUDGET_WARN);
		n++;
	}
	if (config->spill.size_bytes && !config->spill.path[0]) {
		say(fn, opaque,
		    "spill.size is given, but no spill.path: there is no "
		    "spill tier");
		n++;
	}
	if (config->spill.path[0] && !config->spill.encrypt) {
		say(fn, opaque,
		    "spill.encrypt = false: whoever can read the spill file "
		    "can read what was swapped");
		n++;
	}
	if (config->device.attach == TS_ATTACH_FUSE) {
		say(fn, opaque,
		    "device.attach = \"fuse\" is for pressure inside memory "
		    "cgroups: under pressure of the whole machine it can hang");
		n++;
	}
	return n;
}

unsigned ts_config_compare(const struct ts_config *old_config,
			   const struct ts_config *new_config,
			   ts_config_change_fn *fn, void *opaque)
{
	char old_text[VALUE_BYTES], new_text[VALUE_BYTES];
	char name[2 * TS_CONFIG_NAME_BYTES];
	const struct ts_config_key *keys;
	unsigned n, changed = 0;

	keys = ts_config_keys(&n);
	for (unsigned i = 0; i < n; i++) {
		ts_config_key_text(&keys[i], old_config, old_text,
				   sizeof(old_text));
		ts_config_key_text(&keys[i], new_config, new_text,
				   sizeof(new_text));
		if (strcmp(old_text, new_text) == 0)
			continue;
		snprintf(name, sizeof(name), "%s.%s", keys[i].section,
			 keys[i].name);
		fn(opaque, name, old_text, new_text, keys[i].live);
		changed++;
	}
	return changed;
}
