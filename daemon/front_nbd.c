// SPDX-License-Identifier: BSD-3-Clause
/* front_nbd.c - nbdkit with the thinswap plugin
 *
 * nbdkit takes a socket by LISTEN_FDS and then stays in the foreground. Its
 * own --swap is not used: it locks 192 MiB of idle buffers, and does so before
 * the plugin has started; the plugin locks by itself, on fault.
 */
#include "front.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "memory.h"
#include "nbdclient.h"

#define PLUGIN_FILE "nbdkit-thinswap-plugin.so"
#define SOCKET_NAME "socket"

static int nbd_prepare(const struct ts_config *config,
		       const struct ts_runtime *rt, int *ret_fd,
		       struct ts_error *error)
{
	return ts_runtime_listen(rt, SOCKET_NAME, config->security.socket_mode,
				 config->security.socket_gid, ret_fd, error);
}

static void nbd_tidy(const struct ts_runtime *rt, int fd)
{
	ts_runtime_forget(rt, SOCKET_NAME);
	close(fd);
}

/* Another plugin of nbdkit (memory, for comparison) knows only a size. */
static bool is_ours(const char *plugin)
{
	const char *base = strrchr(plugin, '/');

	base = base ? base + 1 : plugin;
	return strcmp(base, "thinswap") == 0 || strcmp(base, PLUGIN_FILE) == 0;
}

static void nbd_command(const struct ts_config *config,
			const struct ts_runtime *rt, struct ts_args *args)
{
	const char *plugin = config->tuning.plugin, *beside;
	char path[PATH_MAX], memory[TS_RUNTIME_PATH_BYTES];

	beside = ts_front_beside("../plugin/" PLUGIN_FILE, path, sizeof(path));
	if (strcmp(plugin, "thinswap") == 0 && beside)
		plugin = beside;
	ts_args_add(args, "%s", config->tuning.nbdkit);
	ts_args_add(args, "--foreground");
	ts_args_add(args, "--threads");
	ts_args_add(args, "%d", config->tuning.threads);
	ts_args_add(args, "%s", plugin);
	ts_args_add(args, "size=%" PRIu64, config->device.size_bytes);
	if (!is_ours(plugin))
		return;
	ts_args_add_engine(args, config, rt);
	ts_args_add(args, "keep=%s",
		    ts_runtime_path(rt, TS_MEMORY_FILE, memory));
}

struct connection {
	struct nbd_handle *nbd;
	int64_t cookie; /* of the read under way */
};

static int probe_open(const char *path, const struct ts_child *server,
		      int timeout_ms, void **ret, struct ts_error *error)
{
	struct connection *connection = calloc(1, sizeof(*connection));
	int err;

	if (!connection)
		return ts_fail(error, -ENOMEM, "probe: %m");
	err = ts_nbd_open(path, server, TS_NBD_FOR_PROBE, timeout_ms,
			  &connection->nbd, error);
	if (err == 0)
		*ret = connection;
	else
		free(connection);
	return err;
}

static int probe_warm(void *opaque, pid_t server_pid, struct ts_error *error)
{
	struct connection *connection = opaque;
	struct ts_nbd_warmth warmth;

	return ts_nbd_warm(connection->nbd, server_pid, false, &warmth, error);
}

static int probe_read_start(void *opaque, struct ts_error *error)
{
	struct connection *connection = opaque;

	return ts_nbd_read_start(connection->nbd, 0, &connection->cookie,
				 error);
}

static int probe_read_wait(void *opaque,
			   const struct ts_nbd_patience *patience,
			   struct ts_error *error)
{
	struct connection *connection = opaque;

	return ts_nbd_wait(connection->nbd, connection->cookie, patience,
			   error);
}

static int probe_allocated(void *opaque,
			   const struct ts_nbd_patience *patience,
			   uint64_t *ret_bytes, struct ts_error *error)
{
	struct connection *connection = opaque;

	return ts_nbd_allocated(connection->nbd, patience, ret_bytes, error);
}

static void probe_close(void *opaque)
{
	struct connection *connection = opaque;

	nbd_close(connection->nbd);
	free(connection);
}

static const struct ts_probe_ops probe = {
	.open = probe_open,
	.warm = probe_warm,
	.read_start = probe_read_start,
	.read_wait = probe_read_wait,
	.allocated = probe_allocated,
	.close = probe_close,
};

const struct ts_front_ops ts_front_nbd = {
	.path = SOCKET_NAME,
	.has_socket = true,
	.prepare = nbd_prepare,
	.tidy = nbd_tidy,
	.command = nbd_command,
	.probe = &probe,
};
