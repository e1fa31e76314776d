// SPDX-License-Identifier: BSD-3-Clause
/* cmd_status.c - `thinswap status` and `thinswap version`
 *
 * The daemon answers with JSON; the text for people is made here from the
 * same object, so that the two cannot differ.
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "build.h"
#include "cli/cli.h"
#include "cli/options.h"
#include "util/size.h"

static const char status_head[] =
	"Show the device and how it is attached, the virtual size, what is\n"
	"stored and the memory used for it, and the health table.\n";

static const char version_head[] = "Print the version of this program and, "
				   "where one runs, of thinswapd.\n";

/* Neither command has options of its own. */
static int parse(int argc, char **argv, const char *head, struct ts_cli *cli)
{
	const struct ts_usage usage = {
		.synopsis = "[OPTION]...",
		.head = head,
		.json = &cli->json,
	};

	return ts_options_parse(argc, argv, &usage);
}

static const char *text_of(const json_t *object, const char *key)
{
	const char *text = json_string_value(json_object_get(object, key));

	return text ? text : "unknown";
}

/* "1.5 GiB", or "unknown" for null. */
static const char *size_of(const json_t *object, const char *key, char *buf,
			   size_t room)
{
	const json_t *value = json_object_get(object, key);

	if (!json_is_integer(value))
		return "unknown";
	return ts_size_format(json_integer_value(value), buf, room);
}

static void print_device(const json_t *status)
{
	const json_t *device = json_object_get(status, "device");
	const json_t *swap = json_object_get(device, "swap");
	char used[TS_SIZE_TEXT_BYTES], size[TS_SIZE_TEXT_BYTES];

	if (!json_is_object(device)) {
		puts("device         none attached");
		return;
	}
	printf("device         %s, attached by %s, %" JSON_INTEGER_FORMAT
	       " connections\n",
	       text_of(device, "path"), text_of(device, "attached_by"),
	       json_integer_value(json_object_get(device, "connections")));
	if (json_is_object(swap))
		printf("swap           on, priority %" JSON_INTEGER_FORMAT
		       ", %s of %s used\n",
		       json_integer_value(json_object_get(swap, "priority")),
		       size_of(swap, "used_bytes", used, sizeof(used)),
		       size_of(swap, "size_bytes", size, sizeof(size)));
	else
		puts("swap           off");
}

static void print_store(const json_t *status)
{
	const json_t *store = json_object_get(status, "store");
	const json_t *pages = json_object_get(store, "pages_stored");
	char a[TS_SIZE_TEXT_BYTES], b[TS_SIZE_TEXT_BYTES];

	printf("virtual size   %s\n",
	       size_of(store, "virtual_size_bytes", a, sizeof(a)));
	if (json_is_integer(pages))
		printf("stored         %" JSON_INTEGER_FORMAT " pages (%s)\n",
		       json_integer_value(pages),
		       ts_size_format(json_integer_value(pages) * 4096, a,
				      sizeof(a)));
	else
		puts("stored         unknown");
	printf("memory         %s resident in the server, budget %s\n",
	       size_of(store, "server_resident_bytes", a, sizeof(a)),
	       size_of(store, "ram_budget_bytes", b, sizeof(b)));
}

static json_int_t int_of(const json_t *object, const char *key)
{
	return json_integer_value(json_object_get(object, key));
}

static void print_settings(const json_t *status)
{
	const json_t *settings = json_object_get(status, "settings");
	const json_t *tuned = json_object_get(settings, "tuned");
	char ram[TS_SIZE_TEXT_BYTES], wear[TS_SIZE_TEXT_BYTES];

	if (!json_is_object(settings))
		return;
	printf("settings       ram %s, level %" JSON_INTEGER_FORMAT,
	       size_of(settings, "ram_bytes", ram, sizeof(ram)),
	       int_of(settings, "level"));
	for (size_t i = 0; i < json_array_size(tuned); i++)
		printf("%s%s", i ? ", " : "; tuned: ",
		       json_string_value(json_array_get(tuned, i)));
	putchar('\n');
	if (json_is_object(json_object_get(status, "spill")))
		printf("               spilling begins at %" JSON_INTEGER_FORMAT
		       " %% of ram, ends at %" JSON_INTEGER_FORMAT
		       " %%, ram admission %s, write budget %s\n",
		       int_of(settings, "high_water_percent"),
		       int_of(settings, "low_water_percent"),
		       json_is_true(json_object_get(settings, "ram_admission"))
			       ? "on"
			       : "OFF",
		       int_of(settings, "write_budget_bytes")
			       ? size_of(settings, "write_budget_bytes", wear,
					 sizeof(wear))
			       : "none");
}

static void print_spill(const json_t *spill)
{
	char used[TS_SIZE_TEXT_BYTES], size[TS_SIZE_TEXT_BYTES];
	char written[TS_SIZE_TEXT_BYTES];

	if (!json_is_object(spill))
		return;
	printf("spill          %s of %s used in %s, %s written, %s%s\n",
	       size_of(spill, "used_bytes", used, sizeof(used)),
	       size_of(spill, "size_bytes", size, sizeof(size)),
	       text_of(spill, "path"),
	       size_of(spill, "written_bytes", written, sizeof(written)),
	       json_is_true(json_object_get(spill, "encrypted"))
		       ? "encrypted"
		       : "not encrypted",
	       json_is_true(json_object_get(spill, "degraded")) ? ", DEGRADED"
								: "");
}

static void print_store_warnings(const json_t *status)
{
	const json_t *all = json_object_get(status, "warnings");

	for (size_t i = 0; i < json_array_size(all); i++)
		printf("warning: %s: %s\n",
		       text_of(json_array_get(all, i), "name"),
		       text_of(json_array_get(all, i), "text"));
}

static void print_kept(const json_t *status)
{
	const json_t *memory = json_object_get(status, "kept_memory");
	const json_t *successors = json_object_get(status, "successors");
	const json_t *last = json_object_get(successors, "last_seconds");
	char size[TS_SIZE_TEXT_BYTES];

	if (json_is_object(memory))
		printf("kept memory    %s, segment %" JSON_INTEGER_FORMAT
		       ": outlives the server\n",
		       size_of(memory, "resident_bytes", size, sizeof(size)),
		       json_integer_value(json_object_get(memory, "segment")));
	else
		puts("kept memory    none: what is stored goes with the "
		     "server");
	if (json_is_object(json_object_get(status, "standby")))
		printf("standby        ready to take over, %s of its own\n",
		       size_of(json_object_get(status, "standby"), "own_bytes",
			       size, sizeof(size)));
	if (json_is_real(last))
		printf("successors     %" JSON_INTEGER_FORMAT
		       " took over from a dead server, the last in %.2f s\n",
		       json_integer_value(
			       json_object_get(successors, "taken_over")),
		       json_real_value(last));
}

static bool is_same(const json_t *a, const json_t *b, const char *key)
{
	return strcmp(text_of(a, key), text_of(b, key)) == 0;
}

/* One warning for all processes that lack the same thing for the same step. */
static void print_warning(const json_t *rows, size_t at)
{
	const json_t *row = json_array_get(rows, at), *other;
	const char *comma = "";
	size_t i;

	if (json_is_true(json_object_get(row, "had")))
		return;
	for (i = 0; i < at; i++) {
		other = json_array_get(rows, i);
		if (json_object_get(other, "missing") &&
		    is_same(row, other, "step") &&
		    is_same(row, other, "missing"))
			return; /* said there */
	}
	printf("warning: %s (", text_of(row, "step"));
	for (; i < json_array_size(rows); i++) {
		other = json_array_get(rows, i);
		if (!json_object_get(other, "missing") ||
		    !is_same(row, other, "step") ||
		    !is_same(row, other, "missing"))
			continue;
		printf("%s%s", comma, text_of(other, "process"));
		comma = ", ";
	}
	printf("): missing %s; at risk: %s\n", text_of(row, "missing"),
	       text_of(row, "at_risk"));
}

static void print_health(const json_t *status)
{
	const json_t *probe = json_object_get(status, "probe");
	const json_t *good = json_object_get(probe, "seconds_since_good");
	const json_t *rows = json_object_get(status, "hardening");

	if (json_is_real(good))
		printf("last read      %.1f s ago, took %.0f us\n",
		       json_real_value(good),
		       1e6 * json_real_value(json_object_get(
				     probe, "last_read_seconds")));
	if (json_is_string(json_object_get(probe, "error")))
		printf("read error     %s\n", text_of(probe, "error"));
	printf("\n%-9s  %-22s  %-27s  %-39s  %s\n", "process", "step", "wanted",
	       "found", "had");
	for (size_t i = 0; i < json_array_size(rows); i++) {
		const json_t *row = json_array_get(rows, i);

		printf("%-9s  %-22s  %-27s  %-39s  %s\n",
		       text_of(row, "process"), text_of(row, "step"),
		       text_of(row, "wanted"), text_of(row, "found"),
		       json_is_true(json_object_get(row, "had")) ? "yes"
								 : "NO");
	}
	for (size_t i = 0; i < json_array_size(rows); i++)
		print_warning(rows, i);
}

int ts_cmd_status(int argc, char **argv, const struct ts_cli *given)
{
	struct ts_cli cli = *given;
	json_t *status = NULL;
	int code;

	code = parse(argc, argv, status_head, &cli);
	if (code >= 0)
		return code;
	code = ts_cli_ask(&cli, json_pack("{s:s}", "command", "status"), false,
			  &status);
	if (code != TS_EXIT_OK)
		return code;
	if (cli.json)
		return ts_cli_print_json(status);
	printf("state          %s (pid %" JSON_INTEGER_FORMAT ", version %s)\n",
	       text_of(status, "state"),
	       json_integer_value(json_object_get(status, "pid")),
	       text_of(status, "version"));
	print_device(status);
	print_store(status);
	print_kept(status);
	print_spill(json_object_get(status, "spill"));
	print_settings(status);
	print_health(status);
	print_store_warnings(status);
	json_decref(status);
	return TS_EXIT_OK;
}

int ts_cmd_version(int argc, char **argv, const struct ts_cli *given)
{
	struct ts_cli cli = *given;
	json_t *status = NULL;
	int code;

	code = parse(argc, argv, version_head, &cli);
	if (code >= 0)
		return code;
	ts_cli_ask(&cli, json_pack("{s:s}", "command", "status"), true,
		   &status);
	if (cli.json) {
		json_t *running =
			status ? json_incref(json_object_get(status, "version"))
			       : json_null();

		json_decref(status);
		return ts_cli_print_json(json_pack("{s:s, s:o}", "thinswap",
						   TS_VERSION, "thinswapd",
						   running));
	}
	printf("thinswap %s\n", TS_VERSION);
	if (status)
		printf("thinswapd %s (running)\n", text_of(status, "version"));
	json_decref(status);
	return TS_EXIT_OK;
}
