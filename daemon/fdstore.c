// SPDX-License-Identifier: BSD-3-Clause
/* fdstore.c - descriptors that outlive this image of the daemon, by name
 *
 * systemd polls what it stores and drops what has hung up, which a listening
 * socket never is; FDPOLL=0 says so for everything, since a descriptor that is
 * of no use any more is found out by whoever takes it.
 *
 * Before execve() the descriptors are moved to 3, 4, 5 ... as the protocol
 * wants it, by copies above all of them, so that none is overwritten. When the
 * call fails, the copies at the low numbers would be someone else's: whatever
 * had those numbers is kept aside and put back.
 */
#include "fdstore.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <systemd/sd-daemon.h>
#include <unistd.h>

#include "log.h"

#define FIRST_FD   3 /* SD_LISTEN_FDS_START */
#define MAX_FDS    16
#define NAME_BYTES 24

struct entry {
	char name[NAME_BYTES];
	int fd; /* -1: free */
	bool crash;
};

static struct entry kept[MAX_FDS], received[MAX_FDS];
static bool is_set_up;

static void set_up(void)
{
	if (is_set_up)
		return;
	for (int i = 0; i < MAX_FDS; i++)
		kept[i].fd = received[i].fd = -1;
	is_set_up = true;
}

static struct entry *find(struct entry *table, const char *name)
{
	for (int i = 0; i < MAX_FDS; i++)
		if (table[i].fd >= 0 && strcmp(table[i].name, name) == 0)
			return &table[i];
	return NULL;
}

static struct entry *find_free(struct entry *table)
{
	for (int i = 0; i < MAX_FDS; i++)
		if (table[i].fd < 0)
			return &table[i];
	return NULL;
}

void ts_fdstore_receive(void)
{
	char **names = NULL;
	int n;

	set_up();
	n = sd_listen_fds_with_names(1, &names);
	for (int i = 0; i < n; i++) {
		struct entry *entry = find_free(received);

		fcntl(FIRST_FD + i, F_SETFD, FD_CLOEXEC);
		if (!entry) {
			close(FIRST_FD + i);
		} else {
			snprintf(entry->name, sizeof(entry->name), "%s",
				 names[i]);
			entry->fd = FIRST_FD + i;
		}
		free(names[i]);
	}
	free(names);
}

int ts_fdstore_take(const char *name)
{
	struct entry *entry;
	int fd;

	set_up();
	entry = find(received, name);
	if (!entry)
		return -1;
	fd = entry->fd;
	entry->fd = -1;
	return fd;
}

/* systemd may hold several of one name: always removed before one is added. */
static void tell_removed(const char *name)
{
	sd_notifyf(0, "FDSTOREREMOVE=1\nFDNAME=%s", name);
}

static void tell_stored(const char *name, int fd)
{
	char text[64];

	tell_removed(name);
	snprintf(text, sizeof(text), "FDSTORE=1\nFDPOLL=0\nFDNAME=%s", name);
	sd_pid_notify_with_fds(0, 0, text, &fd, 1);
}

void ts_fdstore_keep(const char *name, int fd, bool crash)
{
	struct entry *entry;

	set_up();
	entry = find(kept, name);
	if (!entry)
		entry = find_free(kept);
	if (!entry) {
		ts_log(LOG_ERR, "no room to keep descriptor \"%s\"", name);
		return;
	}
	snprintf(entry->name, sizeof(entry->name), "%s", name);
	entry->fd = fd;
	entry->crash = crash;
	if (crash)
		tell_stored(name, fd);
}

void ts_fdstore_forget(const char *name)
{
	struct entry *entry;

	set_up();
	entry = find(kept, name);
	if (!entry)
		return;
	if (entry->crash)
		tell_removed(name);
	entry->fd = -1;
}

void ts_fdstore_drop_rest(void)
{
	set_up();
	for (int i = 0; i < MAX_FDS; i++) {
		if (received[i].fd < 0)
			continue;
		ts_log(LOG_DEBUG, "descriptor \"%s\" is of no use any more",
		       received[i].name);
		if (!find(kept, received[i].name))
			tell_removed(received[i].name);
		close(received[i].fd);
		received[i].fd = -1;
	}
}

struct move {
	int copy;  /* of what is kept, above all low numbers */
	int aside; /* of what has its low number now; -1: nothing */
};

static int copy_above(int fd)
{
	return fcntl(fd, F_DUPFD_CLOEXEC, FIRST_FD + MAX_FDS);
}

static int make_copies(struct move *moves, int *ret_n, char *names,
		       size_t room)
{
	size_t used = 0;

	names[0] = '\0';
	for (int i = 0; i < MAX_FDS; i++) {
		struct move *move = &moves[*ret_n];

		if (kept[i].fd < 0)
			continue;
		move->copy = copy_above(kept[i].fd);
		if (move->copy < 0)
			return -errno;
		move->aside = copy_above(FIRST_FD + *ret_n);
		(*ret_n)++;
		used += (size_t)snprintf(names + used, room - used, "%s%s",
					 used ? ":" : "", kept[i].name);
	}
	return 0;
}

static void put_back(const struct move *moves, int n)
{
	for (int i = 0; i < n; i++) {
		close(moves[i].copy);
		if (moves[i].aside < 0) {
			close(FIRST_FD + i);
			continue;
		}
		dup3(moves[i].aside, FIRST_FD + i, O_CLOEXEC);
		close(moves[i].aside);
	}
}

int ts_fdstore_exec(const char *path, char *const *argv,
		    struct ts_error *error)
{
	char names[MAX_FDS * NAME_BYTES], pid[16], count[16];
	struct move moves[MAX_FDS];
	int n = 0, err;

	set_up();
	err = make_copies(moves, &n, names, sizeof(names));
	if (err == 0) {
		for (int i = 0; i < n; i++)
			dup2(moves[i].copy, FIRST_FD + i);
		snprintf(pid, sizeof(pid), "%d", getpid());
		snprintf(count, sizeof(count), "%d", n);
		setenv("LISTEN_PID", pid, 1);
		setenv("LISTEN_FDS", count, 1);
		setenv("LISTEN_FDNAMES", names, 1);
		execv(path, argv);
		err = -errno;
		unsetenv("LISTEN_PID");
		unsetenv("LISTEN_FDS");
		unsetenv("LISTEN_FDNAMES");
	}
	put_back(moves, n);
	return ts_fail(error, err, "cannot become %s: %m", path);
}
