/* SPDX-License-Identifier: BSD-3-Clause */
/* config_keys.h - every key of thinswap.toml, declared once
 *
 * Parsing, range checks, messages, hints, the echo at start, the reload
 * report, and the tests of the sample file and the man page all read this
 * table. To add a key: a field in struct ts_config, a row in config_keys.c, a
 * paragraph in man/thinswap.toml.5.pod, a line in daemon/thinswap.toml.
 */
#ifndef TS_DAEMON_CONFIG_KEYS_H
#define TS_DAEMON_CONFIG_KEYS_H

#include "config.h"

enum ts_key_type {
	TS_KEY_BOOL,            /* bool */
	TS_KEY_INT,             /* int, @min..@max */
	TS_KEY_CHOICE,          /* int, the index into @choices */
	TS_KEY_SIZE,            /* uint64_t, an integer or a text; @min..@max */
	TS_KEY_SIZE_OR_PERCENT, /* the same, or "N%" of memory */
	TS_KEY_DEVICE,          /* int, see device_name.h */
	TS_KEY_MODE,            /* int, permission bits */
	TS_KEY_GROUP,   /* char[TS_CONFIG_NAME_BYTES], resolved to a gid */
	TS_KEY_FILE,    /* char[TS_CONFIG_PATH_BYTES], absolute */
	TS_KEY_PROGRAM, /* char[TS_CONFIG_PATH_BYTES], absolute or a name */
};

struct ts_config_key {
	const char *section, *name;
	enum ts_key_type type;
	bool live;                  /* a running daemon can take a new value */
	size_t offset;              /* of the field in struct ts_config */
	int64_t min, max;           /* of integers and sizes, both allowed */
	const char *const *choices; /* ends in NULL */
	/* As it would be written in the file, or in words (in parentheses)
	 * where it depends on the machine; resolved in config_resolve.c.
	 */
	const char *default_text;
	const char *also; /* wrong names people use, separated by blanks */
	const char *help; /* one line */
};

const struct ts_config_key *ts_config_keys(unsigned *ret_n);

/* -1 when there is none. */
int ts_config_key_find(const char *section, const char *name);

bool ts_config_section_known(const char *section);

/* The known name that is nearest to a misspelled one, as "section.key".
 * Keys of @section come first (NULL: outside of any). Returns NULL when
 * nothing is near.
 */
const struct ts_config_key *ts_config_key_nearest(const char *section,
						  const char *name);
const char *ts_config_section_nearest(const char *section);

/* What may be written for @key, for messages: "an integer from 0 to 32767". */
void ts_config_key_allowed(const struct ts_config_key *key, char *buf,
			   size_t buf_bytes);

/* The value of @key in @config as a text, as one would write it; sizes with
 * their exact bytes.
 */
void ts_config_key_text(const struct ts_config_key *key,
			const struct ts_config *config, char *buf,
			size_t buf_bytes);

#endif
