/* SPDX-License-Identifier: BSD-3-Clause */
/* config_parse.h - what the files behind config.h share
 *
 * A parser fills its own ts_config and remembers the line of every key, so
 * that a rule between two keys can name the line to look at.
 */
#ifndef TS_DAEMON_CONFIG_PARSE_H
#define TS_DAEMON_CONFIG_PARSE_H

#include "config_keys.h"
#include "config_toml.h"

struct ts_config_parser {
	struct ts_config config;
	const struct ts_config_machine *machine;
	struct ts_config_error *err;
	unsigned lines[64]; /* of key i, 0 where not given */
	char given[64][sizeof(((struct ts_config_error *)0)->given)];
};

/* Set @err->message, put ->text together from all fields, return @code. */
__attribute__((format(printf, 3, 4))) int
ts_config_fail(struct ts_config_error *err, int code, const char *fmt, ...);

/* The same about key @i: its line, names, what was given and is allowed. */
__attribute__((format(printf, 4, 5))) int
ts_config_fail_key(struct ts_config_parser *parser, unsigned i, int code,
		   const char *fmt, ...);

/* Copy @text as far as it fits; what is not printable becomes '?'. */
void ts_config_quote(const char *text, size_t text_bytes, char *buf,
		     size_t buf_bytes);

/* Take @value for key @i. Returns 0 or -EINVAL with the error set. */
int ts_config_take(struct ts_config_parser *parser, unsigned i,
		   const struct ts_toml_value *value);

/* Give every key the value of its default_text. */
void ts_config_take_defaults(struct ts_config_parser *parser);

/* Complete what depends on the machine, and check the keys against each
 * other and against what this version serves.
 */
int ts_config_resolve(struct ts_config_parser *parser);

/* Explain what toml++ could not read. Returns -EINVAL. */
int ts_config_fail_syntax(struct ts_config_parser *parser, const char *text,
			  size_t text_bytes, const struct ts_toml_error *toml);

/* Explain a key (or with @key NULL a section) that does not exist. @section
 * is NULL outside of any. Returns -EINVAL.
 */
int ts_config_fail_unknown(struct ts_config_parser *parser, const char *section,
			   const char *key);

#endif
