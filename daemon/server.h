/* SPDX-License-Identifier: BSD-3-Clause */
/* server.h - a front end of the engine, as the daemon's child
 *
 * The listening socket belongs to the daemon and is lent to nbdkit: it
 * survives nbdkit's death. nbdkit itself also survives the daemon's, on
 * purpose: while swap is on, somebody must serve it. Such an orphan is taken
 * over or ended; adopt.h decides.
 */
#ifndef TS_DAEMON_SERVER_H
#define TS_DAEMON_SERVER_H

#include "config.h"
#include "error.h"
#include "front.h"
#include "runtime.h"
#include "spawn.h"

/* Start it with the command line @args, lend it @listen_fd (or -1), and note
 * its pid in the runtime directory. It answers once its probe's open()
 * succeeds.
 *
 * @realtime  let its threads run in SCHED_RR
 */
int ts_server_start(const struct ts_args *args, const struct ts_runtime *rt,
		    int listen_fd, bool realtime, struct ts_child *ret,
		    struct ts_error *error);

/* End it. Never while swap is on: nbdkit answers requests with errors once it
 * has been told to quit, and its kept memory goes away.
 */
void ts_server_stop(const struct ts_runtime *rt, struct ts_child *server);

/* Kill it, so that its kept memory stays for a successor. */
void ts_server_kill(const struct ts_runtime *rt, struct ts_child *server);

/* It has ended by itself and is reaped: forget the note. */
void ts_server_forget(const struct ts_runtime *rt);

/* Of the standby (standby.h): what names it until it is the server. */
#define TS_STANDBY_NOTE "standby.pid"
int ts_server_note(const struct ts_runtime *rt, const char *note, pid_t pid);

/* Who is noted as @note is the server now. */
int ts_server_note_moved(const struct ts_runtime *rt, const char *note,
			 struct ts_error *error);

/* Kill who is noted as @note, and wait for its end. False: there is nobody. */
bool ts_server_kill_noted(const struct ts_runtime *rt, const char *note);

/* The server that a dead daemon left in this runtime directory: its pid, or
 * 0 when there is none. One that has ended holds its locks, its socket and its
 * memory until its last thread is gone: this waits for that first.
 */
pid_t ts_server_find_orphan(const struct ts_runtime *rt);

/* Take over an orphan. It is not our child: its end is seen, its exit status
 * is not. @ret_args is its command line; its program is the first of
 * @program. Returns 0, or -ESRCH when it has ended meanwhile, or -errno.
 */
int ts_server_adopt(const struct ts_runtime *rt, pid_t pid,
		    const struct ts_args *program, struct ts_args *ret_args,
		    struct ts_child *ret, struct ts_error *error);

/* Does it run a program or plugin that is not installed any more? */
bool ts_server_is_outdated(pid_t pid);

/* End an orphan that nothing needs, and wait until it is gone. */
int ts_server_end_orphan(const struct ts_runtime *rt, pid_t pid,
			 struct ts_error *error);

#endif
