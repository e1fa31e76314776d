// SPDX-License-Identifier: BSD-3-Clause
/* config_value.c - one TOML value into one field, by the type of its key */
#include "config_parse.h"

#include <ctype.h>
#include <errno.h>
#include <grp.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "device_name.h"
#include "util/size.h"

static const char *const type_names[] = {
	[TS_TOML_BOOL] = "a boolean", [TS_TOML_INT] = "an integer",
	[TS_TOML_TEXT] = "a text",    [TS_TOML_FLOAT] = "a float",
	[TS_TOML_DATE] = "a date",    [TS_TOML_ARRAY] = "an array",
	[TS_TOML_TABLE] = "a table",
};

/* Read and write for the owner are a must; the group may get either. */
#define MODE_NEEDED  0600
#define MODE_ALLOWED 0660

static void *field_of(struct ts_config_parser *parser, unsigned i)
{
	unsigned n;

	return (char *)&parser->config + ts_config_keys(&n)[i].offset;
}

static void describe(const struct ts_toml_value *value, char *buf,
		     size_t buf_bytes)
{
	char text[100];

	switch (value->type) {
	case TS_TOML_BOOL:
		snprintf(buf, buf_bytes, "%s",
			 value->boolean ? "true" : "false");
		return;
	case TS_TOML_INT:
		snprintf(buf, buf_bytes, "%" PRId64, value->integer);
		return;
	case TS_TOML_TEXT:
		ts_config_quote(value->text, value->text_bytes, text,
				sizeof(text));
		snprintf(buf, buf_bytes, "\"%s\"", text);
		return;
	case TS_TOML_FLOAT:
		snprintf(buf, buf_bytes, "%g", value->number);
		return;
	case TS_TOML_DATE:
	case TS_TOML_ARRAY:
	case TS_TOML_TABLE:
		snprintf(buf, buf_bytes, "(%s)", type_names[value->type]);
		return;
	}
}

static int wrong_type(struct ts_config_parser *parser, unsigned i,
		      const struct ts_toml_value *value)
{
	return ts_config_fail_key(parser, i, -EINVAL, "wrong type, %s",
				  type_names[value->type]);
}

static int take_int(struct ts_config_parser *parser, unsigned i,
		    const struct ts_config_key *key, int64_t integer)
{
	if (integer < key->min || integer > key->max)
		return ts_config_fail_key(parser, i, -EINVAL, "out of range");
	*(int *)field_of(parser, i) = integer;
	return 0;
}

static int take_size(struct ts_config_parser *parser, unsigned i,
		     const struct ts_config_key *key,
		     const struct ts_toml_value *value)
{
	char sentence[256];
	uint64_t bytes;
	int r;

	if (value->type == TS_TOML_INT) {
		if (value->integer < 0)
			return ts_config_fail_key(parser, i, -EINVAL,
						  "out of range");
		bytes = value->integer;
	} else {
		if (key->type == TS_KEY_SIZE_OR_PERCENT)
			r = ts_size_parse_percent(
				value->text, parser->machine->memory_bytes,
				&bytes, sentence, sizeof(sentence));
		else
			r = ts_size_parse(value->text, &bytes, sentence,
					  sizeof(sentence));
		if (r < 0)
			return ts_config_fail_key(parser, i, -EINVAL, "%s",
						  sentence);
	}
	if (bytes < (uint64_t)key->min || bytes > (uint64_t)key->max)
		return ts_config_fail_key(parser, i, -EINVAL,
					  "out of range (%" PRIu64 " bytes)",
					  bytes);
	*(uint64_t *)field_of(parser, i) = bytes;
	return 0;
}

static int take_choice(struct ts_config_parser *parser, unsigned i,
		       const struct ts_config_key *key, const char *text)
{
	for (int c = 0; key->choices[c]; c++) {
		if (strcmp(text, key->choices[c]) == 0) {
			*(int *)field_of(parser, i) = c;
			return 0;
		}
	}
	return ts_config_fail_key(parser, i, -EINVAL, "not one of the choices");
}

static int take_device(struct ts_config_parser *parser, unsigned i,
		       const char *text)
{
	char sentence[256];

	if (ts_device_name_parse(text, field_of(parser, i), sentence,
				 sizeof(sentence)) < 0)
		return ts_config_fail_key(parser, i, -EINVAL, "%s", sentence);
	return 0;
}

/* A text of octal digits, or an integer written 0o600. A plain 600 would be
 * 01130 and is a mistake for certain.
 */
static int take_mode(struct ts_config_parser *parser, unsigned i,
		     const struct ts_toml_value *value)
{
	unsigned long mode;
	char *end;

	if (value->type == TS_TOML_INT) {
		if (!value->octal)
			return ts_config_fail_key(parser, i, -EINVAL,
						  "a decimal number");
		mode = value->integer;
	} else {
		mode = strtoul(value->text, &end, 8);
		if (!isdigit((unsigned char)value->text[0]) || *end != '\0')
			return ts_config_fail_key(parser, i, -EINVAL,
						  "not octal digits");
	}
	if ((mode & MODE_NEEDED) != MODE_NEEDED || mode & ~MODE_ALLOWED)
		return ts_config_fail_key(parser, i, -EINVAL,
					  "not a mode for this socket: who "
					  "can open it can read all swap");
	*(int *)field_of(parser, i) = mode;
	return 0;
}

static int take_group(struct ts_config_parser *parser, unsigned i,
		      const char *text)
{
	struct ts_config *config = &parser->config;
	gid_t gid = TS_CONFIG_GROUP_KEEP;
	struct group *group;
	unsigned long number;
	char *end;

	if (*text) {
		errno = 0;
		number = strtoul(text, &end, 10);
		group = getgrnam(text);
		if (group)
			gid = group->gr_gid;
		else if (isdigit((unsigned char)*text) && *end == '\0' &&
			 errno == 0 && number < TS_CONFIG_GROUP_KEEP)
			gid = number;
		else
			return ts_config_fail_key(parser, i, -EINVAL,
						  "no such group");
	}
	if (strlen(text) >= sizeof(config->security.socket_group))
		return ts_config_fail_key(parser, i, -EINVAL, "too long");
	strcpy(config->security.socket_group, text);
	config->security.socket_gid = gid;
	return 0;
}

static int take_path(struct ts_config_parser *parser, unsigned i,
		     const struct ts_config_key *key, const char *text)
{
	if (strlen(text) >= TS_CONFIG_PATH_BYTES)
		return ts_config_fail_key(parser, i, -EINVAL,
					  "longer than %d bytes",
					  TS_CONFIG_PATH_BYTES - 1);
	if (key->type == TS_KEY_PROGRAM && *text == '\0')
		return ts_config_fail_key(parser, i, -EINVAL, "empty");
	/* The daemon's working directory is /, whatever the reader's was. */
	if (*text && *text != '/' &&
	    (key->type == TS_KEY_FILE || strchr(text, '/')))
		return ts_config_fail_key(parser, i, -EINVAL,
					  "a relative path");
	strcpy(field_of(parser, i), text);
	return 0;
}

int ts_config_take(struct ts_config_parser *parser, unsigned i,
		   const struct ts_toml_value *value)
{
	const struct ts_config_key *key;
	bool is_text = value->type == TS_TOML_TEXT;
	bool is_int = value->type == TS_TOML_INT;
	unsigned n;

	key = &ts_config_keys(&n)[i];
	describe(value, parser->given[i], sizeof(parser->given[i]));
	if (is_text && strlen(value->text) != value->text_bytes)
		return ts_config_fail_key(parser, i, -EINVAL,
					  "a zero byte in a text");
	switch (key->type) {
	case TS_KEY_BOOL:
		if (value->type != TS_TOML_BOOL)
			return wrong_type(parser, i, value);
		*(bool *)field_of(parser, i) = value->boolean;
		return 0;
	case TS_KEY_INT:
		if (!is_int)
			return wrong_type(parser, i, value);
		return take_int(parser, i, key, value->integer);
	case TS_KEY_SIZE:
	case TS_KEY_SIZE_OR_PERCENT:
		if (!is_int && !is_text)
			return wrong_type(parser, i, value);
		return take_size(parser, i, key, value);
	case TS_KEY_MODE:
		if (!is_int && !is_text)
			return wrong_type(parser, i, value);
		return take_mode(parser, i, value);
	case TS_KEY_CHOICE:
	case TS_KEY_DEVICE:
	case TS_KEY_GROUP:
	case TS_KEY_FILE:
	case TS_KEY_PROGRAM:
		break;
	}
	if (!is_text)
		return wrong_type(parser, i, value);
	if (key->type == TS_KEY_CHOICE)
		return take_choice(parser, i, key, value->text);
	if (key->type == TS_KEY_DEVICE)
		return take_device(parser, i, value->text);
	if (key->type == TS_KEY_GROUP)
		return take_group(parser, i, value->text);
	return take_path(parser, i, key, value->text);
}

/* Read a default as it would stand in a file: true, 100, "text". */
static void literal(const char *text, char *buf, size_t buf_bytes,
		    struct ts_toml_value *ret)
{
	size_t len = strlen(text);

	memset(ret, 0, sizeof(*ret));
	if (*text == '"') {
		snprintf(buf, buf_bytes, "%.*s", (int)len - 2, text + 1);
		ret->type = TS_TOML_TEXT;
		ret->text = buf;
		ret->text_bytes = strlen(buf);
	} else if (isdigit((unsigned char)*text)) {
		ret->type = TS_TOML_INT;
		ret->integer = strtoll(text, NULL, 10);
	} else {
		ret->type = TS_TOML_BOOL;
		ret->boolean = strcmp(text, "true") == 0;
	}
}

void ts_config_take_defaults(struct ts_config_parser *parser)
{
	const struct ts_config_key *keys;
	char buf[TS_CONFIG_PATH_BYTES];
	struct ts_toml_value value;
	unsigned n;

	keys = ts_config_keys(&n);
	for (unsigned i = 0; i < n; i++) {
		if (keys[i].default_text[0] == '(')
			continue;
		literal(keys[i].default_text, buf, sizeof(buf), &value);
		if (ts_config_take(parser, i, &value) < 0)
			abort(); /* a row of the table contradicts itself */
	}
}
