// SPDX-License-Identifier: BSD-3-Clause
/* loop.c - a file as a block device, with direct I/O
 *
 * LOOP_CONFIGURE (Linux 5.8) sets everything at once: there is no moment in
 * which the device is attached but buffered. Between asking for a free device
 * and configuring it somebody else may take it: ask again.
 *
 * The backing file's path is read from sysfs. What LOOP_GET_STATUS64 tells is
 * a copy that ends after 63 bytes; it only helps where the mount is detached
 * and sysfs shows a path without its beginning.
 */
#include "loop.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/loop.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#define TRIES            64
#define LOOP_BLOCK_BYTES 4096
#define GONE_TIMEOUT_MS  5000
#define GONE_STEP_MS     10

static const char *base_of(const char *device)
{
	const char *slash = strrchr(device, '/');

	return slash ? slash + 1 : device;
}

/* The first line of /sys/block/DEVICE/NAME; 0 or -errno. */
static int read_sysfs(const char *device, const char *name, char *ret,
		      size_t room)
{
	char path[96];
	ssize_t got;
	int fd;

	snprintf(path, sizeof(path), "/sys/block/%.32s/%.40s", base_of(device),
		 name);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return -errno;
	got = read(fd, ret, room - 1);
	close(fd);
	if (got < 0)
		return -EIO;
	ret[got] = '\0';
	ret[strcspn(ret, "\n")] = '\0';
	return 0;
}

static bool is_below(const char *path, const char *dir)
{
	size_t len = strlen(dir);

	while (len > 1 && dir[len - 1] == '/')
		len--;
	return strncmp(path, dir, len) == 0 && path[len] == '/';
}

/* Attached to a file below @dir? */
static bool is_ours(const char *device, const char *dir)
{
	char path[PATH_MAX + 16];
	struct loop_info64 info;
	bool ours = false;
	int fd;

	if (read_sysfs(device, "loop/backing_file", path, sizeof(path)) < 0)
		return false;
	if (is_below(path, dir))
		return true;
	fd = open(device, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return false;
	if (ioctl(fd, LOOP_GET_STATUS64, &info) == 0) {
		info.lo_file_name[LO_NAME_SIZE - 1] = '\0';
		ours = is_below((const char *)info.lo_file_name, dir);
	}
	close(fd);
	return ours;
}

static int configure(int control_fd, int file_fd, const char *file,
		     char *ret_device, size_t room, struct ts_error *error)
{
	struct loop_config config = {
		.fd = (uint32_t)file_fd,
		.block_size = LOOP_BLOCK_BYTES,
		.info.lo_flags = LO_FLAGS_DIRECT_IO | LO_FLAGS_AUTOCLEAR,
	};

	snprintf((char *)config.info.lo_file_name, LO_NAME_SIZE, "%s", file);
	for (int i = 0; i < TRIES; i++) {
		int number = ioctl(control_fd, LOOP_CTL_GET_FREE), fd;

		if (number < 0)
			return ts_fail(error, -errno, "free loop device: %m");
		snprintf(ret_device, room, "/dev/loop%d", number);
		fd = open(ret_device, O_RDWR | O_CLOEXEC);
		if (fd < 0 && errno == ENXIO)
			continue; /* removed since */
		if (fd < 0)
			return ts_fail(error, -errno, "open %s: %m",
				       ret_device);
		if (ioctl(fd, LOOP_CONFIGURE, &config) == 0)
			return fd;
		if (errno != EBUSY) {
			int err = ts_fail(error, -errno, "configure %s: %m",
					  ret_device);

			close(fd);
			return err;
		}
		close(fd);
	}
	return ts_fail(error, -EBUSY,
		       "loop devices are taken faster than "
		       "they can be configured");
}

/* What the kernel did with what it was told. */
static int verify(const char *device, int fd, const char *file,
		  struct ts_error *error)
{
	struct loop_info64 info;
	char text[32];

	if (ioctl(fd, LOOP_GET_STATUS64, &info) < 0 ||
	    !(info.lo_flags & LO_FLAGS_DIRECT_IO) ||
	    !(info.lo_flags & LO_FLAGS_AUTOCLEAR) ||
	    read_sysfs(device, "loop/dio", text, sizeof(text)) < 0 ||
	    strcmp(text, "1") != 0)
		return ts_fail(error, -EOPNOTSUPP,
			       "%s does not do direct I/O on %s", device, file);
	if (read_sysfs(device, "queue/logical_block_size", text, sizeof(text)) <
		    0 ||
	    atoi(text) != LOOP_BLOCK_BYTES)
		return ts_fail(error, -EOPNOTSUPP,
			       "%s has no blocks of %d "
			       "bytes",
			       device, LOOP_BLOCK_BYTES);
	if (read_sysfs(device, "queue/discard_max_bytes", text, sizeof(text)) <
		    0 ||
	    strtoull(text, NULL, 10) == 0)
		return ts_fail(error, -EOPNOTSUPP,
			       "%s does not discard, so "
			       "freed swap would stay stored",
			       device);
	return 0;
}

static void set_not_rotational(const char *device)
{
	char path[96];
	int fd;

	snprintf(path, sizeof(path), "/sys/block/%.32s/queue/rotational",
		 base_of(device));
	fd = open(path, O_WRONLY | O_CLOEXEC);
	if (fd < 0)
		return; /* swaparea.c checks what holds */
	if (write(fd, "0", 1) != 1)
		errno = 0; /* the same */
	close(fd);
}

int ts_loop_attach(const char *file, char *ret_device, size_t room, int *ret_fd,
		   struct ts_error *error)
{
	int control_fd, file_fd, fd, err;

	control_fd = open("/dev/loop-control", O_RDWR | O_CLOEXEC);
	if (control_fd < 0)
		return ts_fail(error, -errno, "/dev/loop-control: %m");
	file_fd = open(file, O_RDWR | O_CLOEXEC | O_DIRECT);
	if (file_fd < 0)
		fd = ts_fail(error, -errno, "open %s: %m", file);
	else
		fd = configure(control_fd, file_fd, file, ret_device, room,
			       error);
	close(control_fd);
	if (file_fd >= 0)
		close(file_fd);
	if (fd < 0)
		return fd;

	err = verify(ret_device, fd, file, error);
	if (err < 0) {
		struct ts_error second;

		ts_loop_detach(ret_device, fd, &second);
		return err;
	}
	set_not_rotational(ret_device);
	*ret_fd = fd;
	return 0;
}

/* The kernel lets go when the last opener (udev, a scan) has closed. */
static int wait_until_free(const char *device, const char *path,
			   struct ts_error *error)
{
	char now[PATH_MAX + 16];

	for (int ms = 0; ms < GONE_TIMEOUT_MS; ms += GONE_STEP_MS) {
		if (read_sysfs(device, "loop/backing_file", now, sizeof(now)) <
			    0 ||
		    strcmp(now, path) != 0)
			return 0;
		usleep(GONE_STEP_MS * 1000);
	}
	return ts_fail(error, -EBUSY,
		       "%s is still held open by somebody "
		       "else; it goes when they close it",
		       device);
}

int ts_loop_detach(const char *device, int fd, struct ts_error *error)
{
	char path[PATH_MAX + 16];
	int err = 0;

	if (read_sysfs(device, "loop/backing_file", path, sizeof(path)) < 0) {
		close(fd);
		return 0;
	}
	if (ioctl(fd, LOOP_CLR_FD) < 0 && errno != ENXIO)
		err = ts_fail(error, -errno, "detach %s: %m", device);
	close(fd);
	return err < 0 ? err : wait_until_free(device, path, error);
}

/* The next loop device of @dir in a listing of /sys/block; false at its end. */
static bool next_of(DIR *block, const char *dir, char *ret_device, size_t room)
{
	struct dirent *entry;

	while ((entry = readdir(block))) {
		if (strncmp(entry->d_name, "loop", 4) != 0)
			continue;
		snprintf(ret_device, room, "/dev/%.24s", entry->d_name);
		if (is_ours(ret_device, dir))
			return true;
	}
	return false;
}

int ts_loop_find(const char *dir, char *ret_device, size_t room)
{
	DIR *block = opendir("/sys/block");
	bool found;

	if (!block)
		return -errno;
	found = next_of(block, dir, ret_device, room);
	closedir(block);
	return found ? 0 : -ENOENT;
}

int ts_loop_reclaim(const char *dir, unsigned *ret_n, struct ts_error *error)
{
	DIR *block = opendir("/sys/block");
	char device[32];
	unsigned n = 0;
	int err = 0;

	if (!block)
		return ts_fail(error, -errno, "/sys/block: %m");
	while (err == 0 && next_of(block, dir, device, sizeof(device))) {
		int fd = open(device, O_RDWR | O_CLOEXEC);

		if (fd < 0)
			err = ts_fail(error, -errno, "open %s: %m", device);
		else
			err = ts_loop_detach(device, fd, error);
		n++;
	}
	closedir(block);
	if (ret_n)
		*ret_n = n;
	return err;
}
