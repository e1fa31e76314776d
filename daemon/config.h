/* SPDX-License-Identifier: BSD-3-Clause */
/* config.h - /etc/thinswap.toml as a plain struct, checked and completed
 *
 * Use      ts_config_load(path or NULL, &config, &error); every field is then
 *          set and usable: defaults that depend on the machine are resolved.
 *          The struct owns no memory; copy and drop it as you like.
 * Errors   One, the first in the file, complete in @err->text: file, line,
 *          key, what was given, what is allowed, the nearest known key. The
 *          other fields are for JSON. @ret_config is untouched on error.
 * Reload   load again and let ts_config_compare() say which keys differ and
 *          which of them a running daemon can take over.
 * Keys     are declared once, in config_keys.c; see config_keys.h.
 */
#ifndef TS_DAEMON_CONFIG_H
#define TS_DAEMON_CONFIG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#define TS_CONFIG_PATH_BYTES 512
#define TS_CONFIG_NAME_BYTES 64

/* device.nbd_index: the first free /dev/nbdN. */
#define TS_CONFIG_DEVICE_AUTO (-1)

/* security.socket_gid: leave the group as it is. */
#define TS_CONFIG_GROUP_KEEP ((gid_t)-1)

enum ts_config_attach {
	TS_ATTACH_AUTO, /* nbd where the kernel has it, else fuse */
	TS_ATTACH_NBD,
	TS_ATTACH_FUSE,
	TS_ATTACH_NONE, /* serve the socket only */
};

enum ts_config_standby {
	TS_STANDBY_AUTO, /* for a device that another server can be given */
	TS_STANDBY_ALWAYS,
	TS_STANDBY_NEVER,
};

enum ts_config_realtime {
	TS_REALTIME_AUTO, /* SCHED_RR where it can be had */
	TS_REALTIME_ALWAYS,
	TS_REALTIME_NEVER,
};

struct ts_config {
	char file[TS_CONFIG_PATH_BYTES]; /* "" where there was no file */
	uint64_t given; /* bit i: key i of ts_config_keys() is in the file */
	uint64_t memory_bytes; /* of the machine that defaults refer to */

	struct {
		int nbd_index; /* N of /dev/nbdN, or TS_CONFIG_DEVICE_AUTO */
		uint64_t size_bytes; /* virtual; a multiple of 4096 */
		int priority;        /* 0..32767 */
		int connections;
		int attach; /* enum ts_config_attach */
	} device;
	struct {
		uint64_t budget_bytes; /* at most memory, at most the size */
		/* What it can be tuned to; not a key. 0: for the server to
		 * say. Once set it stays, since the memory of a server that
		 * is replaced is of that size.
		 */
		uint64_t max_bytes;
	} ram;
	struct {
		int level; /* of zstd */
		bool dictionary;
		uint64_t write_behind_bytes; /* 0: none */
		int workers; /* 0: one a processor */
	} codec;
	struct {
		char path[TS_CONFIG_PATH_BYTES]; /* "": no spill tier */
		uint64_t size_bytes; /* 0: that of the file or device */
		bool encrypt;
		uint64_t write_budget_bytes; /* a day; 0: no limit */
		int write_budget_waits;      /* when it is spent: 0 fail, 1 wait */
		bool force;
	} spill;
	struct {
		int socket_mode;
		char socket_group[TS_CONFIG_NAME_BYTES]; /* "": keep */
		gid_t socket_gid; /* TS_CONFIG_GROUP_KEEP, or of the group */
		bool strict;
	} security;
	struct {
		bool swapon;   /* false: attach and mkswap, no swapon */
		int threads;   /* that nbdkit serves one connection with */
		int timeout_s; /* the kernel's, for one request */
		int dead_conn_timeout_s; /* without a server, until EIO */
		int attach_timeout_s;    /* for the device and for EBUSY */
		int realtime;            /* enum ts_config_realtime */
		int standby;             /* enum ts_config_standby */
		int high_water_percent;  /* of ram.budget */
		int low_water_percent;
		/* A path, or a name that is looked up in PATH. */
		char nbdkit[TS_CONFIG_PATH_BYTES];
		char plugin[TS_CONFIG_PATH_BYTES]; /* as nbdkit takes it */
		char fuse[TS_CONFIG_PATH_BYTES];
		char mkswap[TS_CONFIG_PATH_BYTES];
		char swapon_program[TS_CONFIG_PATH_BYTES];
		char swapoff_program[TS_CONFIG_PATH_BYTES];
		char modprobe[TS_CONFIG_PATH_BYTES];
	} tuning;
};

struct ts_config_error {
	char file[TS_CONFIG_PATH_BYTES];
	unsigned line; /* from 1; 0: not about a line */
	char section[TS_CONFIG_NAME_BYTES];
	char key[TS_CONFIG_NAME_BYTES];
	char given[128];
	char allowed[256];
	char nearest[TS_CONFIG_NAME_BYTES]; /* "section.key" or "section" */
	char message[512];                  /* what is wrong, one sentence */
	char text[1536];                    /* all of it, for people */
};

/* The machine that defaults and percentages are computed for. */
struct ts_config_machine {
	uint64_t memory_bytes;
	unsigned cpus;
};

void ts_config_machine_here(struct ts_config_machine *ret);

/* Where the configuration is, from the build option `configfile`. */
extern const char ts_config_default_file[];

/* Load @path; NULL stands for ts_config_default_file, which may be
 * missing: that gives the defaults. A @path that is given must exist.
 *
 * Returns 0 or -errno: -EINVAL for everything that is wrong in the file,
 * otherwise what open or read said. @err is complete in every case.
 */
int ts_config_load(const char *path, struct ts_config *ret_config,
		   struct ts_config_error *err);

/* The same for a machine that need not be this one. */
int ts_config_load_for(const char *path,
		       const struct ts_config_machine *machine,
		       struct ts_config *ret_config,
		       struct ts_config_error *err);

/* The same for text in memory; @name stands for the file in messages. The
 * text need not end in a NUL byte.
 */
int ts_config_parse(const char *text, size_t text_bytes, const char *name,
		    const struct ts_config_machine *machine,
		    struct ts_config *ret_config, struct ts_config_error *err);

/* Say what the configuration comes to, one line a call, without a newline:
 * virtual size, RAM cap and spill cap, each in bytes, and where each value
 * comes from. For the log at start and for `thinswap check`.
 */
typedef void ts_config_line_fn(void *opaque, const char *line);
void ts_config_echo(const struct ts_config *config, ts_config_line_fn *fn,
		    void *opaque);

/* Say what is allowed but probably not meant (a budget of nearly all memory,
 * say), one sentence a call. Returns how many there were.
 */
unsigned ts_config_warnings(const struct ts_config *config,
			    ts_config_line_fn *fn, void *opaque);

/* Call @fn for each key whose value differs. @name is "section.key", the
 * values are texts as in the echo; @live says whether a running daemon can
 * take the new value over. Returns how many differ.
 */
typedef void ts_config_change_fn(void *opaque, const char *name,
				 const char *old_text, const char *new_text,
				 bool live);
unsigned ts_config_compare(const struct ts_config *old_config,
			   const struct ts_config *new_config,
			   ts_config_change_fn *fn, void *opaque);

#endif
