// SPDX-License-Identifier: BSD-3-Clause
/* place.c - where the server is reached, kept over restarts of the daemon */
#include "place.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "daemon.h"
#include "fdstore.h"
#include "log.h"

#define FD_NAME    "socket"
#define INODE_NOTE "socket.inode"

static int note_inode(struct ts_daemon *d, int fd)
{
	char text[32];
	struct stat st;

	if (fstat(fd, &st) < 0)
		return -errno;
	snprintf(text, sizeof(text), "%llu", (unsigned long long)st.st_ino);
	return ts_runtime_note(&d->rt, INODE_NOTE, text);
}

/* Does it listen, and does the path lead to it? */
static bool is_the_place(struct ts_daemon *d, int fd)
{
	int listens = 0;
	socklen_t len = sizeof(listens);
	char text[32];
	struct stat st;

	return d->front->has_socket &&
	       getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &listens, &len) == 0 &&
	       listens && fstat(fd, &st) == 0 &&
	       ts_runtime_read_note(&d->rt, INODE_NOTE, text,
				    sizeof(text)) == 0 &&
	       strtoull(text, NULL, 10) == st.st_ino &&
	       access(d->served_path, F_OK) == 0;
}

static void keep(struct ts_daemon *d)
{
	if (d->listen_fd < 0)
		return;
	if (note_inode(d, d->listen_fd) < 0)
		ts_log(LOG_WARNING, "the socket cannot be noted (%m); the next "
		       "instance makes another");
	ts_fdstore_keep(FD_NAME, d->listen_fd, true);
}

int ts_place_make_anew(struct ts_daemon *d, struct ts_error *error)
{
	int err = d->front->prepare(&d->config, &d->rt, &d->listen_fd, error);

	if (err == 0)
		keep(d);
	return err;
}

int ts_place_handed_over(void)
{
	return ts_fdstore_take(FD_NAME);
}

int ts_place_make(struct ts_daemon *d, struct ts_error *error)
{
	int fd = ts_fdstore_take(FD_NAME);

	/* A FUSE connection that was taken over with the swap on it. */
	if (d->listen_fd >= 0) {
		if (fd >= 0)
			close(fd);
		keep(d);
		return 0;
	}
	if (fd >= 0 && is_the_place(d, fd) &&
	    ts_runtime_set_access(&d->rt, d->front->path,
				  d->config.security.socket_mode,
				  d->config.security.socket_gid, error) == 0) {
		ts_log(LOG_INFO, "%s is the one of the instance before",
		       d->served_path);
		d->listen_fd = fd;
		ts_fdstore_keep(FD_NAME, fd, true);
		return 0;
	}
	if (fd >= 0)
		close(fd);
	if (d->server_lived)
		return 0;
	return ts_place_make_anew(d, error);
}

void ts_place_doubt(struct ts_daemon *d)
{
	ts_runtime_forget(&d->rt, INODE_NOTE);
}

int ts_place_move(struct ts_daemon *d, const char *from,
		  struct ts_error *error)
{
	char path[TS_RUNTIME_PATH_BYTES];
	int err;

	err = ts_runtime_set_access(&d->rt, from,
				    d->config.security.socket_mode,
				    d->config.security.socket_gid, error);
	if (err < 0)
		return err;
	if (rename(ts_runtime_path(&d->rt, from, path), d->served_path) < 0)
		return ts_fail(error, -errno, "rename %s to %s: %m", path,
			       d->served_path);
	return 0;
}

void ts_place_lose(struct ts_daemon *d)
{
	if (d->listen_fd < 0)
		return;
	ts_fdstore_forget(FD_NAME);
	close(d->listen_fd);
	d->listen_fd = -1;
}

void ts_place_settle(struct ts_daemon *d, int fd)
{
	ts_place_lose(d);
	d->listen_fd = fd;
	keep(d);
}

void ts_place_remove(struct ts_daemon *d)
{
	ts_fdstore_forget(FD_NAME);
	d->front->tidy(&d->rt, d->listen_fd);
	ts_runtime_forget(&d->rt, INODE_NOTE);
	d->listen_fd = -1;
}
