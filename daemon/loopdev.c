// SPDX-License-Identifier: BSD-3-Clause
/* loopdev.c - a file as a block device, with direct I/O
 *
 * LOOP_CONFIGURE (Linux 5.8) sets everything at once. Between asking for a
 * free device and configuring it somebody else may take it: ask again.
 */
#include "loopdev.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/loop.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#define TRIES 64
#define LOOP_BLOCK_BYTES 4096

static int configure(int control_fd, int file_fd, const char *file,
		     char *ret_device, size_t room, struct ts_error *error)
{
	struct loop_config config = {
		.fd = file_fd,
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
		if (fd < 0)
			return ts_fail(error, -errno, "open %s: %m",
				       ret_device);
		if (ioctl(fd, LOOP_CONFIGURE, &config) == 0)
			return fd;
		close(fd);
		if (errno != EBUSY)
			return ts_fail(error, -errno, "configure %s: %m",
				       ret_device);
	}
	return ts_fail(error, -EBUSY, "loop devices are taken faster than "
		       "they can be configured");
}

int ts_loop_attach(const char *file, char *ret_device, size_t room,
		   int *ret_fd, struct ts_error *error)
{
	struct loop_info64 info;
	int control_fd, file_fd, fd;

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

	if (ioctl(fd, LOOP_GET_STATUS64, &info) < 0 ||
	    !(info.lo_flags & LO_FLAGS_DIRECT_IO)) {
		ioctl(fd, LOOP_CLR_FD);
		close(fd);
		return ts_fail(error, -EOPNOTSUPP,
			       "%s does not do direct I/O on %s", ret_device,
			       file);
	}
	*ret_fd = fd;
	return 0;
}

int ts_loop_detach(const char *device, int fd, struct ts_error *error)
{
	int err = 0;

	if (ioctl(fd, LOOP_CLR_FD) < 0 && errno != ENXIO)
		err = ts_fail(error, -errno, "detach %s: %m", device);
	close(fd);
	return err;
}

int ts_loop_reclaim(const char *device, const char *dir,
		    struct ts_error *error)
{
	struct loop_info64 info;
	const char *file = (const char *)info.lo_file_name;
	int fd = open(device, O_RDWR | O_CLOEXEC);

	if (fd < 0)
		return errno == ENOENT || errno == ENXIO ? 0 :
			ts_fail(error, -errno, "open %s: %m", device);
	if (ioctl(fd, LOOP_GET_STATUS64, &info) < 0) {
		close(fd);
		return 0; /* nothing behind it */
	}
	info.lo_file_name[LO_NAME_SIZE - 1] = '\0';
	if (strncmp(file, dir, strnlen(dir, LO_NAME_SIZE - 1)) != 0) {
		close(fd);
		return 0; /* somebody else's by now */
	}
	return ts_loop_detach(device, fd, error);
}
