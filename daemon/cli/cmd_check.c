// SPDX-License-Identifier: BSD-3-Clause
/* cmd_check.c - `thinswap check [FILE]`: judge a configuration, start nothing
 */
#include "cli/cmd_check.h"

#include <errno.h>
#include <getopt.h>
#include <jansson.h>
#include <stdio.h>
#include <string.h>

#include "cli/cli.h"
#include "cli/options.h"
#include "config_keys.h"
#include "util/size.h"

static const char head[] =
	"Check a configuration as thinswapd would and say what it comes to;\n"
	"starts and changes nothing. FILE is %s\n"
	"unless given; where that is missing, the defaults are shown.\n";

/* Returns -1 to go on, or an exit code. */
static int parse(int argc, char **argv, struct ts_config_machine *machine,
		 bool *json)
{
	struct ts_number cpus = {machine->cpus, 1, 65536};
	const struct ts_option options[] = {
		{"memory", "SIZE", "as on a machine with this much memory",
		 ts_take_size, &machine->memory_bytes},
		{"cpus", "N", "as on a machine with N processors",
		 ts_take_number, &cpus},
		{0},
	};
	char text[sizeof(head) + TS_CONFIG_PATH_BYTES];
	const struct ts_usage usage = {
		.synopsis = "[OPTION]... [FILE]",
		.head = text,
		.options = options,
		.tail = "Exit code: 0 good, 1 not good, 2 wrong usage.\n",
		.json = json,
		.most = 1,
	};
	int code;

	snprintf(text, sizeof(text), head, ts_config_default_file);
	code = ts_options_parse(argc, argv, &usage);
	machine->cpus = (unsigned)cpus.value;
	return code;
}

static json_t *value_json(const struct ts_config_key *key,
			  const struct ts_config *config)
{
	const void *field = (const char *)config + key->offset;
	char text[TS_CONFIG_PATH_BYTES + 8];

	switch (key->type) {
	case TS_KEY_BOOL:
		return json_boolean(*(const bool *)field);
	case TS_KEY_INT:
		return json_integer(*(const int *)field);
	case TS_KEY_SIZE:
	case TS_KEY_SIZE_OR_PERCENT:
		return json_integer(*(const uint64_t *)field);
	case TS_KEY_CHOICE:
	case TS_KEY_DEVICE:
	case TS_KEY_MODE:
	case TS_KEY_GROUP:
	case TS_KEY_FILE:
	case TS_KEY_PROGRAM:
		break;
	}
	/* The text stands in quotes, as in the file. */
	ts_config_key_text(key, config, text, sizeof(text));
	return json_stringn(text + 1, strlen(text) - 2);
}

static void append_line(void *opaque, const char *line)
{
	json_array_append_new(opaque, json_string(line));
}

static json_t *config_json(const struct ts_config *config)
{
	json_t *root = json_object(), *sections = json_object();
	json_t *warnings = json_array(), *section;
	const struct ts_config_key *keys;
	unsigned n;

	json_object_set_new(root, "ok", json_true());
	json_object_set_new(root, "file",
			    config->file[0] ? json_string(config->file)
					    : json_null());
	json_object_set_new(root, "memory_bytes",
			    json_integer(config->memory_bytes));
	json_object_set_new(root, "virtual_size_bytes",
			    json_integer(config->device.size_bytes));
	json_object_set_new(root, "ram_cap_bytes",
			    json_integer(config->ram.budget_bytes));
	json_object_set_new(root, "spill_cap_bytes",
			    json_integer(config->spill.path[0]
						 ? config->spill.size_bytes
						 : 0));
	keys = ts_config_keys(&n);
	for (unsigned i = 0; i < n; i++) {
		section = json_object_get(sections, keys[i].section);
		if (!section) {
			section = json_object();
			json_object_set_new(sections, keys[i].section, section);
		}
		json_object_set_new(section, keys[i].name,
				    value_json(&keys[i], config));
	}
	json_object_set_new(root, "config", sections);
	ts_config_warnings(config, append_line, warnings);
	json_object_set_new(root, "warnings", warnings);
	return root;
}

static json_t *text_or_null(const char *text)
{
	return *text ? json_string(text) : json_null();
}

static json_t *error_json(const struct ts_config_error *err)
{
	json_t *root = json_object(), *error = json_object();

	json_object_set_new(root, "ok", json_false());
	json_object_set_new(error, "file", text_or_null(err->file));
	json_object_set_new(error, "line",
			    err->line ? json_integer(err->line) : json_null());
	json_object_set_new(error, "section", text_or_null(err->section));
	json_object_set_new(error, "key", text_or_null(err->key));
	json_object_set_new(error, "given", text_or_null(err->given));
	json_object_set_new(error, "allowed", text_or_null(err->allowed));
	json_object_set_new(error, "nearest", text_or_null(err->nearest));
	json_object_set_new(error, "message", text_or_null(err->message));
	json_object_set_new(error, "text", text_or_null(err->text));
	json_object_set_new(root, "error", error);
	return root;
}

static void print_json(json_t *root)
{
	json_dumpf(root, stdout, JSON_INDENT(2));
	putchar('\n');
	json_decref(root);
}

static void print_line(void *opaque, const char *line)
{
	puts(line);
}

static void print_warning(void *opaque, const char *line)
{
	printf("warning: %s\n", line);
}

int ts_cmd_check(int argc, char **argv, bool json)
{
	struct ts_config_machine machine;
	struct ts_config_error err;
	struct ts_config config;
	int r;

	ts_config_machine_here(&machine);
	r = parse(argc, argv, &machine, &json);
	if (r >= 0)
		return r;
	r = ts_config_load_for(argv[optind], &machine, &config, &err);
	if (json) {
		print_json(r < 0 ? error_json(&err) : config_json(&config));
	} else if (r < 0) {
		fprintf(stderr, "%s\n", err.text);
	} else {
		ts_config_echo(&config, print_line, NULL);
		ts_config_warnings(&config, print_warning, NULL);
	}
	return r < 0 ? TS_EXIT_FAILED : TS_EXIT_OK;
}
