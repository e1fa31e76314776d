// SPDX-License-Identifier: BSD-3-Clause
/* attach.c - choosing a route, and what dead instances left
 *
 * The note is "ROUTE DEVICE CONNECTIONS SERVER". A device that a dead instance left
 * switched on as swap holds pages of live processes; a fresh, empty store
 * behind it would hand them zeros. What can be taken over is, by adopt.c; here
 * the start is refused, whatever else could be done.
 */
#include "attach.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "log.h"
#include "swaparea.h"

#define DEVICE_NOTE "device"

static const struct ts_attach_ops *const routes[] = {
	&ts_attach_nbd,
	&ts_attach_fuse,
	&ts_attach_none,
};

static const struct ts_attach_ops *route_named(const char *name)
{
	for (size_t i = 0; i < sizeof(routes) / sizeof(*routes); i++)
		if (strcmp(routes[i]->name, name) == 0)
			return routes[i];
	return NULL;
}

static int choose_auto(const struct ts_config *config,
		       const struct ts_attach_ops **ret,
		       struct ts_error *error)
{
	struct ts_error nbd, fuse;

	if (ts_attach_nbd.usable(config, &nbd) == 0) {
		*ret = &ts_attach_nbd;
		return 0;
	}
	/* A named device is a wish for that device, not for any. */
	if (config->device.nbd_index != TS_CONFIG_DEVICE_AUTO)
		return ts_fail(error, -ENODEV, "%s", nbd.text);
	if (ts_attach_fuse.usable(config, &fuse) == 0) {
		ts_log(LOG_NOTICE, "route fuse, since nbd is not usable: %s",
		       nbd.text);
		*ret = &ts_attach_fuse;
		return 0;
	}
	return ts_fail(error, -ENODEV,
		       "no way to attach a device here; nbd: %s; fuse: %s",
		       nbd.text, fuse.text);
}

int ts_attach_choose(const struct ts_config *config,
		     const struct ts_attach_ops **ret, struct ts_error *error)
{
	const struct ts_attach_ops *ops = &ts_attach_none;
	int err;

	if (config->device.attach == TS_ATTACH_AUTO)
		return choose_auto(config, ret, error);
	if (config->device.attach == TS_ATTACH_NBD)
		ops = &ts_attach_nbd;
	else if (config->device.attach == TS_ATTACH_FUSE)
		ops = &ts_attach_fuse;
	err = ops->usable(config, error);
	if (err < 0)
		return ts_fail(error, err, "attach = \"%s\" is not possible "
			       "here: %s", ops->name, error->text);
	*ret = ops;
	return 0;
}

static uint64_t size_of(const char *device)
{
	unsigned long long sectors = 0;
	char path[64];
	FILE *file;

	snprintf(path, sizeof(path), "/sys/block/%.32s/size",
		 device + strlen("/dev/"));
	file = fopen(path, "re");
	if (!file)
		return 0;
	if (fscanf(file, "%llu", &sectors) != 1)
		sectors = 0;
	fclose(file);
	return sectors * 512;
}

int ts_attach_find_swap(const struct ts_runtime *rt, struct ts_attach *ret)
{
	char note[64], route[16], device[TS_DEVICE_BYTES];
	const struct ts_attach_ops *ops;
	unsigned connections = 1;
	struct ts_swap_use use;
	int served_by = 0;

	if (ts_runtime_read_note(rt, DEVICE_NOTE, note, sizeof(note)) < 0 ||
	    sscanf(note, "%15s %31s %u %d", route, device, &connections,
		   &served_by) < 2 ||
	    strncmp(device, "/dev/", 5) != 0 || !(ops = route_named(route)) ||
	    ts_swap_lookup(device, &use) < 0)
		return -ENOENT;
	ret->ops = ops;
	strcpy(ret->device, device);
	ret->size_bytes = size_of(device);
	ret->connections = connections;
	ret->served_by = served_by;
	return 0;
}

bool ts_attach_holds_swap(const struct ts_attach *attach)
{
	struct ts_swap_use use;

	return attach->device[0] && ts_swap_lookup(attach->device, &use) == 0;
}

int ts_attach_reclaim(const struct ts_runtime *rt, struct ts_error *error)
{
	char note[64], route[16], device[TS_DEVICE_BYTES];
	const struct ts_attach_ops *ops;
	struct ts_swap_use use;
	int err;

	/* A loop device is found by its file also where nobody came to write
	 * a note; nbd devices are noted before they are connected.
	 */
	if (ts_runtime_read_note(rt, DEVICE_NOTE, note, sizeof(note)) < 0)
		return ts_attach_fuse.reclaim(rt, "", error);
	if (sscanf(note, "%15s %31s", route, device) != 2 ||
	    !(ops = route_named(route))) {
		ts_runtime_forget(rt, DEVICE_NOTE);
		return 0;
	}
	if (ts_swap_lookup(device, &use) == 0)
		return ts_fail(error, -EBUSY,
			       "%s is still on as swap for an instance that "
			       "died, with %llu KiB in it: serving an empty "
			       "store there would hand zeros to live "
			       "processes. Run swapoff %s (what its server no "
			       "longer has is lost) or reboot", device,
			       (unsigned long long)(use.used_bytes / 1024),
			       device);
	err = ops->reclaim(rt, device, error);
	if (err < 0)
		return err;
	ts_log(LOG_NOTICE, "cleaned up %s, left by an instance that died",
	       device);
	ts_runtime_forget(rt, DEVICE_NOTE);
	return 0;
}

int ts_attach_note(struct ts_attach *attach, struct ts_error *error)
{
	char note[64];
	int err;

	attach->served_by = attach->server->pid;
	snprintf(note, sizeof(note), "%s %s %u %d", attach->ops->name,
		 attach->device, attach->connections, attach->served_by);
	err = ts_runtime_note(attach->rt, DEVICE_NOTE, note);
	return err < 0 ? ts_fail(error, err, "note the device: %m") : 0;
}

void ts_attach_forget(struct ts_attach *attach)
{
	attach->device[0] = '\0';
	ts_runtime_forget(attach->rt, DEVICE_NOTE);
}

static int none_usable(const struct ts_config *config, struct ts_error *error)
{
	return 0;
}

static int none_attach(struct ts_attach *attach, struct ts_error *error)
{
	return ts_fail(error, -EOPNOTSUPP,
		       "attach = \"none\" is configured: this instance only "
		       "serves its socket");
}

static int none_detach(struct ts_attach *attach, struct ts_error *error)
{
	return 0;
}

static int none_reclaim(const struct ts_runtime *rt, const char *device,
			struct ts_error *error)
{
	return 0;
}

const struct ts_attach_ops ts_attach_none = {
	.name = "none",
	.front = &ts_front_nbd,
	.usable = none_usable,
	.attach = none_attach,
	.detach = none_detach,
	.reclaim = none_reclaim,
};
