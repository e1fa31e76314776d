// SPDX-License-Identifier: BSD-3-Clause
/* serve.c - a mounted FUSE file and the threads that answer for it
 *
 * libfuse decodes requests and encodes answers; the loop and the transport
 * are ours, because libfuse's loop starts threads when it finds itself busy
 * and gives each a buffer at its first request, and a server of swap must do
 * neither. Every thread here has, from the start:
 *
 * - a descriptor of its own, cloned (FUSE_DEV_IOC_CLONE), so that answers do
 *   not meet on one lock in the kernel. libfuse keeps its own clones private,
 *   but it reads and writes through functions that we give it, and those use
 *   the calling thread's. Where more threads were asked for than the
 *   connection was made for, some share one: what only this process had
 *   opened would be closed with it, and its requests failed;
 * - a buffer, locked and touched. The header of a write is received right
 *   before a page border, so that the data begin on it:
 *
 *	| ... 80 bytes of header | data, up to 1 MiB ... |
 *	                         ^ page border
 *
 *   The answer to a read is put together in the same place;
 * - its turn to wait for a request (turn.h);
 * - a touched stack, and a memory cache of malloc's: libfuse allocates one
 *   small structure a request and frees it at the answer, and gets the same
 *   one back each time.
 *
 * A connection begins with the kernel's INIT, once. One that is taken over has
 * it behind it, which shows in that something else comes first; libfuse, which
 * answers nothing before INIT, is then given one that we make up. Everything
 * that it agrees on is constant here, and a kernel that lets connections be
 * taken over is newer than all that libfuse makes a difference for.
 */
#include "serve.h"
#include "connection.h"
#include "file.h"
#include "turn.h"
#include "util/atomic.h"
#include "util/harden.h"
#include "util/lock.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/fuse.h>
#include <netinet/in.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

#define PAGE_BYTES 4096u
#define HEADER_BYTES                                                           \
	(sizeof(struct fuse_in_header) + sizeof(struct fuse_write_in))
#define STACK_BYTES         (256u << 10)
#define INIT_TIMEOUT_MS     10000
#define RETRY_NS            1000000u

/* Above the 128 requests that a loop device has in flight at most, each of
 * which may be cut in pieces of TS_FUSE_MAX_BYTES.
 */
#define MAX_BACKGROUND 1024u

_Static_assert(HEADER_BYTES == 80 && HEADER_BYTES < PAGE_BYTES,
	       "a header fits before the data's first page");

struct server {
	struct ts_fuse *fuse;
	pthread_t thread;
	int fd;
	bool mute;     /* the answer is not for the kernel */
	uint8_t *data; /* page-aligned; the header is right before it */
};

struct ts_fuse {
	struct ts_fuse_file file;
	struct fuse_session *session;
	char *mountpoint;
	bool mounted; /* by us */
	struct ts_fuse_connection connection;
	pthread_mutex_t init_lock;
	bool init_seen;
	struct ts_turn turn;
	int softirq_fd; /* -1: there is none */
	int ended_fd;
	void *buffers;
	unsigned n_servers, n_started;
	struct server servers[TS_FUSE_THREADS_MAX];
};

static __thread struct server *self;

void *ts_fuse_answer_buffer(void)
{
	return self->data;
}

/* libfuse asks for the session's descriptor and its own idea of the buffer's
 * size; both are ours to say.
 */
static ssize_t receive(int fd, void *buf, size_t room, void *opaque)
{
	if (room > HEADER_BYTES + TS_FUSE_MAX_BYTES)
		room = HEADER_BYTES + TS_FUSE_MAX_BYTES;
	return read(self->fd, buf, room);
}

static size_t bytes_of(const struct iovec *iov, int n)
{
	size_t bytes = 0;

	while (n--)
		bytes += iov[n].iov_len;
	return bytes;
}

/* An answer ends a request of the loop device, and the kernel wakes who waits
 * for it in a softirq. Raised by a process, that is left to ksoftirqd, which
 * comes after this thread's next requests, and competes for the processor with
 * all programs. A system call that disables bottom halves for a moment runs
 * what is pending when it enables them: the name of an internet socket is the
 * cheapest such call. Without that socket, ksoftirqd does it.
 */
static void run_softirqs(const struct ts_fuse *fuse)
{
	struct sockaddr_in name;
	socklen_t bytes = sizeof(name);

	if (fuse->softirq_fd >= 0)
		getsockname(fuse->softirq_fd, (struct sockaddr *)&name, &bytes);
}

static ssize_t answer(int fd, struct iovec *iov, int n, void *opaque)
{
	ssize_t wrote;

	if (self->mute)
		return (ssize_t)bytes_of(iov, n);
	wrote = writev(self->fd, iov, n);
	if (wrote >= 0)
		run_softirqs(self->fuse);
	return wrote;
}

static const struct fuse_custom_io transport = {
	.read = receive,
	.writev = answer,
};

static size_t server_bytes(void)
{
	return PAGE_BYTES + TS_FUSE_MAX_BYTES;
}

static int make_buffers(struct ts_fuse *fuse)
{
	size_t bytes = fuse->n_servers * server_bytes();

	fuse->buffers = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
			     MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (fuse->buffers == MAP_FAILED) {
		fuse->buffers = NULL;
		return -ENOMEM;
	}
	/* The lock is main's, and may be missing; the touch may not. */
	memset(fuse->buffers, 1, bytes);
	for (unsigned i = 0; i < fuse->n_servers; i++)
		fuse->servers[i].data = (uint8_t *)fuse->buffers +
					i * server_bytes() + PAGE_BYTES;
	return 0;
}

/* libfuse closes the descriptor that it is given, and uses it for nothing. */
static int make_session(struct ts_fuse *fuse, struct ts_error *error)
{
	char *argv[] = {(char *)"thinswap-fuse", NULL};
	struct fuse_args args = FUSE_ARGS_INIT(1, argv);
	int fd;

	fuse->session = fuse_session_new(&args, &ts_fuse_file_ops,
					 sizeof(ts_fuse_file_ops), &fuse->file);
	if (!fuse->session)
		return ts_fail(error, -ENOMEM, "no FUSE session");
	fd = fcntl(fuse->connection.fd[0], F_DUPFD_CLOEXEC, 0);
	if (fd < 0 || fuse_session_custom_io(fuse->session, &transport, fd))
		return ts_fail(error, -EINVAL, "no FUSE transport");
	return 0;
}

static int connect_it(struct ts_fuse *fuse, int connection_fd,
		      struct ts_error *error)
{
	struct ts_fuse_connection *connection = &fuse->connection;
	int err;

	if (connection_fd >= 0) {
		err = ts_fuse_connection_unpack(connection_fd, connection,
						error);
		if (err == 0)
			err = ts_fuse_connection_resend(connection, error);
	} else {
		err = ts_fuse_connection_open(fuse->mountpoint, fuse->n_servers,
					      connection, error);
		fuse->mounted = err == 0;
	}
	for (unsigned i = 0; i < fuse->n_servers && err == 0; i++)
		fuse->servers[i].fd = connection->fd[i % connection->n];
	return err;
}

int ts_fuse_mount(const struct ts_fuse_options *options, struct ts_store *store,
		  struct ts_fuse **ret, struct ts_error *error)
{
	struct ts_fuse *fuse = calloc(1, sizeof(*fuse));
	int err;

	if (!fuse)
		return ts_fail(error, -ENOMEM, "no memory");
	fuse->n_servers = options->threads;
	for (unsigned i = 0; i < fuse->n_servers; i++)
		fuse->servers[i].fuse = fuse;
	ts_mutex_init(&fuse->init_lock);
	ts_turn_init(&fuse->turn, options->may_wait);
	fuse->softirq_fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	fuse->ended_fd = eventfd(0, EFD_CLOEXEC);
	fuse->file = (struct ts_fuse_file){
		.store = store,
		.size_bytes = options->size_bytes,
		.max_background = MAX_BACKGROUND,
		.inited_fd = eventfd(0, EFD_CLOEXEC),
	};
	clock_gettime(CLOCK_REALTIME, &fuse->file.started);
	fuse->mountpoint = realpath(options->mountpoint, NULL);
	if (!fuse->mountpoint)
		err = ts_fail(error, -errno, "%s: %m", options->mountpoint);
	else if (fuse->ended_fd < 0 || fuse->file.inited_fd < 0)
		err = ts_fail(error, -EMFILE, "eventfd: %m");
	else if (make_buffers(fuse) < 0)
		err = ts_fail(error, -ENOMEM,
			      "no memory for the buffers of "
			      "%u threads",
			      fuse->n_servers);
	else
		err = connect_it(fuse, options->connection_fd, error);
	if (err == 0)
		err = make_session(fuse, error);
	if (err < 0) {
		ts_fuse_free(fuse);
		return err;
	}
	*ret = fuse;
	return 0;
}

static void touch_malloc(void)
{
	void *volatile memory = malloc(256);

	free(memory);
}

/* The INIT that this connection's first server has answered. */
static void repeat_init(struct fuse_session *session)
{
	struct {
		struct fuse_in_header header;
		struct fuse_init_in init;
	} in = {
		.header.len = sizeof(in),
		.header.opcode = FUSE_INIT,
		.init.major = FUSE_KERNEL_VERSION,
		.init.minor = FUSE_KERNEL_MINOR_VERSION,
		.init.max_readahead = TS_FUSE_MAX_BYTES,
		.init.flags = FUSE_BIG_WRITES | FUSE_ASYNC_READ |
			      FUSE_MAX_PAGES,
	};
	struct fuse_buf buf = {.mem = &in, .size = sizeof(in)};

	self->mute = true;
	fuse_session_process_buf(session, &buf);
	self->mute = false;
}

/* Before the first request is processed. */
static void see_to_init(struct ts_fuse *fuse, const struct fuse_in_header *in)
{
	if (ts_load_acquire(&fuse->init_seen))
		return;
	ts_lock(&fuse->init_lock);
	if (!fuse->init_seen && in->opcode != FUSE_INIT)
		repeat_init(fuse->session);
	/* Pairs with the load above: libfuse is ready. */
	ts_store_release(&fuse->init_seen, true);
	ts_unlock(&fuse->init_lock);
}

/* Receive one request, with the turn, and answer it, with or without. Returns
 * whether the turn was passed on, and in @ret_n what libfuse said: 0 when the
 * kernel has let go.
 */
static bool serve_one(struct server *server, int *ret_n)
{
	struct ts_fuse *fuse = server->fuse;
	struct fuse_buf buf = {
		.mem = server->data - HEADER_BYTES,
		.size = HEADER_BYTES + TS_FUSE_MAX_BYTES,
	};
	bool pass;
	int n;

	ts_turn_await(&fuse->turn, server->fd);
	n = *ret_n = fuse_session_receive_buf(fuse->session, &buf);
	pass = n <= 0 || ts_turn_is_needed(&fuse->turn, server->fd, buf.mem);
	if (pass)
		ts_turn_pass(&fuse->turn);
	if (n > 0) {
		see_to_init(fuse, buf.mem);
		fuse_session_process_buf(fuse->session, &buf);
	} else if (n < 0 && n != -EINTR) {
		ts_sleep_ns(RETRY_NS);
	}
	return pass;
}

static void *serve(void *opaque)
{
	struct server *server = opaque;
	bool have_turn = false;
	int n = 1;

	self = server;
	pthread_setname_np(pthread_self(), "ts-fuse");
	ts_harden_touch_stack();
	touch_malloc();
	/* 0: the kernel has let go. Nothing else may end a server of swap. */
	while (n) {
		if (!have_turn)
			ts_turn_take(&server->fuse->turn);
		have_turn = !serve_one(server, &n);
	}
	eventfd_write(server->fuse->ended_fd, 1);
	return NULL;
}

/* Signals are for the main thread. */
static int start_servers(struct ts_fuse *fuse)
{
	sigset_t all, before;
	pthread_attr_t attr;
	int err = 0;

	pthread_attr_init(&attr);
	pthread_attr_setstacksize(&attr, STACK_BYTES);
	sigfillset(&all);
	pthread_sigmask(SIG_BLOCK, &all, &before);
	while (fuse->n_started < fuse->n_servers && !err) {
		struct server *server = &fuse->servers[fuse->n_started];

		err = pthread_create(&server->thread, &attr, serve, server);
		if (!err)
			fuse->n_started++;
	}
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	pthread_attr_destroy(&attr);
	return -err;
}

int ts_fuse_start(struct ts_fuse *fuse, struct ts_error *error)
{
	struct pollfd inited = {.fd = fuse->file.inited_fd, .events = POLLIN};
	int err = start_servers(fuse);

	if (err < 0)
		return ts_fail(error, err, "start a thread: %m");
	/* On one that was lent to us the kernel may have had its answer. */
	if (!fuse->mounted)
		return 0;
	if (poll(&inited, 1, INIT_TIMEOUT_MS) != 1)
		return ts_fail(error, -ETIMEDOUT,
			       "the kernel did not take up the connection");
	return 0;
}

int ts_fuse_ended_fd(const struct ts_fuse *fuse)
{
	return fuse->ended_fd;
}

int ts_fuse_unmount(struct ts_fuse *fuse)
{
	if (umount2(fuse->mountpoint, UMOUNT_NOFOLLOW) < 0 && errno != EINVAL)
		return -errno;
	fuse->mounted = false;
	return 0;
}

void ts_fuse_free(struct ts_fuse *fuse)
{
	if (!fuse)
		return;
	if (fuse->mounted)
		umount2(fuse->mountpoint, UMOUNT_NOFOLLOW | MNT_DETACH);
	while (fuse->n_started)
		pthread_join(fuse->servers[--fuse->n_started].thread, NULL);
	if (fuse->session)
		fuse_session_destroy(fuse->session);
	ts_fuse_connection_close(&fuse->connection);
	if (fuse->buffers)
		munmap(fuse->buffers, fuse->n_servers * server_bytes());
	if (fuse->ended_fd >= 0)
		close(fuse->ended_fd);
	if (fuse->file.inited_fd >= 0)
		close(fuse->file.inited_fd);
	if (fuse->softirq_fd >= 0)
		close(fuse->softirq_fd);
	ts_turn_fini(&fuse->turn);
	pthread_mutex_destroy(&fuse->init_lock);
	free(fuse->mountpoint);
	free(fuse);
}
