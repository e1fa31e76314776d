// SPDX-License-Identifier: BSD-3-Clause
/* attach_nbd.c - the route over the kernel's nbd driver
 *
 * Connections are negotiated and warmed by libnbd and then given to the
 * kernel by netlink; the process that did so is not needed any more. The
 * kernel chooses a free index by itself under its lock, so two instances
 * never get one device. The backend identifier names the runtime directory:
 * by it a device that a dead instance left is told from anybody else's.
 *
 * Timeouts: a request that outlives its timeout makes the kernel drop a live
 * socket, so it has to exceed the slowest honest request; it also bounds the
 * stall after a server's death, since requests in flight are sent again when
 * it runs out.
 */
#include "attach.h"

#include <errno.h>
#include <linux/capability.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "log.h"
#include "nbdnl.h"
#include "stop.h"
#include "util/harden.h"

#define MAX_CONNECTIONS 16
#define CONNECT_TIMEOUT_MS 30000
#define GONE_TIMEOUT_MS 10000
#define NBD_BLOCK_BYTES 4096
#define LEAST_REQUESTS 4 /* the kernel's BLKDEV_MIN_RQ */

static int nbd_reconnect(struct ts_attach *attach, struct ts_error *error);

static int index_of(const char *device)
{
	int index;

	return sscanf(device, "/dev/nbd%d", &index) == 1 ? index : -1;
}

static bool has_sysfs(int index, const char *name)
{
	char path[64];

	snprintf(path, sizeof(path), "/sys/block/nbd%d/%s", index, name);
	return access(path, F_OK) == 0;
}

/* No more requests in flight on a connection than threads serve it. What is
 * in flight holds memory that reclaim waits for; and the kernel's scheduler
 * keeps a quarter of the requests from writes, so that there always is a
 * thread for the read that a process waits for, even while all the writes
 * wait for memory.
 */
static void limit_queue(int index, int threads)
{
	int requests = threads < LEAST_REQUESTS ? LEAST_REQUESTS : threads;
	char path[64];
	FILE *file;

	snprintf(path, sizeof(path), "/sys/block/nbd%d/queue/nr_requests",
		 index);
	file = fopen(path, "we");
	if (file)
		fprintf(file, "%d", requests);
	if (!file || fclose(file) < 0)
		ts_log(LOG_WARNING, "%s: cannot be set to %d: %m; the kernel's "
		       "default is a longer queue", path, requests);
}

static int nbd_usable(const struct ts_config *config, struct ts_error *error)
{
	const char *argv[] = { config->tuning.modprobe, "nbd", NULL };
	struct ts_error told = { .text = "" };
	int index = config->device.nbd_index;

	if (ts_nbdnl_probe() < 0) {
		ts_run(argv, 10000, &told);
		if (ts_nbdnl_probe() < 0)
			return ts_fail(error, -ENODEV,
				       "the kernel has no nbd driver (%s)",
				       told.text[0] ? told.text :
						      "module loaded, but "
						      "no netlink family");
	}
	if (!ts_harden_has_capability(CAP_SYS_ADMIN))
		return ts_fail(error, -EPERM,
			       "connecting an nbd device needs root "
			       "(CAP_SYS_ADMIN)");
	if (index >= 0 && has_sysfs(index, "pid"))
		return ts_fail(error, -EBUSY,
			       "/dev/nbd%d is connected to something else",
			       index);
	return 0;
}

static char *backend_name(const struct ts_runtime *rt, char *buf, size_t room)
{
	snprintf(buf, room, "thinswap %s", rt->dir);
	return buf;
}

static void close_all(struct nbd_handle **handles, unsigned n)
{
	for (unsigned i = 0; i < n; i++)
		nbd_close(handles[i]);
}

/* Open up to @want connections to @server at the socket @name, warm them, by reading alone unless @write, and
 * describe the export. @ret_n is what the server supports; on error nothing
 * stays open.
 */
static int open_connections(struct ts_attach *attach, const char *name,
			    const struct ts_child *server, unsigned want,
			    bool write, struct nbd_handle **ret,
			    unsigned *ret_n, struct ts_nbd_export *ret_export,
			    struct ts_error *error)
{
	char path[TS_RUNTIME_PATH_BYTES];
	unsigned n = 0;
	int err = 0;

	ts_runtime_path(attach->rt, name, path);
	while (n < want) {
		struct ts_nbd_warmth warmth;

		if (ts_stop_is_requested())
			err = ts_fail(error, -ECANCELED, "told to stop");
		else
			err = ts_nbd_open(path, server,
					  TS_NBD_FOR_KERNEL,
					  CONNECT_TIMEOUT_MS, &ret[n], error);
		if (err < 0)
			break;
		n++;
		err = ts_nbd_describe(ret[n - 1], ret_export, error);
		if (err < 0)
			break;
		err = ts_nbd_warm(ret[n - 1], server->pid, write, &warmth,
				  error);
		if (err < 0)
			break;
		if (warmth.rounds > attach->warmth.rounds)
			attach->warmth = warmth;
		if (!ret_export->multi_conn && want > 1) {
			ts_log(LOG_WARNING, "the server does not allow "
			       "several connections; one is used");
			want = 1;
		}
	}
	if (err < 0) {
		close_all(ret, n);
		return err;
	}
	*ret_n = n;
	return 0;
}

static void describe_device(struct ts_attach *attach,
			    struct nbd_handle **handles, unsigned n,
			    const struct ts_nbd_export *export, int *sockets,
			    struct ts_nbdnl_device *ret)
{
	for (unsigned i = 0; i < n; i++)
		sockets[i] = nbd_aio_get_fd(handles[i]);
	*ret = (struct ts_nbdnl_device){
		.index = attach->config->device.nbd_index,
		.sockets = sockets,
		.n_sockets = n,
		.size_bytes = export->size_bytes,
		.block_bytes = NBD_BLOCK_BYTES,
		.timeout_s = attach->config->tuning.timeout_s,
		.dead_conn_timeout_s =
			attach->config->tuning.dead_conn_timeout_s,
		.server_flags = export->flags,
	};
}

static int nbd_attach(struct ts_attach *attach, struct ts_error *error)
{
	unsigned want = attach->config->device.connections, n = 0;
	struct nbd_handle *handles[MAX_CONNECTIONS];
	char backend[TS_RUNTIME_DIR_BYTES + 16];
	int sockets[MAX_CONNECTIONS], index, err;
	struct ts_nbdnl_device device;
	struct ts_nbd_export export;

	if (want > MAX_CONNECTIONS)
		want = MAX_CONNECTIONS;
	attach->warmth = (struct ts_nbd_warmth){0};
	err = open_connections(attach, ts_front_nbd.path, attach->server, want,
			       true, handles, &n, &export, error);
	if (err < 0)
		return err;
	describe_device(attach, handles, n, &export, sockets, &device);
	device.backend = backend_name(attach->rt, backend, sizeof(backend));
	err = ts_nbdnl_connect(&device, &index, error);
	close_all(handles, n);
	if (err < 0)
		return err;

	snprintf(attach->device, sizeof(attach->device), "/dev/nbd%d", index);
	attach->size_bytes = export.size_bytes;
	attach->connections = n;
	limit_queue(index, attach->config->tuning.threads);
	err = ts_attach_note(attach, error);
	if (err < 0) {
		struct ts_error second;

		if (ts_nbdnl_disconnect(index, &second) < 0)
			ts_log(LOG_ERR, "%s", second.text);
		attach->device[0] = '\0';
	}
	return err;
}

/* Success is claimed only once the kernel has let go. */
static int disconnect(int index, struct ts_error *error)
{
	int err = ts_nbdnl_disconnect(index, error);

	if (err < 0)
		return err;
	for (int waited_ms = 0; has_sysfs(index, "pid"); waited_ms += 20) {
		if (waited_ms >= GONE_TIMEOUT_MS)
			return ts_fail(error, -EBUSY,
				       "/dev/nbd%d is still connected %d s "
				       "after the disconnect", index,
				       GONE_TIMEOUT_MS / 1000);
		usleep(20000);
	}
	return 0;
}

static int nbd_detach(struct ts_attach *attach, struct ts_error *error)
{
	int err = disconnect(index_of(attach->device), error);

	if (err == 0)
		ts_attach_forget(attach);
	return err;
}

struct ts_nbd_spare {
	struct nbd_handle *handles[MAX_CONNECTIONS];
	struct ts_nbd_export export;
	unsigned n;
};

static void nbd_drop(struct ts_attach *attach)
{
	if (!attach->spare)
		return;
	close_all(attach->spare->handles, attach->spare->n);
	free(attach->spare);
	attach->spare = NULL;
}

/* Not warmed by writing: the store is full of pages in use. */
static int nbd_prepare(struct ts_attach *attach, const char *name,
		       const struct ts_child *server, struct ts_error *error)
{
	struct ts_nbd_spare *spare = calloc(1, sizeof(*spare));
	int err;

	nbd_drop(attach);
	if (!spare)
		return ts_fail(error, -ENOMEM, "connections: %m");
	attach->warmth = (struct ts_nbd_warmth){0};
	err = open_connections(attach, name, server, attach->connections,
			       false, spare->handles, &spare->n,
			       &spare->export, error);
	if (err == 0)
		err = ts_nbdnl_prepare(error);
	attach->spare = spare;
	if (err < 0)
		nbd_drop(attach);
	return err;
}

static int nbd_hand_over(struct ts_attach *attach, struct ts_error *error)
{
	struct ts_nbd_spare *spare = attach->spare;
	char backend[TS_RUNTIME_DIR_BYTES + 16];
	struct ts_nbdnl_device device;
	int sockets[MAX_CONNECTIONS], err;

	if (!spare)
		return nbd_reconnect(attach, error);
	describe_device(attach, spare->handles, spare->n, &spare->export,
			sockets, &device);
	device.index = index_of(attach->device);
	device.backend = backend_name(attach->rt, backend, sizeof(backend));
	err = ts_nbdnl_reconfigure(&device, error);
	nbd_drop(attach);
	return err;
}

static int nbd_hasten(struct ts_attach *attach, unsigned timeout_s,
		      struct ts_error *error)
{
	char backend[TS_RUNTIME_DIR_BYTES + 16];
	struct ts_nbdnl_device device = {
		.index = index_of(attach->device),
		.timeout_s = timeout_s,
		.dead_conn_timeout_s =
			attach->config->tuning.dead_conn_timeout_s,
		.backend = backend_name(attach->rt, backend, sizeof(backend)),
	};

	return ts_nbdnl_reconfigure(&device, error);
}

static int nbd_reconnect(struct ts_attach *attach, struct ts_error *error)
{
	int err = nbd_prepare(attach, ts_front_nbd.path, attach->server,
			      error);

	return err < 0 ? err : nbd_hand_over(attach, error);
}

/* Is this device ours by its identifier? Kernels before 5.14 keep none; then
 * the note alone has to do, and it names a device that is still connected.
 */
static bool is_ours(const struct ts_runtime *rt, int index)
{
	char path[64], noted[TS_RUNTIME_DIR_BYTES + 16] = "";
	char ours[TS_RUNTIME_DIR_BYTES + 16];
	FILE *file;

	snprintf(path, sizeof(path), "/sys/block/nbd%d/backend", index);
	file = fopen(path, "re");
	if (!file)
		return true;
	if (fgets(noted, sizeof(noted), file))
		noted[strcspn(noted, "\n")] = '\0';
	fclose(file);
	return strcmp(noted, backend_name(rt, ours, sizeof(ours))) == 0;
}

static int nbd_reclaim(const struct ts_runtime *rt, const char *device,
		       struct ts_error *error)
{
	int index = index_of(device);

	if (index < 0 || !has_sysfs(index, "pid") || !is_ours(rt, index))
		return 0;
	return disconnect(index, error);
}

const struct ts_attach_ops ts_attach_nbd = {
	.name = "nbd",
	.front = &ts_front_nbd,
	.usable = nbd_usable,
	.attach = nbd_attach,
	.detach = nbd_detach,
	.reconnect = nbd_reconnect,
	.prepare = nbd_prepare,
	.hand_over = nbd_hand_over,
	.drop = nbd_drop,
	.hasten = nbd_hasten,
	.reclaim = nbd_reclaim,
};
