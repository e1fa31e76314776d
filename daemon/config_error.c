// SPDX-License-Identifier: BSD-3-Clause
/* config_error.c - what is wrong with a configuration, in words
 *
 * One line a mistake, so that it survives the journal in one piece:
 *
 *   FILE:LINE: [SECTION] KEY = GIVEN: what is wrong; allowed: what may be
 *   written; nearest known key: NAME in [SECTION]
 *
 * A document that is not TOML has no keys yet. To say more than "expected
 * digit, saw 'G'", its lines are read once more with a crude eye that knows
 * only headers and what stands before a '='.
 */
#include "config_parse.h"

#include <ctype.h>
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

void ts_config_quote(const char *text, size_t text_bytes, char *buf,
		     size_t buf_bytes)
{
	size_t i;

	for (i = 0; i < text_bytes && i + 1 < buf_bytes; i++)
		buf[i] = iscntrl((unsigned char)text[i]) ? '?' : text[i];
	buf[i] = '\0';
	if (text_bytes >= buf_bytes && buf_bytes > 4)
		memcpy(buf + buf_bytes - 4, "...", 4);
}

__attribute__((format(printf, 2, 3))) static void
add(struct ts_config_error *err, const char *fmt, ...)
{
	size_t used = strlen(err->text);
	va_list args;

	va_start(args, fmt);
	vsnprintf(err->text + used, sizeof(err->text) - used, fmt, args);
	va_end(args);
}

static void put_text_together(struct ts_config_error *err)
{
	const char *dot = strchr(err->nearest, '.');

	err->text[0] = '\0';
	add(err, "%s", err->file);
	if (err->line)
		add(err, ":%u", err->line);
	add(err, ":");
	if (err->section[0])
		add(err, " [%s]", err->section);
	if (err->key[0])
		add(err, " %s", err->key);
	if (err->given[0])
		add(err, err->key[0] ? " = %s" : " \"%s\"", err->given);
	if (err->section[0] || err->key[0] || err->given[0])
		add(err, ":");
	add(err, " %s", err->message);
	if (err->allowed[0])
		add(err, "; allowed: %s", err->allowed);
	if (dot)
		add(err, "; nearest known key: %s in [%.*s]", dot + 1,
		    (int)(dot - err->nearest), err->nearest);
	else if (err->nearest[0])
		add(err, "; nearest known section: [%s]", err->nearest);
}

static int fail(struct ts_config_error *err, int code, const char *fmt,
		va_list args)
{
	vsnprintf(err->message, sizeof(err->message), fmt, args);
	put_text_together(err);
	return code;
}

int ts_config_fail(struct ts_config_error *err, int code, const char *fmt, ...)
{
	va_list args;
	int r;

	va_start(args, fmt);
	r = fail(err, code, fmt, args);
	va_end(args);
	return r;
}

int ts_config_fail_key(struct ts_config_parser *parser, unsigned i, int code,
		       const char *fmt, ...)
{
	struct ts_config_error *err = parser->err;
	const struct ts_config_key *key;
	va_list args;
	unsigned n;
	int r;

	key = &ts_config_keys(&n)[i];
	err->line = parser->lines[i];
	snprintf(err->section, sizeof(err->section), "%s", key->section);
	snprintf(err->key, sizeof(err->key), "%s", key->name);
	snprintf(err->given, sizeof(err->given), "%s", parser->given[i]);
	ts_config_key_allowed(key, err->allowed, sizeof(err->allowed));
	va_start(args, fmt);
	r = fail(err, code, fmt, args);
	va_end(args);
	return r;
}

/* List the sections, or the keys of one. */
static void list_names(const char *section, char *buf, size_t buf_bytes)
{
	const struct ts_config_key *keys;
	const char *before = "";
	size_t used;
	unsigned n;

	keys = ts_config_keys(&n);
	buf[0] = '\0';
	for (unsigned i = 0; i < n; i++) {
		used = strlen(buf);
		if (section && strcmp(section, keys[i].section) == 0)
			snprintf(buf + used, buf_bytes - used, "%s%s",
				 used ? ", " : "", keys[i].name);
		else if (!section && strcmp(before, keys[i].section) != 0)
			snprintf(buf + used, buf_bytes - used, "%s[%s]",
				 used ? ", " : "", keys[i].section);
		before = keys[i].section;
	}
}

/* Fill ->nearest and ->allowed for a name that does not exist. */
static void hint(struct ts_config_error *err, const char *section,
		 const char *key)
{
	const struct ts_config_key *near;

	if (!key) {
		snprintf(err->nearest, sizeof(err->nearest), "%s",
			 ts_config_section_nearest(section) ?: "");
		list_names(NULL, err->allowed, sizeof(err->allowed));
		return;
	}
	near = ts_config_key_nearest(section, key);
	if (near)
		snprintf(err->nearest, sizeof(err->nearest), "%s.%s",
			 near->section, near->name);
	list_names(section && ts_config_section_known(section) ? section : NULL,
		   err->allowed, sizeof(err->allowed));
}

int ts_config_fail_unknown(struct ts_config_parser *parser, const char *section,
			   const char *key)
{
	hint(parser->err, section, key);
	return ts_config_fail(parser->err, -EINVAL,
			      !key      ? "unknown section"
			      : section ? "unknown key"
					: "unknown key, and outside of any "
					  "section");
}

/* What one line looks like: "[name]", or "name = rest". */
struct glimpse {
	char section[TS_CONFIG_NAME_BYTES]; /* carried on from above */
	char key[TS_CONFIG_NAME_BYTES];     /* "" where there is none */
	bool header;
	const char *rest; /* what follows "=" or is the line, trimmed */
	size_t rest_bytes;
};

static void trim(const char **start, size_t *bytes)
{
	while (*bytes && isspace((unsigned char)**start)) {
		(*start)++;
		(*bytes)--;
	}
	while (*bytes && isspace((unsigned char)(*start)[*bytes - 1]))
		(*bytes)--;
}

/* Is it a name that could stand alone before "=" or between brackets? */
static bool is_bare(const char *start, size_t bytes)
{
	for (size_t i = 0; i < bytes; i++) {
		if (!isalnum((unsigned char)start[i]) && start[i] != '-' &&
		    start[i] != '_' && start[i] != '.')
			return false;
	}
	return bytes > 0;
}

static void glimpse_line(const char *line, size_t bytes, struct glimpse *g)
{
	const char *end;
	size_t name_bytes;

	trim(&line, &bytes);
	g->key[0] = '\0';
	g->header = false;
	g->rest = line;
	g->rest_bytes = bytes;
	if (bytes && *line == '[') {
		end = memchr(line, ']', bytes);
		name_bytes = (end ? (size_t)(end - line) : bytes) - 1;
		line++;
		trim(&line, &name_bytes);
		if (is_bare(line, name_bytes)) {
			g->header = true;
			ts_config_quote(line, name_bytes, g->section,
					sizeof(g->section));
		}
		return;
	}
	end = memchr(line, '=', bytes);
	if (!end)
		return;
	name_bytes = end - line;
	trim(&line, &name_bytes);
	if (!is_bare(line, name_bytes))
		return;
	ts_config_quote(line, name_bytes, g->key, sizeof(g->key));
	g->rest_bytes -= end + 1 - g->rest;
	g->rest = end + 1;
	trim(&g->rest, &g->rest_bytes);
}

/* Look at the next line of *@text. Returns false at the end. */
static bool glimpse_next(const char **text, const char *end, struct glimpse *g)
{
	const char *eol;

	if (*text >= end)
		return false;
	eol = memchr(*text, '\n', end - *text) ?: end;
	glimpse_line(*text, eol - *text, g);
	*text = eol + 1;
	return true;
}

static void glimpse_at(const char *text, const char *end, unsigned line,
		       struct glimpse *ret)
{
	memset(ret, 0, sizeof(*ret));
	while (line-- > 0 && glimpse_next(&text, end, ret))
		;
}

/* The first line that defines the same section or key as @like. */
static unsigned glimpse_first(const char *text, const char *end,
			      const struct glimpse *like)
{
	struct glimpse g = {};

	for (unsigned line = 1; glimpse_next(&text, end, &g); line++) {
		if (g.header == like->header && (g.header || g.key[0]) &&
		    strcmp(g.section, like->section) == 0 &&
		    strcmp(g.key, like->key) == 0)
			return line;
	}
	return 0;
}

int ts_config_fail_syntax(struct ts_config_parser *parser, const char *text,
			  size_t text_bytes, const struct ts_toml_error *toml)
{
	struct ts_config_error *err = parser->err;
	const struct ts_config_key *keys;
	const char *end = text + text_bytes;
	unsigned n, first;
	struct glimpse g;
	int i;

	keys = ts_config_keys(&n);
	if (text_bytes >= 3 && memcmp(text, "\xef\xbb\xbf", 3) == 0)
		text += 3; /* a byte order mark */
	glimpse_at(text, end, toml->line, &g);
	first = glimpse_first(text, end, &g);
	err->line = toml->line;
	snprintf(err->section, sizeof(err->section), "%s", g.section);
	snprintf(err->key, sizeof(err->key), "%s", g.key);
	if (!g.header)
		ts_config_quote(g.rest, g.rest_bytes, err->given,
				sizeof(err->given));
	if (strstr(toml->message, "cannot redefine") && first &&
	    first < toml->line)
		return ts_config_fail(err, -EINVAL,
				      "given twice, first in line %u", first);
	i = ts_config_key_find(g.section, g.key);
	if (i >= 0)
		ts_config_key_allowed(&keys[i], err->allowed,
				      sizeof(err->allowed));
	else if (g.key[0])
		hint(err, g.section[0] ? g.section : NULL, g.key);
	else if (!g.header)
		snprintf(err->allowed, sizeof(err->allowed),
			 "[section], key = value, # comment");
	return ts_config_fail(err, -EINVAL, "not TOML: %s", toml->message);
}
