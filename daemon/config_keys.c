// SPDX-License-Identifier: BSD-3-Clause
/* config_keys.c - every key of thinswap.toml, declared once
 *
 * A row names the field that it fills by its offset, so that one loop can
 * parse, print and compare all of them. The order is that of the man page.
 */
#include "config_keys.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "thinswap.h"
#include "util/nearest.h"
#include "util/size.h"

static const char *const attach_choices[] = {
	[TS_ATTACH_AUTO] = "auto",
	[TS_ATTACH_NBD] = "nbd",
	[TS_ATTACH_FUSE] = "fuse",
	[TS_ATTACH_NONE] = "none",
	NULL,
};

static const char *const realtime_choices[] = {
	[TS_REALTIME_AUTO] = "auto",
	[TS_REALTIME_ALWAYS] = "always",
	[TS_REALTIME_NEVER] = "never",
	NULL,
};

static const char *const standby_choices[] = {
	[TS_STANDBY_AUTO] = "auto",
	[TS_STANDBY_ALWAYS] = "always",
	[TS_STANDBY_NEVER] = "never",
	NULL,
};

static const char *const spent_choices[] = {"fail", "wait", NULL};

#define FIELD(path) .offset = offsetof(struct ts_config, path)
#define MIB         (1ull << 20)

/* Two or three short attributes a line read better here. */
/* clang-format off */
static const struct ts_config_key keys[] = {
	{
		.section = "device", .name = "path", .type = TS_KEY_DEVICE,
		FIELD(device.nbd_index), .default_text = "\"auto\"",
		.also = "dev device node name",
		.help = "the kernel device to use",
	},
	{
		.section = "device", .name = "size", .type = TS_KEY_SIZE,
		FIELD(device.size_bytes),
		.min = MIB, .max = TS_MAX_SIZE_BYTES,
		.default_text = "(four times memory)",
		.also = "swap-size virtual-size disksize capacity",
		.help = "virtual size: address space, not memory",
	},
	{
		.section = "device", .name = "priority", .type = TS_KEY_INT,
		FIELD(device.priority), .min = 0, .max = 32767,
		.default_text = "100", .also = "prio swap-priority pri",
		.help = "swap priority; higher is used first",
	},
	{
		.section = "device", .name = "connections",
		.type = TS_KEY_INT,
		FIELD(device.connections), .min = 1, .max = 16,
		.default_text = "1",
		.also = "sockets",
		.help = "sockets between kernel and server",
	},
	{
		.section = "device", .name = "attach", .type = TS_KEY_CHOICE,
		FIELD(device.attach), .choices = attach_choices,
		.default_text = "\"auto\"", .also = "route mode driver",
		.help = "how the store becomes a block device",
	},
	{
		.section = "ram", .name = "budget",
		.type = TS_KEY_SIZE_OR_PERCENT,
		FIELD(ram.budget_bytes),
		.min = TS_RAM_MIN_BYTES, .max = TS_RAM_MAX_BYTES,
		.live = true,
		.default_text = "(half of memory, at most the size)",
		.also = "limit ram-limit memory-limit mem-limit cap ram-cap "
			"max ram memory mem ram-budget size",
		.help = "memory for compressed pages, all overhead included",
	},
	{
		.section = "codec", .name = "level", .type = TS_KEY_INT,
		FIELD(codec.level), .min = -7, .max = 19,
		.live = true,
		.default_text = "1", .also = "compression-level zstd-level",
		.help = "zstd level",
	},
	{
		.section = "codec", .name = "dictionary",
		.type = TS_KEY_BOOL,
		FIELD(codec.dictionary), .default_text = "true",
		.also = "dict train",
		.help = "train dictionaries on what is swapped",
	},
	{
		.section = "codec", .name = "write-behind",
		.type = TS_KEY_SIZE,
		FIELD(codec.write_behind_bytes),
		.min = 0, .max = TS_WRITE_BEHIND_MAX_BYTES,
		.default_text = "\"8M\"", .also = "stage stage-size writeback",
		.help = "pages accepted before they are compressed; 0 is none",
	},
	{
		.section = "codec", .name = "workers", .type = TS_KEY_INT,
		FIELD(codec.workers), .min = 0, .max = 64,
		.default_text = "0", .also = "jobs compressors",
		.help = "threads that compress them; 0 is one a processor",
	},
	{
		.section = "spill", .name = "path", .type = TS_KEY_FILE,
		FIELD(spill.path), .default_text = "\"\"",
		.also = "file device backing-dev writeback-device disk",
		.help = "file or block device for cold pages",
	},
	{
		.section = "spill", .name = "size", .type = TS_KEY_SIZE,
		FIELD(spill.size_bytes),
		.min = 0, .max = TS_SPILL_MAX_BYTES,
		.default_text = "(that of an existing file or device)",
		.also = "limit max spill-size",
		.help = "bytes to use of it; 0 is all that is there",
	},
	{
		.section = "spill", .name = "encrypt", .type = TS_KEY_BOOL,
		FIELD(spill.encrypt), .default_text = "true",
		.also = "encryption crypt",
		.help = "seal what is spilled with a key that dies at stop",
	},
	{
		.section = "spill", .name = "write-budget",
		.type = TS_KEY_SIZE,
		FIELD(spill.write_budget_bytes),
		.min = 0, .max = TS_MAX_SIZE_BYTES,
		.live = true,
		.default_text = "0", .also = "wear write-limit daily-limit",
		.help = "bytes a day to write at most; 0 is no limit",
	},
	{
		.section = "spill", .name = "write-budget-spent",
		.type = TS_KEY_CHOICE,
		FIELD(spill.write_budget_waits), .choices = spent_choices,
		.default_text = "\"fail\"", .also = "budget-spent when-spent",
		.help = "what writes do when it is spent and memory is full",
	},
	{
		.section = "spill", .name = "force", .type = TS_KEY_BOOL,
		FIELD(spill.force), .default_text = "false",
		.also = "overwrite",
		.help = "use a device although it holds a known signature",
	},
	{
		.section = "security", .name = "socket-mode",
		.type = TS_KEY_MODE, .live = true,
		FIELD(security.socket_mode), .default_text = "\"0600\"",
		.also = "mode umask permissions",
		.help = "permissions of the NBD socket",
	},
	{
		.section = "security", .name = "socket-group",
		.type = TS_KEY_GROUP, .live = true,
		FIELD(security.socket_group), .default_text = "\"\"",
		.also = "group",
		.help = "group of the NBD socket; empty leaves it",
	},
	{
		.section = "security", .name = "strict", .type = TS_KEY_BOOL,
		FIELD(security.strict), .default_text = "false",
		.also = "hardening",
		.help = "refuse to start where a hardening step fails",
	},
	{
		.section = "tuning", .name = "swapon", .type = TS_KEY_BOOL,
		FIELD(tuning.swapon), .default_text = "true",
		.also = "enable",
		.help = "turn swap on; false leaves that to fstab",
	},
	{
		.section = "tuning", .name = "threads", .type = TS_KEY_INT,
		FIELD(tuning.threads), .min = 1, .max = 64,
		.default_text = "16", .also = "server-threads",
		.help = "threads that serve one connection",
	},
	{
		.section = "tuning", .name = "timeout", .type = TS_KEY_INT,
		FIELD(tuning.timeout_s), .min = 10, .max = 3600,
		.default_text = "60", .also = "io-timeout nbd-timeout",
		.help = "seconds the kernel waits for one request",
	},
	{
		.section = "tuning", .name = "dead-conn-timeout",
		.type = TS_KEY_INT,
		FIELD(tuning.dead_conn_timeout_s), .min = 10, .max = 86400,
		.default_text = "600", .also = "dead-timeout reconnect-timeout",
		.help = "seconds the kernel waits for a new server",
	},
	{
		.section = "tuning", .name = "attach-timeout",
		.type = TS_KEY_INT,
		FIELD(tuning.attach_timeout_s), .min = 1, .max = 300,
		.default_text = "15", .also = "start-timeout",
		.help = "seconds to wait for the device while attaching",
	},
	{
		.section = "tuning", .name = "realtime",
		.type = TS_KEY_CHOICE,
		FIELD(tuning.realtime), .choices = realtime_choices,
		.default_text = "\"auto\"", .also = "rt sched-rr",
		.help = "SCHED_RR for the serving threads",
	},
	{
		.section = "tuning", .name = "standby",
		.type = TS_KEY_CHOICE,
		FIELD(tuning.standby), .choices = standby_choices,
		.default_text = "\"auto\"", .also = "spare successor",
		.help = "a second server, ready to take over",
	},
	{
		.section = "tuning", .name = "high-water",
		.type = TS_KEY_INT,
		FIELD(tuning.high_water_percent), .min = 10, .max = 99,
		.live = true,
		.default_text = "95", .also = "high-watermark high",
		.help = "percent of the budget at which spilling begins",
	},
	{
		.section = "tuning", .name = "low-water",
		.type = TS_KEY_INT,
		FIELD(tuning.low_water_percent), .min = 5, .max = 98,
		.live = true,
		.default_text = "90", .also = "low-watermark low",
		.help = "percent of the budget at which spilling ends",
	},
	{
		.section = "tuning", .name = "nbdkit",
		.type = TS_KEY_PROGRAM,
		FIELD(tuning.nbdkit), .default_text = "\"nbdkit\"",
		.help = "the server",
	},
	{
		.section = "tuning", .name = "plugin",
		.type = TS_KEY_PROGRAM,
		FIELD(tuning.plugin), .default_text = "\"thinswap\"",
		.help = "the plugin, by name or path",
	},
	{
		.section = "tuning", .name = "fuse",
		.type = TS_KEY_PROGRAM,
		FIELD(tuning.fuse), .default_text = "\"thinswap-fuse\"",
		.help = "the server of attach = \"fuse\"",
	},
	{
		.section = "tuning", .name = "mkswap",
		.type = TS_KEY_PROGRAM,
		FIELD(tuning.mkswap), .default_text = "\"mkswap\"",
		.help = "writes the swap header",
	},
	{
		.section = "tuning", .name = "swapon-program",
		.type = TS_KEY_PROGRAM,
		FIELD(tuning.swapon_program), .default_text = "\"swapon\"",
		.help = "turns swap on",
	},
	{
		.section = "tuning", .name = "swapoff-program",
		.type = TS_KEY_PROGRAM,
		FIELD(tuning.swapoff_program), .default_text = "\"swapoff\"",
		.help = "turns swap off",
	},
	{
		.section = "tuning", .name = "modprobe",
		.type = TS_KEY_PROGRAM,
		FIELD(tuning.modprobe), .default_text = "\"modprobe\"",
		.help = "loads the nbd module",
	},
};
/* clang-format on */

#define N_KEYS (sizeof(keys) / sizeof(*keys))
_Static_assert(N_KEYS <= 64, "ts_config.given has a bit for every key");

const struct ts_config_key *ts_config_keys(unsigned *ret_n)
{
	*ret_n = N_KEYS;
	return keys;
}

int ts_config_key_find(const char *section, const char *name)
{
	for (unsigned i = 0; i < N_KEYS; i++) {
		if (strcmp(keys[i].section, section) == 0 &&
		    strcmp(keys[i].name, name) == 0)
			return i;
	}
	return -1;
}

bool ts_config_section_known(const char *section)
{
	for (unsigned i = 0; i < N_KEYS; i++) {
		if (strcmp(keys[i].section, section) == 0)
			return true;
	}
	return false;
}

/* The distance of @word from @key's name, its full name, or one of the other
 * names that people try.
 */
static unsigned key_distance(const struct ts_config_key *key, const char *word)
{
	char name[TS_CONFIG_NAME_BYTES];
	unsigned distance, best;
	const char *p = key->also;
	int len;

	best = ts_edit_distance(word, key->name);
	snprintf(name, sizeof(name), "%s-%s", key->section, key->name);
	distance = ts_edit_distance(word, name);
	if (distance < best)
		best = distance;
	while (p && *p) {
		len = strcspn(p, " ");
		snprintf(name, sizeof(name), "%.*s", len, p);
		/* An alias is a guess already: it must win clearly. */
		distance = ts_edit_distance(word, name) + 1;
		if (distance < best)
			best = distance;
		p += len;
		p += strspn(p, " ");
	}
	return best;
}

const struct ts_config_key *ts_config_key_nearest(const char *section,
						  const char *name)
{
	const struct ts_config_key *best = NULL;
	unsigned distance, best_distance = 0;

	for (int own = 1; own >= 0 && !best; own--) {
		for (unsigned i = 0; i < N_KEYS; i++) {
			if (own &&
			    (!section || strcmp(keys[i].section, section) != 0))
				continue;
			distance = key_distance(&keys[i], name);
			if (!ts_edit_is_near(name, distance))
				continue;
			if (!best || distance < best_distance) {
				best = &keys[i];
				best_distance = distance;
			}
		}
	}
	return best;
}

const char *ts_config_section_nearest(const char *section)
{
	unsigned distance, best_distance = 0;
	const char *best = NULL;

	for (unsigned i = 0; i < N_KEYS; i++) {
		distance = ts_edit_distance(section, keys[i].section);
		if (!ts_edit_is_near(section, distance))
			continue;
		if (!best || distance < best_distance) {
			best = keys[i].section;
			best_distance = distance;
		}
	}
	return best;
}

static void append(char *buf, size_t buf_bytes, const char *text)
{
	size_t used = strlen(buf);

	snprintf(buf + used, buf_bytes - used, "%s", text);
}

void ts_config_key_allowed(const struct ts_config_key *key, char *buf,
			   size_t buf_bytes)
{
	char min[TS_SIZE_TEXT_BYTES], max[TS_SIZE_TEXT_BYTES];

	switch (key->type) {
	case TS_KEY_BOOL:
		snprintf(buf, buf_bytes, "true or false");
		return;
	case TS_KEY_INT:
		snprintf(buf, buf_bytes,
			 "an integer from %" PRId64 " to %" PRId64, key->min,
			 key->max);
		return;
	case TS_KEY_CHOICE:
		snprintf(buf, buf_bytes, "one of");
		for (unsigned i = 0; key->choices[i]; i++) {
			append(buf, buf_bytes, i ? ", \"" : " \"");
			append(buf, buf_bytes, key->choices[i]);
			append(buf, buf_bytes, "\"");
		}
		return;
	case TS_KEY_SIZE:
	case TS_KEY_SIZE_OR_PERCENT:
		ts_size_format(key->min, min, sizeof(min));
		ts_size_format(key->max, max, sizeof(max));
		snprintf(buf, buf_bytes,
			 "bytes as an integer, or a size like \"4G\"%s, "
			 "from %s to %s",
			 key->type == TS_KEY_SIZE_OR_PERCENT ? " or \"25%\""
							     : "",
			 min, max);
		return;
	case TS_KEY_DEVICE:
		snprintf(buf, buf_bytes,
			 "\"auto\", or \"/dev/nbdN\" or \"nbdN\" with N from "
			 "0 to 255");
		return;
	case TS_KEY_MODE:
		snprintf(buf, buf_bytes,
			 "a text of octal digits like \"0600\": read and write "
			 "for the owner, either for the group, nothing else");
		return;
	case TS_KEY_GROUP:
		snprintf(buf, buf_bytes,
			 "the name or number of an existing group, or \"\"");
		return;
	case TS_KEY_FILE:
		snprintf(buf, buf_bytes, "an absolute path as a text");
		return;
	case TS_KEY_PROGRAM:
		snprintf(buf, buf_bytes,
			 "an absolute path or a plain name as a text");
		return;
	}
}

static void size_text(uint64_t bytes, char *buf, size_t buf_bytes)
{
	char short_text[TS_SIZE_TEXT_BYTES];

	if (bytes < 1024)
		snprintf(buf, buf_bytes, "%" PRIu64 " bytes", bytes);
	else
		snprintf(buf, buf_bytes, "%s (%" PRIu64 " bytes)",
			 ts_size_format(bytes, short_text, sizeof(short_text)),
			 bytes);
}

void ts_config_key_text(const struct ts_config_key *key,
			const struct ts_config *config, char *buf,
			size_t buf_bytes)
{
	const void *field = (const char *)config + key->offset;
	int number;

	switch (key->type) {
	case TS_KEY_BOOL:
		snprintf(buf, buf_bytes, "%s",
			 *(const bool *)field ? "true" : "false");
		return;
	case TS_KEY_INT:
		snprintf(buf, buf_bytes, "%d", *(const int *)field);
		return;
	case TS_KEY_CHOICE:
		snprintf(buf, buf_bytes, "\"%s\"",
			 key->choices[*(const int *)field]);
		return;
	case TS_KEY_SIZE:
	case TS_KEY_SIZE_OR_PERCENT:
		size_text(*(const uint64_t *)field, buf, buf_bytes);
		return;
	case TS_KEY_DEVICE:
		number = *(const int *)field;
		if (number == TS_CONFIG_DEVICE_AUTO)
			snprintf(buf, buf_bytes, "\"auto\"");
		else
			snprintf(buf, buf_bytes, "\"/dev/nbd%d\"", number);
		return;
	case TS_KEY_MODE:
		snprintf(buf, buf_bytes, "\"%04o\"", *(const int *)field);
		return;
	case TS_KEY_GROUP:
	case TS_KEY_FILE:
	case TS_KEY_PROGRAM:
		snprintf(buf, buf_bytes, "\"%s\"", (const char *)field);
		return;
	}
}
