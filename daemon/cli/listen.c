// SPDX-License-Identifier: BSD-3-Clause
/* listen.c - a listening socket: from systemd, or at an address */
#include "cli/listen.h"

#include <errno.h>
#include <netdb.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <systemd/sd-daemon.h>
#include <unistd.h>

#define BACKLOG 16

static int refuse(char *err, size_t err_bytes, int error, const char *where,
		  const char *why)
{
	snprintf(err, err_bytes, "--listen %s: %s", where, why);
	return error;
}

static int bind_and_listen(const struct sockaddr *addr, socklen_t len)
{
	int fd = socket(addr->sa_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
	int error, one = 1;

	if (fd < 0)
		return -errno;
	setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one));
	if (!bind(fd, addr, len) && !listen(fd, BACKLOG))
		return fd;
	error = -errno;
	close(fd);
	return error;
}

/* A socket file that nobody listens on may be replaced. */
static void remove_stale(const struct sockaddr_un *addr)
{
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

	if (fd < 0)
		return;
	if (connect(fd, (const struct sockaddr *)addr, sizeof(*addr)) < 0 &&
	    errno == ECONNREFUSED)
		unlink(addr->sun_path);
	close(fd);
}

static int listen_unix(const char *where, const char *path, char *err,
		       size_t err_bytes)
{
	struct sockaddr_un addr = {.sun_family = AF_UNIX};
	int fd;

	if (!*path || strlen(path) >= sizeof(addr.sun_path))
		return refuse(err, err_bytes, -EINVAL, where,
			      "the path is empty or too long");
	strcpy(addr.sun_path, path);
	remove_stale(&addr);
	fd = bind_and_listen((struct sockaddr *)&addr, sizeof(addr));
	if (fd < 0)
		return refuse(err, err_bytes, fd, where, strerror(-fd));
	/* The statistics themselves are for everybody. */
	chmod(path, 0666);
	return fd;
}

static int listen_inet(const char *where, char *err, size_t err_bytes)
{
	const struct addrinfo hints = {
		.ai_flags = AI_NUMERICHOST | AI_NUMERICSERV | AI_PASSIVE,
		.ai_socktype = SOCK_STREAM,
	};
	const char *colon = strrchr(where, ':');
	struct addrinfo *found = NULL;
	char host[64];
	size_t len = colon ? (size_t)(colon - where) : 0;
	int fd;

	if (len > 1 && where[0] == '[' && where[len - 1] == ']')
		snprintf(host, sizeof(host), "%.*s", (int)len - 2, where + 1);
	else
		snprintf(host, sizeof(host), "%.*s", (int)len, where);
	if (!len || getaddrinfo(host, colon + 1, &hints, &found))
		return refuse(err, err_bytes, -EINVAL, where,
			      "must be ADDRESS:PORT with numbers, like "
			      "127.0.0.1:9953, or unix:/path");
	fd = bind_and_listen(found->ai_addr, found->ai_addrlen);
	freeaddrinfo(found);
	return fd < 0 ? refuse(err, err_bytes, fd, where, strerror(-fd)) : fd;
}

int ts_listen(const char *where, char *err, size_t err_bytes)
{
	int n = sd_listen_fds(1);

	if (n == 1)
		return SD_LISTEN_FDS_START;
	if (n > 1) {
		snprintf(err, err_bytes,
			 "systemd passed %d sockets; one is "
			 "expected",
			 n);
		return -EINVAL;
	}
	if (!where) {
		snprintf(err, err_bytes,
			 "nothing to listen on: enable "
			 "thinswap-metrics.socket, or give --listen");
		return -EINVAL;
	}
	return strncmp(where, "unix:", 5) == 0
		       ? listen_unix(where, where + 5, err, err_bytes)
		       : listen_inet(where, err, err_bytes);
}
