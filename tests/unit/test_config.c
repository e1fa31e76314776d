// SPDX-License-Identifier: BSD-3-Clause
/* test_config.c - thinswap.toml: good and bad files (cases 11, 43, 44, 45) */
#include "config.h"
#include "config_keys.h"
#include "run.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define MIB (1ull << 20)
#define GIB (1ull << 30)

static const struct ts_config_machine machine = {
	.memory_bytes = 16 * GIB,
	.cpus = 8,
};

static int parse(const char *text, struct ts_config *config,
		 struct ts_config_error *err)
{
	return ts_config_parse(text, strlen(text), "test.toml", &machine,
			       config, err);
}

static void parse_good(const char *text, struct ts_config *config)
{
	struct ts_config_error err;

	ck_assert_msg(parse(text, config, &err) == 0, "%s\n%s", text, err.text);
}

START_TEST(defaults)
{
	struct ts_config config;

	parse_good("", &config);
	ck_assert_uint_eq(config.given, 0);
	ck_assert_int_eq(config.device.nbd_index, TS_CONFIG_DEVICE_AUTO);
	ck_assert_uint_eq(config.device.size_bytes, 64 * GIB);
	ck_assert_int_eq(config.device.priority, 100);
	ck_assert_int_eq(config.device.connections, 1);
	ck_assert_int_eq(config.device.attach, TS_ATTACH_AUTO);
	ck_assert_uint_eq(config.ram.budget_bytes, 8 * GIB);
	ck_assert_int_eq(config.codec.level, 1);
	ck_assert(config.codec.dictionary);
	ck_assert_str_eq(config.spill.path, "");
	ck_assert(config.spill.encrypt);
	ck_assert(!config.spill.force);
	ck_assert_uint_eq(config.spill.write_budget_bytes, 0);
	ck_assert_int_eq(config.security.socket_mode, 0600);
	ck_assert_str_eq(config.security.socket_group, "");
	ck_assert_uint_eq(config.security.socket_gid, TS_CONFIG_GROUP_KEEP);
	ck_assert(!config.security.strict);
	ck_assert(config.tuning.swapon);
	ck_assert_int_eq(config.tuning.threads, 16);
	ck_assert_int_eq(config.tuning.timeout_s, 60);
	ck_assert_int_eq(config.tuning.dead_conn_timeout_s, 600);
	ck_assert_int_eq(config.tuning.attach_timeout_s, 15);
	ck_assert_int_eq(config.tuning.realtime, TS_REALTIME_AUTO);
	ck_assert_int_gt(config.tuning.high_water_percent,
			 config.tuning.low_water_percent);
	ck_assert_str_eq(config.tuning.nbdkit, "nbdkit");
	ck_assert_str_eq(config.tuning.plugin, "thinswap");
	ck_assert_str_eq(config.tuning.mkswap, "mkswap");
	ck_assert_str_eq(config.tuning.swapon_program, "swapon");
	ck_assert_str_eq(config.tuning.swapoff_program, "swapoff");
}
END_TEST

START_TEST(every_key)
{
	struct ts_config config;

	parse_good("[device]\n"
		   "path = \"/dev/nbd7\"\n"
		   "size = \"40 GiB\"\n"
		   "priority = 32767\n"
		   "connections = 2\n"
		   "attach = \"nbd\"\n"
		   "[ram]\n"
		   "budget = \"25%\"\n"
		   "[codec]\n"
		   "level = -3\n"
		   "dictionary = false\n"
		   "[security]\n"
		   "socket-mode = \"0660\"\n"
		   "socket-group = \"root\"\n"
		   "strict = true\n"
		   "[tuning]\n"
		   "swapon = false\n"
		   "threads = 4\n"
		   "timeout = 90\n"
		   "dead-conn-timeout = 90\n"
		   "attach-timeout = 1\n"
		   "realtime = \"never\"\n"
		   "nbdkit = \"/opt/nbdkit\"\n"
		   "plugin = \"/opt/plugin.so\"\n"
		   "fuse = \"/opt/thinswap-fuse\"\n"
		   "mkswap = \"/opt/mkswap\"\n"
		   "swapon-program = \"/opt/swapon\"\n"
		   "swapoff-program = \"/opt/swapoff\"\n"
		   "modprobe = \"/bin/true\"\n",
		   &config);
	ck_assert_int_eq(config.device.nbd_index, 7);
	ck_assert_uint_eq(config.device.size_bytes, 40 * GIB);
	ck_assert_int_eq(config.device.priority, 32767);
	ck_assert_int_eq(config.device.connections, 2);
	ck_assert_int_eq(config.device.attach, TS_ATTACH_NBD);
	ck_assert_uint_eq(config.ram.budget_bytes, 4 * GIB);
	ck_assert_int_eq(config.codec.level, -3);
	ck_assert_int_eq(config.security.socket_mode, 0660);
	ck_assert_str_eq(config.security.socket_group, "root");
	ck_assert_uint_eq(config.security.socket_gid, 0);
	ck_assert(config.security.strict);
	ck_assert(!config.tuning.swapon);
	ck_assert_int_eq(config.tuning.threads, 4);
	ck_assert_int_eq(config.tuning.timeout_s, 90);
	ck_assert_int_eq(config.tuning.dead_conn_timeout_s, 90);
	ck_assert_int_eq(config.tuning.attach_timeout_s, 1);
	ck_assert_int_eq(config.tuning.realtime, TS_REALTIME_NEVER);
	ck_assert_str_eq(config.tuning.nbdkit, "/opt/nbdkit");
	ck_assert_str_eq(config.tuning.plugin, "/opt/plugin.so");
	ck_assert_str_eq(config.tuning.fuse, "/opt/thinswap-fuse");
	ck_assert_str_eq(config.tuning.mkswap, "/opt/mkswap");
	ck_assert_str_eq(config.tuning.swapon_program, "/opt/swapon");
	ck_assert_str_eq(config.tuning.swapoff_program, "/opt/swapoff");
	ck_assert_str_eq(config.tuning.modprobe, "/bin/true");
}
END_TEST

/* Forms that are right although they look unusual, and what they give. */
static const struct {
	const char *text;
	uint64_t size_bytes, budget_bytes;
} goods[] = {
	{"\xef\xbb\xbf[device]\nsize = \"8G\"\n", 8 * GIB, 8 * GIB},
	{"[device]\r\nsize = \"8G\"\r\n\r\n", 8 * GIB, 8 * GIB},
	{"\xef\xbb\xbf", 64 * GIB, 8 * GIB},
	{"\r\n", 64 * GIB, 8 * GIB},
	{"# nothing but a comment", 64 * GIB, 8 * GIB},
	{"[device]\n[ram]\n[codec]\n[spill]\n[security]\n[tuning]\n", 64 * GIB,
	 8 * GIB},
	{"device.size = \"8G\"\nram.budget = \"1G\"\n", 8 * GIB, GIB},
	{"device = { size = \"8G\" }", 8 * GIB, 8 * GIB},
	{"[device]\n\"size\" = '8G'", 8 * GIB, 8 * GIB},
	{"[device]\nsize = 1_073_741_824", GIB, GIB},
	{"[device]\nsize = 0x40000000", GIB, GIB},
	{"[device]\nsize = 1073741825", GIB, GIB}, /* whole slots */
	{"[device]\nsize = 1048576", MIB, MIB},
	{"[device]\nsize = \"8P\"", 8192 * 1024 * GIB, 8 * GIB},
	{"[ram]\nbudget = \"100%\"", 64 * GIB, 16 * GIB},
	{"[ram]\nbudget = \"16G\"", 64 * GIB, 16 * GIB},
	{"[ram]\nbudget = 8388608", 64 * GIB, 8 * MIB},
	{"[device]\nsize = \"1G\"\n[ram]\nbudget = \"1G\"", GIB, GIB},
	{"[spill]\npath = \"\"\nencrypt = true\nwrite-budget = 0\n"
	 "force = false\n[codec]\ndictionary = false\n",
	 64 * GIB, 8 * GIB},
};

START_TEST(accepts)
{
	struct ts_config config;

	parse_good(goods[_i].text, &config);
	ck_assert_msg(config.device.size_bytes == goods[_i].size_bytes,
		      "%s: %" PRIu64, goods[_i].text, config.device.size_bytes);
	ck_assert_msg(config.ram.budget_bytes == goods[_i].budget_bytes,
		      "%s: %" PRIu64, goods[_i].text, config.ram.budget_bytes);
}
END_TEST

struct bad {
	const char *text;
	unsigned line;
	const char *section, *key, *given;
	const char *allowed; /* a part of it, NULL: none */
	const char *nearest;
	const char *message; /* a part of it */
};

static const struct bad bads[] = {
	/* 43: misspelled keys and sections */
	{"ram_limt = \"1G\"\n", 1, "", "ram_limt", "", "[device], [ram]",
	 "ram.budget", "unknown key"},
	{"\n\nbudget = \"1G\"\n", 3, "", "budget", "", "[ram]", "ram.budget",
	 "outside of any section"},
	{"[spil]\npath = \"/x\"\n", 1, "spil", "", "", "[spill]", "spill",
	 "unknown section"},
	{"[Device]\n", 1, "Device", "", "", "[device]", "device",
	 "unknown section"},
	{"[zzzzzz]\n", 1, "zzzzzz", "", "", "[tuning]", "", "unknown section"},
	{"[device]\nprioritty = 5\n", 2, "device", "prioritty", "",
	 "path, size, priority, connections, attach", "device.priority",
	 "unknown key"},
	{"[device]\nprio = 5\n", 2, "device", "prio", "", "priority",
	 "device.priority", "unknown key"},
	{"[ram]\nlimit = 5\n", 2, "ram", "limit", "", "budget", "ram.budget",
	 "unknown key"},
	{"[codec]\nstrict = true\n", 2, "codec", "strict", "",
	 "level, dictionary", "security.strict", "unknown key"},
	{"[spill]\nwrite_budget = 5\n", 2, "spill", "write_budget", "",
	 "write-budget", "spill.write-budget", "unknown key"},
	{"[codec]\nqqqqqqqq = 5\n", 2, "codec", "qqqqqqqq", "", "level", "",
	 "unknown key"},
	{"device.siez = 5\n", 1, "device", "siez", "", "size", "device.size",
	 "unknown key"},
	{"[tuning]\ntimeout = 60\nthread = 5\nswapp = 1\n", 3, "tuning",
	 "thread", "", "threads", "tuning.threads", "unknown key"},
	/* 43: not TOML */
	{"!!garbage\n[device]\n", 1, "", "", "!!garbage", "key = value", "",
	 "not TOML"},
	{"\xff\xfe[\n", 1, "", "", "\xff\xfe[", NULL, "", "not TOML"},
	{"hello world\n", 1, "", "", "hello world", "key = value", "",
	 "not TOML"},
	{"[device\nsize = 1\n", 1, "device", "", "", NULL, "", "not TOML"},
	{"[device]\r\nsize = 4G\r\n", 2, "device", "size", "4G",
	 "a size like \"4G\"", "", "not TOML"},
	{"[ram]\nbudget = 50%\n", 2, "ram", "budget", "50%", "\"25%\"", "",
	 "not TOML"},
	{"[device]\nattach = nbd\n", 2, "device", "attach", "nbd",
	 "\"auto\", \"nbd\"", "", "not TOML"},
	{"[device]\nszie = 4G\n", 2, "device", "szie", "4G", "size",
	 "device.size", "not TOML"},
	{"\xef\xbb\xbf[device]\nsize = 4G\n", 2, "device", "size", "4G",
	 "a size", "", "not TOML"},
	/* 43: given twice */
	{"[device]\nsize = \"4G\"\npriority = 1\nsize = \"5G\"\n", 4, "device",
	 "size", "\"5G\"", NULL, "", "twice, first in line 2"},
	{"[device]\nsize = 5\n[ram]\n[device]\n", 4, "device", "", "", NULL, "",
	 "twice, first in line 1"},
	{"[device]\nsize = \"4G\"\n[ram]\nbudget = 1\nbudget = 2\n", 5, "ram",
	 "budget", "2", NULL, "", "twice, first in line 4"},
	/* 43: wrong types */
	{"[device]\nsize = true\n", 2, "device", "size", "true", "bytes", "",
	 "wrong type, a boolean"},
	{"[device]\nsize = 1.5\n", 2, "device", "size", "1.5", "bytes", "",
	 "wrong type, a float"},
	{"[device]\nsize = [1]\n", 2, "device", "size", "(an array)", "bytes",
	 "", "wrong type, an array"},
	{"[device.size]\na = 1\n", 1, "device", "size", "(a table)", "bytes",
	 "", "wrong type, a table"},
	{"[device]\nsize = 2026-01-01\n", 2, "device", "size", "(a date)",
	 "bytes", "", "wrong type, a date"},
	{"[device]\npriority = \"100\"\n", 2, "device", "priority", "\"100\"",
	 "an integer from 0 to 32767", "", "wrong type, a text"},
	{"[device]\npriority = 1.0\n", 2, "device", "priority", "1",
	 "an integer", "", "wrong type, a float"},
	{"[device]\npath = 0\n", 2, "device", "path", "0", "\"auto\"", "",
	 "wrong type, an integer"},
	{"[device]\nattach = true\n", 2, "device", "attach", "true", "one of",
	 "", "wrong type"},
	{"[security]\nstrict = \"yes\"\n", 2, "security", "strict", "\"yes\"",
	 "true or false", "", "wrong type, a text"},
	{"[security]\nstrict = 1\n", 2, "security", "strict", "1",
	 "true or false", "", "wrong type, an integer"},
	{"device = 5\n", 1, "", "device", "", NULL, "", "write [device]"},
	{"[[device]]\nsize = 1\n", 1, "device", "", "", NULL, "",
	 "write [device]"},
	{"[device]\nsize = \"4G\\u0000B\"\n", 2, "device", "size", "\"4G?B\"",
	 "bytes", "", "zero byte"},
	/* 45: priority */
	{"[device]\npriority = -2\n", 2, "device", "priority", "-2",
	 "an integer from 0 to 32767", "", "out of range"},
	{"[device]\npriority = -1\n", 2, "device", "priority", "-1",
	 "an integer from 0 to 32767", "", "out of range"},
	{"[device]\npriority = 32768\n", 2, "device", "priority", "32768",
	 "an integer from 0 to 32767", "", "out of range"},
	{"[device]\npriority = 4294967296\n", 2, "device", "priority",
	 "4294967296", "an integer", "", "out of range"},
	/* 45: the RAM cap */
	{"[device]\nsize = \"1G\"\n[ram]\nbudget = \"2G\"\n", 4, "ram",
	 "budget", "\"2G\"", NULL, "", "more than the virtual size, 1 GiB"},
	{"[ram]\nbudget = \"2G\"\n[device]\nsize = \"1G\"\n", 2, "ram",
	 "budget", "\"2G\"", NULL, "", "more than the virtual size, 1 GiB"},
	{"[ram]\nbudget = \"17G\"\n", 2, "ram", "budget", "\"17G\"", NULL, "",
	 "more than this machine's memory, 16 GiB"},
	{"[ram]\nbudget = \"101%\"\n", 2, "ram", "budget", "\"101%\"",
	 "\"25%\"", "", "more than 100%"},
	{"[ram]\nbudget = \"0%\"\n", 2, "ram", "budget", "\"0%\"", "from 8 MiB",
	 "", "out of range (0 bytes)"},
	{"[ram]\nbudget = 0\n", 2, "ram", "budget", "0", "from 8 MiB", "",
	 "out of range"},
	{"[ram]\nbudget = 4194303\n", 2, "ram", "budget", "4194303",
	 "from 8 MiB", "", "out of range"},
	/* 44: sizes, the rest in test_size.c */
	{"[device]\nsize = \"4GB\"\n", 2, "device", "size", "\"4GB\"", "\"4G\"",
	 "", "ambiguous"},
	{"[device]\nsize = \"50%\"\n", 2, "device", "size", "\"50%\"", "\"4G\"",
	 "", "percentage is not possible"},
	{"[device]\nsize = -1\n", 2, "device", "size", "-1", "bytes", "",
	 "out of range"},
	{"[device]\nsize = 0\n", 2, "device", "size", "0", "from 1 MiB", "",
	 "out of range"},
	{"[device]\nsize = 1048575\n", 2, "device", "size", "1048575",
	 "from 1 MiB", "", "out of range"},
	{"[device]\nsize = \"9P\"\n", 2, "device", "size", "\"9P\"", "to 8 PiB",
	 "", "out of range"},
	{"[device]\nsize = 99999999999999999999\n", 2, "device", "size",
	 "99999999999999999999", "to 8 PiB", "", "not TOML"},
	{"[device]\nsize = 1e9\n", 2, "device", "size", "1e+09", "bytes", "",
	 "wrong type, a float"},
	/* 11: devices */
	{"[device]\npath = \"/dev/sda\"\n", 2, "device", "path", "\"/dev/sda\"",
	 "\"/dev/nbdN\"", "", "not an nbd device"},
	{"[device]\npath = \"nbd9999\"\n", 2, "device", "path", "\"nbd9999\"",
	 "from 0 to 255", "", "too high a number"},
	/* the other types */
	{"[device]\nattach = \"ublk\"\n", 2, "device", "attach", "\"ublk\"",
	 "one of \"auto\", \"nbd\", \"fuse\", \"none\"", "",
	 "not one of the choices"},
	{"[device]\nconnections = 0\n", 2, "device", "connections", "0",
	 "from 1 to 16", "", "out of range"},
	{"[device]\nconnections = 17\n", 2, "device", "connections", "17",
	 "from 1 to 16", "", "out of range"},
	{"[codec]\nlevel = 20\n", 2, "codec", "level", "20", "from -7 to 19",
	 "", "out of range"},
	{"[codec]\nlevel = -8\n", 2, "codec", "level", "-8", "from -7 to 19",
	 "", "out of range"},
	{"[security]\nsocket-mode = 600\n", 2, "security", "socket-mode", "600",
	 "\"0600\"", "", "a decimal number"},
	{"[security]\nsocket-mode = 0600\n", 2, "security", "socket-mode",
	 "0600", "\"0600\"", "", "not TOML"},
	{"[security]\nsocket-mode = \"0666\"\n", 2, "security", "socket-mode",
	 "\"0666\"", "\"0600\"", "", "can read all swap"},
	{"[security]\nsocket-mode = \"0060\"\n", 2, "security", "socket-mode",
	 "\"0060\"", "\"0600\"", "", "not a mode"},
	{"[security]\nsocket-mode = 0o4600\n", 2, "security", "socket-mode",
	 "2432", "\"0600\"", "", "not a mode"},
	{"[security]\nsocket-mode = \"-600\"\n", 2, "security", "socket-mode",
	 "\"-600\"", "\"0600\"", "", "not octal digits"},
	{"[security]\nsocket-mode = \"0680\"\n", 2, "security", "socket-mode",
	 "\"0680\"", "\"0600\"", "", "not octal digits"},
	{"[security]\nsocket-mode = \"\"\n", 2, "security", "socket-mode",
	 "\"\"", "\"0600\"", "", "not octal digits"},
	{"[security]\nsocket-group = \"no-such-group-here\"\n", 2, "security",
	 "socket-group", "\"no-such-group-here\"", "an existing group", "",
	 "no such group"},
	{"[security]\nsocket-group = \"4294967295\"\n", 2, "security",
	 "socket-group", "\"4294967295\"", "an existing group", "",
	 "no such group"},
	{"[tuning]\nmkswap = \"bin/mkswap\"\n", 2, "tuning", "mkswap",
	 "\"bin/mkswap\"", "an absolute path", "", "a relative path"},
	{"[tuning]\nmkswap = \"\"\n", 2, "tuning", "mkswap", "\"\"",
	 "an absolute path", "", "empty"},
	{"[spill]\npath = \"spill.img\"\n", 2, "spill", "path", "\"spill.img\"",
	 "an absolute path", "", "a relative path"},
	/* rules between keys */
	{"[device]\npath = \"nbd0\"\nattach = \"fuse\"\n", 3, "device",
	 "attach", "\"fuse\"", NULL, "", "device.path names an nbd device"},
	{"[tuning]\ntimeout = 700\n", 2, "tuning", "timeout", "700", NULL, "",
	 "must not be shorter than"},
	{"[tuning]\ndead-conn-timeout = 30\n", 2, "tuning", "dead-conn-timeout",
	 "30", NULL, "", "must not be shorter than"},
	{"[tuning]\nlow-water = 97\n", 2, "tuning", "low-water", "97", NULL, "",
	 "must be below high-water"},
	{"[tuning]\nhigh-water = 90\n", 2, "tuning", "high-water", "90", NULL,
	 "", "must be below high-water"},
};

#define N(array) (sizeof(array) / sizeof(*(array)))

static void check_bad(const struct bad *b, int error)
{
	struct ts_config_error err;
	struct ts_config config;
	char place[64];

	memset(&config, 0x5a, sizeof(config));
	ck_assert_msg(parse(b->text, &config, &err) == error, "accepted: %s",
		      b->text);
	for (size_t i = 0; i < sizeof(config); i++)
		ck_assert_int_eq(((char *)&config)[i], 0x5a);
	ck_assert_msg(err.line == b->line, "%s\n%s", b->text, err.text);
	ck_assert_str_eq(err.file, "test.toml");
	ck_assert_str_eq(err.section, b->section);
	ck_assert_str_eq(err.key, b->key);
	ck_assert_str_eq(err.given, b->given);
	ck_assert_str_eq(err.nearest, b->nearest);
	ck_assert_msg(strstr(err.message, b->message), "%s", err.text);
	if (b->allowed)
		ck_assert_msg(strstr(err.allowed, b->allowed), "%s", err.text);
	/* The text holds all of it, in one line, uncut. */
	snprintf(place, sizeof(place), "test.toml:%u:", b->line);
	ck_assert_msg(strncmp(err.text, place, strlen(place)) == 0, "%s",
		      err.text);
	ck_assert_ptr_nonnull(strstr(err.text, err.section));
	ck_assert_ptr_nonnull(strstr(err.text, err.key));
	ck_assert_ptr_nonnull(strstr(err.text, err.given));
	ck_assert_ptr_nonnull(strstr(err.text, err.message));
	ck_assert_ptr_nonnull(strstr(err.text, err.allowed));
	ck_assert_ptr_null(strchr(err.text, '\n'));
	ck_assert_uint_lt(strlen(err.text), sizeof(err.text) - 1);
	ck_assert_uint_lt(strlen(err.allowed), sizeof(err.allowed) - 1);
}

START_TEST(refuses)
{
	check_bad(&bads[_i], -EINVAL);
}
END_TEST

START_TEST(takes_spill)
{
	struct ts_config config;

	parse_good("[spill]\npath = \"/var/spill\"\nsize = \"8G\"\n"
		   "encrypt = false\nwrite-budget = \"20G\"\n"
		   "write-budget-spent = \"wait\"\nforce = true\n"
		   "[tuning]\nhigh-water = 80\nlow-water = 70\n",
		   &config);
	ck_assert_str_eq(config.spill.path, "/var/spill");
	ck_assert_uint_eq(config.spill.size_bytes, 8 * GIB);
	ck_assert(!config.spill.encrypt);
	ck_assert_uint_eq(config.spill.write_budget_bytes, 20 * GIB);
	ck_assert_int_eq(config.spill.write_budget_waits, 1);
	ck_assert(config.spill.force);
	ck_assert_int_eq(config.tuning.high_water_percent, 80);
	ck_assert_int_eq(config.tuning.low_water_percent, 70);
}
END_TEST

/* Every one-byte damage of a good file gives an answer, never a crash; the
 * answer names a line of the file or the file parses.
 */
START_TEST(damaged_files)
{
	static const char good[] = "[device]\nsize = \"8G\"\npriority = 5\n"
				   "[ram]\nbudget = \"50%\"\n[security]\n"
				   "socket-mode = \"0600\"\n";
	static const char junk[] = "\0\n\"[]=.#x9 \xff";
	struct ts_config_error err;
	struct ts_config config;
	char text[sizeof(good)];
	unsigned refused = 0;
	int r;

	for (size_t at = 0; at + 1 < sizeof(good); at++) {
		for (size_t j = 0; j + 1 < sizeof(junk); j++) {
			memcpy(text, good, sizeof(good));
			text[at] = junk[j];
			r = ts_config_parse(text, sizeof(good) - 1, "t",
					    &machine, &config, &err);
			if (r == 0)
				continue;
			ck_assert_int_eq(r, -EINVAL);
			ck_assert_uint_ge(err.line, 1);
			ck_assert_uint_le(err.line, 8);
			refused++;
		}
		r = ts_config_parse(good, at, "t", &machine, &config, &err);
		ck_assert(r == 0 || r == -EINVAL);
	}
	ck_assert_uint_gt(refused, 100);
}
END_TEST

START_TEST(path_decides_the_route)
{
	struct ts_config config;

	parse_good("[device]\npath = \"nbd3\"\n", &config);
	ck_assert_int_eq(config.device.nbd_index, 3);
	ck_assert_int_eq(config.device.attach, TS_ATTACH_NBD);
	parse_good("[device]\nattach = \"fuse\"\n", &config);
	ck_assert_int_eq(config.device.attach, TS_ATTACH_FUSE);
}
END_TEST

START_TEST(small_machine)
{
	struct ts_config_machine small = {.memory_bytes = 384 * MIB + 123,
					  .cpus = 1};
	struct ts_config_error err;
	struct ts_config config;

	ck_assert_int_eq(ts_config_parse("", 0, "", &small, &config, &err), 0);
	ck_assert_int_eq(config.device.connections, 1);
	ck_assert_uint_eq(config.ram.budget_bytes, 192 * MIB);
	ck_assert_uint_eq(config.device.size_bytes, 4 * 384 * MIB);
	ck_assert_uint_eq(config.memory_bytes, 384 * MIB + 123);
}
END_TEST

/* What a small machine keeps for itself, whatever the budget's default (case 2).
 */
static const struct {
	uint64_t memory_bytes, budget_bytes;
} spared[] = {
	{512 * MIB, 256 * MIB}, {320 * MIB, 160 * MIB}, {300 * MIB, 140 * MIB},
	{205 * MIB, 205 * MIB / 4}, {145 * MIB, 145 * MIB / 4},
	{32 * MIB, 8 * MIB},
};

START_TEST(keeps_memory_for_programs)
{
	struct ts_config_machine small = {
		.memory_bytes = spared[_i].memory_bytes, .cpus = 1};
	struct ts_config_error err;
	struct ts_config config;

	ck_assert_int_eq(ts_config_parse("", 0, "", &small, &config, &err), 0);
	ck_assert_uint_eq(config.ram.budget_bytes,
			  spared[_i].budget_bytes / 4096 * 4096);
}
END_TEST

START_TEST(machine_here)
{
	struct ts_config_machine here;

	ts_config_machine_here(&here);
	ck_assert_uint_ge(here.cpus, 1);
	ck_assert_uint_ge(here.memory_bytes, 16 * MIB);
}
END_TEST

static void write_file(const char *path, const char *text, size_t bytes)
{
	FILE *file = fopen(path, "w");

	ck_assert_ptr_nonnull(file);
	ck_assert_uint_eq(fwrite(text, 1, bytes, file), bytes);
	ck_assert_int_eq(fclose(file), 0);
}

/* Without a name, a missing file is fine; with one it is not. */
START_TEST(no_file_at_all)
{
	struct ts_config_error err;
	struct ts_config config;

	if (access(ts_config_default_file, F_OK) == 0)
		return; /* this machine has one: nothing can be said */
	ck_assert_int_eq(ts_config_load(NULL, &config, &err), 0);
	ck_assert_str_eq(config.file, "");
	ck_assert_uint_eq(config.given, 0);
	ck_assert_uint_gt(config.device.size_bytes, config.ram.budget_bytes);
	ck_assert_int_eq(ts_config_load(ts_config_default_file, &config, &err),
			 -ENOENT);
}
END_TEST

START_TEST(files)
{
	char dir[] = "/tmp/ts-test-config.XXXXXX", path[64], big[1 << 12];
	struct ts_config_error err;
	struct ts_config config;
	FILE *file;

	ck_assert_ptr_nonnull(mkdtemp(dir));
	snprintf(path, sizeof(path), "%s/a.toml", dir);

	ck_assert_int_eq(ts_config_load(path, &config, &err), -ENOENT);
	ck_assert_ptr_nonnull(strstr(err.text, path));
	ck_assert_ptr_nonnull(strstr(err.text, "No such file"));
	ck_assert_int_eq(ts_config_load(dir, &config, &err), -EISDIR);
	ck_assert_ptr_nonnull(strstr(err.text, dir));

	write_file(path, "", 0);
	ck_assert_int_eq(ts_config_load(path, &config, &err), 0);
	ck_assert_str_eq(config.file, path);
	write_file(path, "[device]\npriority = 7\n", 22);
	ck_assert_int_eq(ts_config_load(path, &config, &err), 0);
	ck_assert_int_eq(config.device.priority, 7);

	memset(big, '\n', sizeof(big));
	file = fopen(path, "w");
	ck_assert_ptr_nonnull(file);
	for (unsigned i = 0; i < 257; i++)
		ck_assert_uint_eq(fwrite(big, 1, sizeof(big), file),
				  sizeof(big));
	ck_assert_int_eq(fclose(file), 0);
	ck_assert_int_eq(ts_config_load(path, &config, &err), -EFBIG);

	ck_assert_int_eq(unlink(path), 0);
	ck_assert_int_eq(rmdir(dir), 0);
}
END_TEST

static void collect(void *opaque, const char *line)
{
	char *all = opaque;

	ck_assert_ptr_null(strchr(line, '\n'));
	strcat(all, line);
	strcat(all, "\n");
}

START_TEST(echo)
{
	struct ts_config config;
	char all[4096] = "";

	parse_good("[device]\nsize = \"20G\"\nattach = \"none\"\n"
		   "[ram]\nbudget = \"10%\"\n",
		   &config);
	ts_config_echo(&config, collect, all);
	ck_assert_str_eq(
		all,
		"configuration: test.toml\n"
		"virtual size: 20 GiB = 21474836480 bytes (from the file)\n"
		"RAM cap: ~1.59 GiB = 1717985280 bytes (from the file)\n"
		"spill cap: 0 bytes (no spill tier)\n"
		"device.size = 20 GiB (21474836480 bytes)\n"
		"device.attach = \"none\"\n"
		"ram.budget = ~1.59 GiB (1717985280 bytes)\n");
}
END_TEST

START_TEST(warnings)
{
	struct ts_config config;
	char all[4096] = "";

	parse_good("", &config);
	ck_assert_uint_eq(ts_config_warnings(&config, collect, all), 0);
	parse_good("[ram]\nbudget = \"81%\"\n", &config);
	ck_assert_uint_eq(ts_config_warnings(&config, collect, all), 1);
	ck_assert_ptr_nonnull(strstr(all, "ram.budget is more than 80 %"));
	parse_good("[ram]\nbudget = \"80%\"\n", &config);
	ck_assert_uint_eq(ts_config_warnings(&config, collect, all), 0);
	parse_good("[device]\nsize = \"17G\"\n[ram]\nbudget = \"1G\"\n",
		   &config);
	ck_assert_uint_eq(ts_config_warnings(&config, collect, all), 1);
	ck_assert_ptr_nonnull(strstr(all, "more than 16 times ram.budget"));
	parse_good("[device]\nattach = \"fuse\"\n", &config);
	ck_assert_uint_eq(ts_config_warnings(&config, collect, all), 1);
	ck_assert_ptr_nonnull(strstr(all, "memory cgroups"));
}
END_TEST

static void collect_change(void *opaque, const char *name, const char *old_text,
			   const char *new_text, bool live)
{
	char line[1024];

	snprintf(line, sizeof(line), "%s %s -> %s %s", name, old_text, new_text,
		 live ? "live" : "restart");
	collect(opaque, line);
}

START_TEST(compare)
{
	struct ts_config old_config, new_config;
	char all[4096] = "";

	parse_good("[ram]\nbudget = \"1G\"\n", &old_config);
	parse_good("[ram]\nbudget = \"2G\"\n[codec]\nlevel = 3\n"
		   "[device]\npriority = 100\nconnections = 3\n"
		   "[security]\nsocket-mode = \"0660\"\n",
		   &new_config);
	ck_assert_uint_eq(ts_config_compare(&old_config, &new_config,
					    collect_change, all),
			  4);
	ck_assert_str_eq(all,
			 "device.connections 1 -> 3 restart\n"
			 "ram.budget 1 GiB (1073741824 bytes) -> "
			 "2 GiB (2147483648 bytes) live\n"
			 "codec.level 1 -> 3 live\n"
			 "security.socket-mode \"0600\" -> \"0660\" live\n");
	all[0] = '\0';
	ck_assert_uint_eq(ts_config_compare(&new_config, &new_config,
					    collect_change, all),
			  0);
	ck_assert_str_eq(all, "");
}
END_TEST

/* The table itself: names are found, unique, and near to themselves; what is
 * said about them fits.
 */
START_TEST(table)
{
	const struct ts_config_key *keys, *near;
	char allowed[sizeof(((struct ts_config_error *)0)->allowed)];
	unsigned n;

	keys = ts_config_keys(&n);
	ck_assert_uint_ge(n, 25);
	for (unsigned i = 0; i < n; i++) {
		ck_assert_int_eq(
			ts_config_key_find(keys[i].section, keys[i].name), i);
		ck_assert(ts_config_section_known(keys[i].section));
		near = ts_config_key_nearest(keys[i].section, keys[i].name);
		ck_assert_ptr_eq(near, &keys[i]);
		ts_config_key_allowed(&keys[i], allowed, sizeof(allowed));
		ck_assert_uint_lt(strlen(allowed), sizeof(allowed) - 1);
		ck_assert_uint_gt(strlen(keys[i].help), 5);
		ck_assert_int_le(keys[i].min, keys[i].max);
	}
	ck_assert_int_eq(ts_config_key_find("device", "budget"), -1);
	ck_assert_int_eq(ts_config_key_find("", "budget"), -1);
	ck_assert(!ts_config_section_known(""));
}
END_TEST

int main(void)
{
	TCase *tcase = tcase_create("config");

	tcase_add_test(tcase, defaults);
	tcase_add_test(tcase, every_key);
	tcase_add_loop_test(tcase, accepts, 0, N(goods));
	tcase_add_loop_test(tcase, refuses, 0, N(bads));
	tcase_add_test(tcase, takes_spill);
	tcase_add_test(tcase, damaged_files);
	tcase_add_test(tcase, path_decides_the_route);
	tcase_add_test(tcase, small_machine);
	tcase_add_loop_test(tcase, keeps_memory_for_programs, 0, N(spared));
	tcase_add_test(tcase, machine_here);
	tcase_add_test(tcase, no_file_at_all);
	tcase_add_test(tcase, files);
	tcase_add_test(tcase, echo);
	tcase_add_test(tcase, warnings);
	tcase_add_test(tcase, compare);
	tcase_add_test(tcase, table);
	return run_case(tcase);
}
