/* SPDX-License-Identifier: BSD-3-Clause */
/* config_toml.h - toml++ as C sees it: a document as a list of items
 *
 * An item is a section's header or a key with its value, in the order of the
 * file. Values of types that no key has (floats, arrays, dates, tables inside
 * sections) are handed on by type only; what is a mistake is the caller's to
 * say.
 */
#ifndef TS_DAEMON_CONFIG_TOML_H
#define TS_DAEMON_CONFIG_TOML_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

enum ts_toml_type {
	TS_TOML_BOOL,
	TS_TOML_INT,
	TS_TOML_TEXT,
	TS_TOML_FLOAT,
	TS_TOML_DATE,
	TS_TOML_ARRAY,
	TS_TOML_TABLE,
};

struct ts_toml_value {
	enum ts_toml_type type;
	bool boolean;
	int64_t integer;
	bool octal; /* the integer was written 0o... */
	double number;
	const char *text; /* NUL-terminated, may hold NUL bytes before */
	size_t text_bytes;
};

/* All pointers live until the callback returns. */
struct ts_toml_item {
	const char *section; /* NULL: outside of any */
	const char *key;     /* NULL: the section itself */
	unsigned line, column;
	struct ts_toml_value value;
};

struct ts_toml_error {
	unsigned line, column; /* from 1 */
	char message[256];
};

/* Return 0 to go on; anything else ends the walk and is returned by it. */
typedef int ts_toml_item_fn(void *opaque, const struct ts_toml_item *item);

/* Parse @text and call @fn for every item. Returns 0, what @fn returned,
 * -EBADMSG (not TOML; see @err) or -ENOMEM. @fn is not called for a document
 * with an error anywhere.
 */
int ts_toml_walk(const char *text, size_t text_bytes, ts_toml_item_fn *fn,
		 void *opaque, struct ts_toml_error *err);

#ifdef __cplusplus
}
#endif

#endif
