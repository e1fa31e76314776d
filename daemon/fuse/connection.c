// SPDX-License-Identifier: BSD-3-Clause
/* connection.c - descriptors of a FUSE connection, and how they outlive a server
 *
 * Mounting is one mount(2): whoever attaches loop devices is root, and needs
 * no helper that might be missing or that might leave something behind.
 *
 * The packet lies in a socket whose other end is closed. Looking at it
 * (MSG_PEEK) makes new descriptors of the same open files and leaves it where
 * it is, in kernel memory, which is never swapped.
 */
#include "connection.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/fuse.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/socket.h>
#include <sys/utsname.h>
#include <unistd.h>

/* Linux 6.9; the headers may be older. */
#define NOTIFY_RESEND 7

static const char text[] = "thinswap FUSE connection 1";

union control {
	char bytes[CMSG_SPACE(TS_FUSE_FDS_MAX * sizeof(int))];
	struct cmsghdr align;
};

static int mount_it(const char *mountpoint, int fd, struct ts_error *error)
{
	char options[128];

	snprintf(options, sizeof(options),
		 "fd=%d,rootmode=40700,user_id=%u,group_id=%u,"
		 "default_permissions",
		 fd, geteuid(), getegid());
	if (mount("thinswap", mountpoint, "fuse.thinswap",
		  MS_NOSUID | MS_NODEV | MS_NOEXEC | MS_NOATIME, options) < 0)
		return ts_fail(error, -errno, "mount on %s: %m", mountpoint);
	return 0;
}

static int add_clone(struct ts_fuse_connection *connection,
		     struct ts_error *error)
{
	uint32_t of = (uint32_t)connection->fd[0];
	int fd = open("/dev/fuse", O_RDWR | O_CLOEXEC);

	if (fd >= 0)
		connection->fd[connection->n++] = fd;
	if (fd < 0 || ioctl(fd, FUSE_DEV_IOC_CLONE, &of) < 0)
		return ts_fail(error, -errno,
			       "a further descriptor of the connection: %m");
	return 0;
}

int ts_fuse_connection_open(const char *mountpoint, unsigned n,
			    struct ts_fuse_connection *ret,
			    struct ts_error *error)
{
	struct ts_fuse_connection connection = {.n = 0};
	int fd = open("/dev/fuse", O_RDWR | O_CLOEXEC), err;

	if (fd < 0)
		return ts_fail(error, -errno, "/dev/fuse: %m");
	connection.fd[connection.n++] = fd;
	err = mount_it(mountpoint, fd, error);
	if (err < 0)
		goto out;
	while (connection.n < n && err == 0)
		err = add_clone(&connection, error);
	if (err == 0) {
		*ret = connection;
		return 0;
	}
	umount2(mountpoint, UMOUNT_NOFOLLOW | MNT_DETACH);
out:
	ts_fuse_connection_close(&connection);
	return err;
}

static struct msghdr make_message(struct iovec *iov, union control *control,
				  unsigned n)
{
	return (struct msghdr){
		.msg_iov = iov,
		.msg_iovlen = 1,
		.msg_control = control->bytes,
		.msg_controllen = CMSG_SPACE(n * sizeof(int)),
	};
}

int ts_fuse_connection_pack(const struct ts_fuse_connection *connection,
			    int *ret_fd, struct ts_error *error)
{
	struct iovec iov = {(char *)text, sizeof(text)};
	union control control = {0};
	struct msghdr message = make_message(&iov, &control, connection->n);
	struct cmsghdr *c = CMSG_FIRSTHDR(&message);
	int pair[2], err = 0;

	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0)
		return ts_fail(error, -errno, "a pair of sockets: %m");
	c->cmsg_level = SOL_SOCKET;
	c->cmsg_type = SCM_RIGHTS;
	c->cmsg_len = CMSG_LEN(connection->n * sizeof(int));
	memcpy(CMSG_DATA(c), connection->fd, connection->n * sizeof(int));
	if (sendmsg(pair[1], &message, MSG_NOSIGNAL) != sizeof(text))
		err = ts_fail(error, -errno, "pack %u descriptors: %m",
			      connection->n);
	close(pair[1]);
	if (err < 0)
		close(pair[0]);
	else
		*ret_fd = pair[0];
	return err;
}

int ts_fuse_connection_unpack(int fd, struct ts_fuse_connection *ret,
			      struct ts_error *error)
{
	char found[sizeof(text)] = "";
	struct iovec iov = {found, sizeof(found)};
	union control control;
	struct msghdr message = make_message(&iov, &control, TS_FUSE_FDS_MAX);
	struct ts_fuse_connection connection = {.n = 0};
	ssize_t got = recvmsg(fd, &message,
			      MSG_PEEK | MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
	struct cmsghdr *c = got < 0 ? NULL : CMSG_FIRSTHDR(&message);

	if (got < 0)
		return ts_fail(error, -errno, "descriptor %d: %m", fd);
	if (c && c->cmsg_level == SOL_SOCKET && c->cmsg_type == SCM_RIGHTS) {
		connection.n = (unsigned)((c->cmsg_len - CMSG_LEN(0)) /
					  sizeof(int));
		memcpy(connection.fd, CMSG_DATA(c),
		       connection.n * sizeof(int));
	}
	if (got != sizeof(text) || memcmp(found, text, sizeof(text)) != 0 ||
	    connection.n == 0 || message.msg_flags & MSG_CTRUNC) {
		ts_fuse_connection_close(&connection);
		return ts_fail(error, -EPROTO,
			       "descriptor %d holds no FUSE connection that "
			       "this version knows",
			       fd);
	}
	*ret = connection;
	return 0;
}

void ts_fuse_connection_close(struct ts_fuse_connection *connection)
{
	while (connection->n)
		close(connection->fd[--connection->n]);
}

int ts_fuse_connection_resend(const struct ts_fuse_connection *connection,
			      struct ts_error *error)
{
	struct fuse_out_header notify = {
		.len = sizeof(notify),
		.error = NOTIFY_RESEND,
	};

	if (write(connection->fd[0], &notify, sizeof(notify)) < 0)
		return ts_fail(error, -errno,
			       "have the kernel send again what was not "
			       "answered (Linux 6.9): %m");
	return 0;
}

bool ts_fuse_can_resend(void)
{
	unsigned major = 0, minor = 0;
	struct utsname name;

	return uname(&name) == 0 &&
	       sscanf(name.release, "%u.%u", &major, &minor) == 2 &&
	       (major > 6 || (major == 6 && minor >= 9));
}
