// SPDX-License-Identifier: BSD-3-Clause
/* config_resolve.c - the configuration as a whole: defaults and rules
 *
 * Defaults that depend on the machine are filled in here, after all keys are
 * known, since one may bound another: half of memory is no sensible budget
 * for a device of 64 MiB.
 */
#include "config_parse.h"

#include <errno.h>
#include <stddef.h>
#include <string.h>

#include "thinswap.h"
#include "util/size.h"

#define SIZE_PER_MEMORY 4

/* What the budget leaves a small machine: server, standby and daemon, 70 MiB,
 * and as much again for programs and the kernel. Guests of 256 MiB (205 usable)
 * with half of memory as the budget had 6 MiB left for programs when it was
 * used up, and killed them.
 */
#define SPARED_BYTES (160ull << 20)

static unsigned index_of(size_t offset)
{
	const struct ts_config_key *keys;
	unsigned n, i;

	keys = ts_config_keys(&n);
	for (i = 0; i + 1 < n && keys[i].offset != offset; i++)
		;
	return i;
}

#define KEY(path) index_of(offsetof(struct ts_config, path))

static bool given(const struct ts_config_parser *parser, unsigned i)
{
	return parser->config.given >> i & 1;
}

static uint64_t whole_slots(uint64_t bytes)
{
	return bytes & ~(uint64_t)(TS_SLOT_BYTES - 1);
}

/* Half of memory; of a small machine what is left beside the above, and a quarter
 * at least.
 */
static uint64_t default_budget(uint64_t memory)
{
	uint64_t budget = memory / 4;

	if (memory > SPARED_BYTES && memory - SPARED_BYTES > budget)
		budget = memory - SPARED_BYTES;
	if (budget > memory / 2)
		budget = memory / 2;
	return budget < TS_RAM_MAX_BYTES ? budget : TS_RAM_MAX_BYTES;
}

static void resolve_defaults(struct ts_config_parser *parser)
{
	struct ts_config *config = &parser->config;
	uint64_t memory = parser->machine->memory_bytes;
	uint64_t budget = default_budget(memory);

	if (!given(parser, KEY(device.size_bytes)))
		config->device.size_bytes =
			memory < TS_MAX_SIZE_BYTES / SIZE_PER_MEMORY
				? memory * SIZE_PER_MEMORY
				: TS_MAX_SIZE_BYTES;
	config->device.size_bytes = whole_slots(config->device.size_bytes);
	if (!given(parser, KEY(ram.budget_bytes)))
		config->ram.budget_bytes = budget < config->device.size_bytes
						   ? budget
						   : config->device.size_bytes;
	config->ram.budget_bytes = whole_slots(config->ram.budget_bytes);
	if (config->device.nbd_index != TS_CONFIG_DEVICE_AUTO &&
	    config->device.attach == TS_ATTACH_AUTO)
		config->device.attach = TS_ATTACH_NBD;
}

/* The two figures that are taken for each other: what can be stored, and
 * what storing it may cost.
 */
static int check_budget(struct ts_config_parser *parser)
{
	const struct ts_config *config = &parser->config;
	char budget[TS_SIZE_TEXT_BYTES], other[TS_SIZE_TEXT_BYTES];
	unsigned i = KEY(ram.budget_bytes);

	if (!given(parser, i))
		return 0;
	ts_size_format(config->ram.budget_bytes, budget, sizeof(budget));
	if (config->ram.budget_bytes > parser->machine->memory_bytes)
		return ts_config_fail_key(
			parser, i, -EINVAL,
			"the RAM cap, %s, is more than this machine's memory, "
			"%s",
			budget,
			ts_size_format(parser->machine->memory_bytes, other,
				       sizeof(other)));
	if (config->ram.budget_bytes > config->device.size_bytes)
		return ts_config_fail_key(
			parser, i, -EINVAL,
			"the RAM cap, %s, is more than the virtual size, "
			"%s: device.size is what can be stored, ram.budget "
			"what storing it may cost",
			budget,
			ts_size_format(config->device.size_bytes, other,
				       sizeof(other)));
	return 0;
}

static int check_rules(struct ts_config_parser *parser)
{
	const struct ts_config *config = &parser->config;
	int r;

	r = check_budget(parser);
	if (r < 0)
		return r;
	if (config->device.nbd_index != TS_CONFIG_DEVICE_AUTO &&
	    config->device.attach != TS_ATTACH_NBD)
		return ts_config_fail_key(
			parser, KEY(device.attach), -EINVAL,
			"device.path names an nbd device, which only \"auto\" "
			"and \"nbd\" attach");
	if (config->tuning.dead_conn_timeout_s < config->tuning.timeout_s) {
		unsigned i = KEY(tuning.dead_conn_timeout_s);

		return ts_config_fail_key(
			parser, given(parser, i) ? i : KEY(tuning.timeout_s),
			-EINVAL,
			"dead-conn-timeout, %d s, must not be shorter than "
			"timeout, %d s",
			config->tuning.dead_conn_timeout_s,
			config->tuning.timeout_s);
	}
	if (config->tuning.low_water_percent >=
	    config->tuning.high_water_percent) {
		unsigned i = KEY(tuning.low_water_percent);

		return ts_config_fail_key(
			parser,
			given(parser, i) ? i : KEY(tuning.high_water_percent),
			-EINVAL, "low-water, %d, must be below high-water, %d",
			config->tuning.low_water_percent,
			config->tuning.high_water_percent);
	}
	return 0;
}

int ts_config_resolve(struct ts_config_parser *parser)
{
	resolve_defaults(parser);
	return check_rules(parser);
}
