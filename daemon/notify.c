// SPDX-License-Identifier: BSD-3-Clause
/* notify.c - news for systemd that never wait for systemd
 *
 * The protocol is one datagram to the socket that NOTIFY_SOCKET names, with
 * "@" for the abstract namespace. What sd_notify() lacks is MSG_DONTWAIT.
 */
#include "notify.h"

#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

static int find_socket(struct sockaddr_un *ret, socklen_t *ret_len)
{
	const char *path = getenv("NOTIFY_SOCKET");
	size_t len = path ? strlen(path) : 0;

	if (len < 2 || len >= sizeof(ret->sun_path) ||
	    (path[0] != '/' && path[0] != '@'))
		return -1;
	*ret = (struct sockaddr_un){ .sun_family = AF_UNIX };
	memcpy(ret->sun_path, path, len);
	if (path[0] == '@')
		ret->sun_path[0] = '\0';
	*ret_len = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + len);
	return 0;
}

void ts_notify(const char *format, ...)
{
	struct sockaddr_un addr;
	char text[512];
	socklen_t len;
	va_list args;
	int fd;

	if (find_socket(&addr, &len) < 0)
		return;
	va_start(args, format);
	vsnprintf(text, sizeof(text), format, args);
	va_end(args);
	fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	if (fd < 0)
		return;
	sendto(fd, text, strlen(text), MSG_DONTWAIT | MSG_NOSIGNAL,
	       (struct sockaddr *)&addr, len);
	close(fd);
}
