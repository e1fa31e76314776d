// SPDX-License-Identifier: BSD-3-Clause
/* config.c - /etc/thinswap.toml as a plain struct, checked and completed
 *
 * Three steps: toml++ turns the text into items in the file's order
 * (config_toml.cc), each item is taken by the type of its key
 * (config_value.c), and what is missing is completed and checked as a whole
 * (config_resolve.c). The first mistake ends it; config_error.c words it.
 */
#include "config.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "config_parse.h"

/* A configuration is a page or two. What is larger was named by mistake. */
#define FILE_BYTES_MAX (1u << 20)

const char ts_config_default_file[] = TS_CONFIG_FILE;

void ts_config_machine_here(struct ts_config_machine *ret)
{
	long pages = sysconf(_SC_PHYS_PAGES);
	cpu_set_t cpus;

	ret->memory_bytes = (uint64_t)pages * sysconf(_SC_PAGESIZE);
	/* The processors that may be used, not those that exist. */
	if (sched_getaffinity(0, sizeof(cpus), &cpus) == 0)
		ret->cpus = CPU_COUNT(&cpus);
	else
		ret->cpus = sysconf(_SC_NPROCESSORS_ONLN);
}

static void set_name(char buf[TS_CONFIG_NAME_BYTES], const char *name)
{
	ts_config_quote(name, strlen(name), buf, TS_CONFIG_NAME_BYTES);
}

static int take_item(void *opaque, const struct ts_toml_item *item)
{
	struct ts_config_parser *parser = opaque;
	struct ts_config_error *err = parser->err;
	int i;

	err->line = item->line;
	set_name(err->section, item->section ?: "");
	set_name(err->key, item->key ?: "");
	if (!item->section && item->value.type == TS_TOML_ARRAY &&
	    ts_config_section_known(item->key)) {
		/* [[device]] */
		set_name(err->section, item->key);
		err->key[0] = '\0';
		return ts_config_fail(err, -EINVAL,
				      "an array, where one section is meant; "
				      "write [%s]",
				      item->key);
	}
	if (!item->section && ts_config_section_known(item->key))
		return ts_config_fail(err, -EINVAL,
				      "a section, not a key; write [%s] on a "
				      "line of its own",
				      item->key);
	if (!item->key) {
		if (ts_config_section_known(item->section))
			return 0;
		return ts_config_fail_unknown(parser, item->section, NULL);
	}
	i = item->section ? ts_config_key_find(item->section, item->key) : -1;
	if (i < 0)
		return ts_config_fail_unknown(parser, item->section, item->key);
	parser->lines[i] = item->line;
	parser->config.given |= 1ull << i;
	return ts_config_take(parser, i, &item->value);
}

int ts_config_parse(const char *text, size_t text_bytes, const char *name,
		    const struct ts_config_machine *machine,
		    struct ts_config *ret_config, struct ts_config_error *err)
{
	struct ts_toml_error toml = {};
	struct ts_config_parser *parser;
	int r;

	memset(err, 0, sizeof(*err));
	snprintf(err->file, sizeof(err->file), "%s", name);
	parser = calloc(1, sizeof(*parser));
	if (!parser)
		return ts_config_fail(err, -ENOMEM, "out of memory");
	parser->machine = machine;
	parser->err = err;
	snprintf(parser->config.file, sizeof(parser->config.file), "%s", name);
	parser->config.memory_bytes = machine->memory_bytes;
	ts_config_take_defaults(parser);

	r = ts_toml_walk(text, text_bytes, take_item, parser, &toml);
	if (r == -EBADMSG)
		r = ts_config_fail_syntax(parser, text, text_bytes, &toml);
	else if (r == -ENOMEM)
		r = ts_config_fail(err, r, "out of memory");
	if (r == 0)
		r = ts_config_resolve(parser);
	if (r == 0)
		*ret_config = parser->config;
	free(parser);
	return r;
}

/* Read all of @path. The caller frees @ret_text. */
static int read_file(const char *path, char **ret_text, size_t *ret_bytes)
{
	size_t used = 0;
	ssize_t got;
	char *text;
	int fd, r = 0;

	text = malloc(FILE_BYTES_MAX + 1);
	if (!text)
		return -ENOMEM;
	fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY);
	if (fd < 0) {
		r = -errno;
		free(text);
		return r;
	}
	while (used <= FILE_BYTES_MAX) {
		got = read(fd, text + used, FILE_BYTES_MAX + 1 - used);
		if (got < 0 && errno == EINTR)
			continue;
		if (got < 0)
			r = -errno;
		if (got <= 0)
			break;
		used += got;
	}
	close(fd);
	if (r == 0 && used > FILE_BYTES_MAX)
		r = -EFBIG;
	if (r < 0) {
		free(text);
		return r;
	}
	*ret_text = text;
	*ret_bytes = used;
	return 0;
}

int ts_config_load_for(const char *path,
		       const struct ts_config_machine *machine,
		       struct ts_config *ret_config,
		       struct ts_config_error *err)
{
	const char *name = path ?: ts_config_default_file;
	size_t text_bytes = 0;
	char *text = NULL;
	int r;

	memset(err, 0, sizeof(*err));
	snprintf(err->file, sizeof(err->file), "%s", name);
	if (strlen(name) >= sizeof(err->file))
		return ts_config_fail(err, -ENAMETOOLONG,
				      "the path is longer than %d bytes",
				      TS_CONFIG_PATH_BYTES - 1);
	r = read_file(name, &text, &text_bytes);
	if (r == -ENOENT && !path)
		return ts_config_parse("", 0, "", machine, ret_config, err);
	if (r < 0)
		return ts_config_fail(err, r, "cannot be read: %s",
				      strerror(-r));
	r = ts_config_parse(text, text_bytes, name, machine, ret_config, err);
	free(text);
	return r;
}

int ts_config_load(const char *path, struct ts_config *ret_config,
		   struct ts_config_error *err)
{
	struct ts_config_machine machine;

	ts_config_machine_here(&machine);
	return ts_config_load_for(path, &machine, ret_config, err);
}
