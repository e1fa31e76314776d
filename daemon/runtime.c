// SPDX-License-Identifier: BSD-3-Clause
/* runtime.c - the runtime directory: one owner, its sockets and its notes
 *
 * A socket that is unlinked before bind can be stolen by a second daemon, and
 * one that is bound before listen refuses its first clients. So: under the
 * lock, a socket is bound to a name of its own, given group and mode, made to
 * listen, and only then renamed to where clients look. The umask decides
 * nothing, since the mode is set by chmod before anyone can connect.
 */
#include "runtime.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

const char *ts_runtime_default_dir(char *buf, size_t room)
{
	const char *base = getenv("XDG_RUNTIME_DIR");

	if (geteuid() == 0)
		snprintf(buf, room, "/run/thinswap");
	else if (base && base[0] == '/')
		snprintf(buf, room, "%s/thinswap", base);
	else
		return NULL;
	return buf;
}

char *ts_runtime_path(const struct ts_runtime *rt, const char *name,
		      char buf[static TS_RUNTIME_PATH_BYTES])
{
	snprintf(buf, TS_RUNTIME_PATH_BYTES, "%s/%s", rt->dir, name);
	return buf;
}

/* What others can write into is no place for sockets that root trusts. */
static int check_dir(const char *dir, struct ts_error *error)
{
	struct stat st;

	if (lstat(dir, &st) < 0)
		return ts_fail(error, -errno, "%s: %m", dir);
	if (!S_ISDIR(st.st_mode))
		return ts_fail(error, -ENOTDIR, "%s is not a directory", dir);
	if (st.st_uid != geteuid())
		return ts_fail(error, -EPERM,
			       "%s belongs to uid %u, not to uid %u", dir,
			       st.st_uid, geteuid());
	if (st.st_mode & (S_IWGRP | S_IWOTH))
		return ts_fail(error, -EPERM,
			       "%s has mode %04o: others could write into it; "
			       "chmod it to 0755",
			       dir, st.st_mode & 07777);
	return 0;
}

static int make_dir(const char *dir, struct ts_error *error)
{
	if (mkdir(dir, 0755) == 0) {
		if (chmod(dir, 0755) < 0)
			return ts_fail(error, -errno, "chmod %s: %m", dir);
	} else if (errno != EEXIST) {
		return ts_fail(error, -errno,
			       "cannot make the runtime directory %s: %m", dir);
	}
	return check_dir(dir, error);
}

/* Who holds the lock, as "pid 12 (thinswapd)". */
static void name_holder(int fd, char *buf, size_t room)
{
	char pid[16] = "", path[48], comm[32] = "";
	ssize_t got = pread(fd, pid, sizeof(pid) - 1, 0);
	int comm_fd;

	if (got <= 0 || atoi(pid) <= 0) {
		snprintf(buf, room, "another process");
		return;
	}
	snprintf(path, sizeof(path), "/proc/%d/comm", atoi(pid));
	comm_fd = open(path, O_RDONLY | O_CLOEXEC);
	if (comm_fd >= 0) {
		got = read(comm_fd, comm, sizeof(comm) - 1);
		if (got > 0)
			comm[got - 1] = '\0';
		close(comm_fd);
	}
	snprintf(buf, room, "pid %d (%s)", atoi(pid), comm);
}

/* A lock belongs to what open() returned: whoever opens the file anew cannot
 * have it while the descriptor that was handed over is open. The descriptor of
 * another file is of no use.
 */
static int open_lock(const char *path, int handed_fd)
{
	int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0644);
	struct stat now, before;

	if (handed_fd < 0)
		return fd;
	if (fd < 0 || fstat(fd, &now) < 0 || fstat(handed_fd, &before) < 0 ||
	    now.st_dev != before.st_dev || now.st_ino != before.st_ino) {
		close(handed_fd);
		return fd;
	}
	close(fd);
	return handed_fd;
}

static int take_lock(struct ts_runtime *rt, int handed_fd,
		     struct ts_error *error)
{
	char path[TS_RUNTIME_PATH_BYTES], holder[64];
	int fd;

	ts_runtime_path(rt, "lock", path);
	fd = open_lock(path, handed_fd);
	if (fd < 0)
		return ts_fail(error, -errno, "%s: %m", path);
	if (flock(fd, LOCK_EX | LOCK_NB) < 0) {
		int err = -errno;

		name_holder(fd, holder, sizeof(holder));
		close(fd);
		if (err != -EWOULDBLOCK)
			return ts_fail(error, err, "lock %s: %m", path);
		return ts_fail(error, -EBUSY,
			       "%s is in use by %s; stop it, or give this "
			       "instance its own --runtime-dir",
			       rt->dir, holder);
	}
	if (ftruncate(fd, 0) < 0 || lseek(fd, 0, SEEK_SET) < 0 ||
	    dprintf(fd, "%d\n", getpid()) < 0) {
		int err = -errno;

		close(fd);
		return ts_fail(error, err, "write %s: %m", path);
	}
	rt->lock_fd = fd;
	return 0;
}

int ts_runtime_open(const char *dir, int lock_fd, struct ts_runtime *ret,
		    struct ts_error *error)
{
	struct ts_runtime rt = {.lock_fd = -1};
	int err;

	if (strlen(dir) >= sizeof(rt.dir))
		return ts_fail(error, -ENAMETOOLONG,
			       "the runtime directory %s is longer than %zu "
			       "bytes, too long for its sockets",
			       dir, sizeof(rt.dir) - 1);
	strcpy(rt.dir, dir);
	err = make_dir(dir, error);
	if (err < 0)
		return err;
	err = take_lock(&rt, lock_fd, error);
	if (err < 0)
		return err;
	*ret = rt;
	return 0;
}

void ts_runtime_close(struct ts_runtime *rt)
{
	/* The file stays: unlinking it would let a third daemon lock a new
	 * file while a second one waits on this one.
	 */
	if (rt->lock_fd >= 0) {
		if (ftruncate(rt->lock_fd, 0) < 0)
			errno = 0; /* a pid in a free lock misleads nobody */
		close(rt->lock_fd);
	}
	rt->lock_fd = -1;
}

/* -EADDRINUSE when somebody accepts connections at @addr. */
static int check_unserved(const struct sockaddr_un *addr,
			  struct ts_error *error)
{
	struct ucred owner = {.pid = 0};
	socklen_t len = sizeof(owner);
	struct stat st;
	int fd, ret = 0;

	if (lstat(addr->sun_path, &st) < 0)
		return 0;
	if (!S_ISSOCK(st.st_mode))
		return ts_fail(error, -EEXIST,
			       "%s is in the way and is not a socket",
			       addr->sun_path);
	fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (fd < 0)
		return ts_fail(error, -errno, "socket: %m");
	/* EAGAIN is a live owner with a full queue. */
	if (connect(fd, (const struct sockaddr *)addr, sizeof(*addr)) == 0 ||
	    errno == EAGAIN) {
		getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &owner, &len);
		ret = ts_fail(error, -EADDRINUSE,
			      "%s is served by pid %d, which is not an "
			      "instance in this runtime directory; it is left "
			      "alone",
			      addr->sun_path, owner.pid);
	}
	close(fd);
	return ret;
}

static int set_access(const char *path, mode_t mode, gid_t gid,
		      struct ts_error *error)
{
	if (gid != (gid_t)-1 && chown(path, -1, gid) < 0)
		return ts_fail(error, -errno, "give %s to group %u: %m", path,
			       gid);
	if (chmod(path, mode) < 0)
		return ts_fail(error, -errno, "chmod %04o %s: %m", mode, path);
	return 0;
}

int ts_runtime_set_access(const struct ts_runtime *rt, const char *name,
			  mode_t mode, gid_t gid, struct ts_error *error)
{
	char path[TS_RUNTIME_PATH_BYTES];

	return set_access(ts_runtime_path(rt, name, path), mode, gid, error);
}

int ts_runtime_listen(const struct ts_runtime *rt, const char *name,
		      mode_t mode, gid_t gid, int *ret_fd,
		      struct ts_error *error)
{
	struct sockaddr_un final = {.sun_family = AF_UNIX};
	struct sockaddr_un fresh = {.sun_family = AF_UNIX};
	int fd, err;

	snprintf(final.sun_path, sizeof(final.sun_path), "%s/%s", rt->dir,
		 name);
	snprintf(fresh.sun_path, sizeof(fresh.sun_path), "%s/.new-%s", rt->dir,
		 name);
	err = check_unserved(&final, error);
	if (err < 0)
		return err;

	fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (fd < 0)
		return ts_fail(error, -errno, "socket: %m");
	/* Ours by the lock; left by an instance killed right here. */
	unlink(fresh.sun_path);
	if (bind(fd, (struct sockaddr *)&fresh, sizeof(fresh)) < 0) {
		err = ts_fail(error, -errno, "bind %s: %m", fresh.sun_path);
		goto out_close;
	}
	err = set_access(fresh.sun_path, mode, gid, error);
	if (err < 0)
		goto out_unlink;
	if (listen(fd, SOMAXCONN) < 0) {
		err = ts_fail(error, -errno, "listen on %s: %m",
			      fresh.sun_path);
		goto out_unlink;
	}
	if (rename(fresh.sun_path, final.sun_path) < 0) {
		err = ts_fail(error, -errno, "rename to %s: %m",
			      final.sun_path);
		goto out_unlink;
	}
	*ret_fd = fd;
	return 0;

out_unlink:
	unlink(fresh.sun_path);
out_close:
	close(fd);
	return err;
}

int ts_runtime_note(const struct ts_runtime *rt, const char *name,
		    const char *text)
{
	char path[TS_RUNTIME_PATH_BYTES], fresh[TS_RUNTIME_PATH_BYTES + 8];
	int fd, err = 0;

	ts_runtime_path(rt, name, path);
	snprintf(fresh, sizeof(fresh), "%s.new", path);
	fd = open(fresh, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW,
		  0644);
	if (fd < 0)
		return -errno;
	if (dprintf(fd, "%s\n", text) < 0)
		err = -errno;
	if (close(fd) < 0 && err == 0)
		err = -errno;
	if (err == 0 && rename(fresh, path) < 0)
		err = -errno;
	if (err < 0)
		unlink(fresh);
	return err;
}

int ts_runtime_read_note(const struct ts_runtime *rt, const char *name,
			 char *ret_text, size_t room)
{
	char path[TS_RUNTIME_PATH_BYTES];
	ssize_t got;
	int fd;

	fd = open(ts_runtime_path(rt, name, path),
		  O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
	if (fd < 0)
		return -errno;
	got = read(fd, ret_text, room - 1);
	close(fd);
	if (got < 0)
		return -EIO;
	ret_text[got] = '\0';
	ret_text[strcspn(ret_text, "\n")] = '\0';
	return 0;
}

void ts_runtime_forget(const struct ts_runtime *rt, const char *name)
{
	char path[TS_RUNTIME_PATH_BYTES];

	unlink(ts_runtime_path(rt, name, path));
}
