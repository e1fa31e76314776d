/* SPDX-License-Identifier: BSD-3-Clause */
/* nbd-attach.c - give a unix-socket NBD server to the kernel's nbd driver
 *
 *   nbd-attach [-C CONNECTIONS] [-w ROUNDS] [-t SECONDS] [-D SECONDS]
 *              SOCKET INDEX
 *   nbd-attach -r SOCKET INDEX     give a live device a new socket
 *   nbd-attach -d INDEX            disconnect
 *
 * The VM suite uses it for the peers, and for our plugin without thinswapd.
 * It negotiates with libnbd, sends warm-up requests over each connection so
 * that every thread of the server has grown its buffers, and passes the
 * sockets on by generic netlink. It exits when the kernel has taken them:
 * nothing of it stays in the path.
 *
 * Structured replies are turned off because the kernel does not know them
 * and would drop the connection at the first one.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <libnbd.h>
#include <linux/nbd-netlink.h>
#include <linux/nbd.h>
#include <netlink/genl/ctrl.h>
#include <netlink/genl/genl.h>

#define MAX_CONNECTIONS 16
#define WARM_PARALLEL 64
/* Twice what the kernel sends at most (queue/max_sectors_kb is 128). */
#define WARM_BYTES (256u << 10)

struct options {
	unsigned connections;
	unsigned warm_rounds;
	unsigned timeout_s;
	unsigned dead_timeout_s;
	int reconfigure;
	int disconnect;
	const char *socket;
	unsigned index;
};

static void die(const char *what, const char *why)
{
	fprintf(stderr, "nbd-attach: %s: %s\n", what, why);
	exit(1);
}

static void die_nbd(const char *what)
{
	die(what, nbd_get_error());
}

/* One round: WARM_PARALLEL requests at once, alternating writes and reads,
 * so that the server needs all its threads.
 */
static void warm_round(struct nbd_handle *nbd, char *buf, uint64_t size_bytes)
{
	uint64_t span = size_bytes / WARM_BYTES;
	int64_t cookie[WARM_PARALLEL];

	for (unsigned i = 0; i < WARM_PARALLEL; i++) {
		uint64_t off = (i % span) * WARM_BYTES;
		char *mem = buf + (size_t)i * WARM_BYTES;

		if (i % 2)
			cookie[i] = nbd_aio_pread(nbd, mem, WARM_BYTES, off,
						  NBD_NULL_COMPLETION, 0);
		else
			cookie[i] = nbd_aio_pwrite(nbd, mem, WARM_BYTES, off,
						   NBD_NULL_COMPLETION, 0);
		if (cookie[i] < 0)
			die_nbd("warm-up request");
	}
	for (unsigned i = 0; i < WARM_PARALLEL; i++) {
		int done;

		while (!(done = nbd_aio_command_completed(nbd, cookie[i])))
			if (nbd_poll(nbd, -1) < 0)
				die_nbd("warm-up poll");
		if (done < 0)
			die_nbd("warm-up");
	}
}

/* Content that neither repeats nor stays incompressible, so that the server
 * goes through its compressor, and its stacks get as deep as they will.
 */
static void fill(char *buf, size_t bytes)
{
	uint32_t random = 1;

	for (size_t i = 0; i < bytes; i++) {
		random = random * 1664525 + 1013904223;
		buf[i] = "swap"[random >> 30];
	}
}

static void warm_up(struct nbd_handle *nbd, unsigned rounds)
{
	int64_t size = nbd_get_size(nbd);
	uint64_t used = (uint64_t)WARM_PARALLEL * WARM_BYTES;
	char *buf;

	if (!rounds || size < (int64_t)WARM_BYTES)
		return;
	buf = malloc(used);
	if (!buf)
		die("warm-up", strerror(errno));
	fill(buf, used);
	for (unsigned i = 0; i < rounds; i++)
		warm_round(nbd, buf, size);
	free(buf);
	if (used > (uint64_t)size)
		used = size;
	if (nbd_can_trim(nbd) > 0 && nbd_trim(nbd, used, 0, 0) < 0)
		die_nbd("trim after the warm-up");
}

static struct nbd_handle *negotiate(const struct options *opt)
{
	struct nbd_handle *nbd = nbd_create();

	if (!nbd)
		die_nbd("libnbd");
	if (nbd_set_request_structured_replies(nbd, false) < 0)
		die_nbd("structured replies off");
	if (nbd_connect_unix(nbd, opt->socket) < 0)
		die_nbd(opt->socket);
	warm_up(nbd, opt->warm_rounds);
	return nbd;
}

static uint64_t server_flags(struct nbd_handle *nbd, unsigned connections)
{
	uint64_t flags = NBD_FLAG_HAS_FLAGS;

	if (nbd_can_flush(nbd) > 0)
		flags |= NBD_FLAG_SEND_FLUSH;
	if (nbd_can_fua(nbd) > 0)
		flags |= NBD_FLAG_SEND_FUA;
	if (nbd_can_trim(nbd) > 0)
		flags |= NBD_FLAG_SEND_TRIM;
	if (nbd_can_multi_conn(nbd) > 0)
		flags |= NBD_FLAG_CAN_MULTI_CONN;
	else if (connections > 1)
		die("connections", "the server does not offer multi-conn");
	return flags;
}

static int on_ack(struct nl_msg *msg, void *acked)
{
	*(int *)acked = 1;
	return NL_STOP;
}

/* Send and wait for the acknowledgement, which follows CONNECT's own reply. */
static void send_command(struct nl_msg *msg, struct nl_sock *sk)
{
	int acked = 0;
	int r;

	nl_socket_disable_seq_check(sk);
	nl_socket_modify_cb(sk, NL_CB_ACK, NL_CB_CUSTOM, on_ack, &acked);
	r = nl_send_auto(sk, msg);
	while (r >= 0 && !acked)
		r = nl_recvmsgs_default(sk);
	if (r < 0)
		die("netlink", nl_geterror(r));
	nlmsg_free(msg);
	nl_socket_free(sk);
}

static struct nl_msg *new_command(struct nl_sock **ret_sk, int command,
				  unsigned index)
{
	struct nl_sock *sk = nl_socket_alloc();
	struct nl_msg *msg = nlmsg_alloc();
	int family;

	if (!sk || !msg || genl_connect(sk) < 0)
		die("netlink", "cannot open a socket");
	family = genl_ctrl_resolve(sk, NBD_GENL_FAMILY_NAME);
	if (family < 0)
		die("netlink", "the kernel has no nbd family (modprobe nbd)");
	genlmsg_put(msg, NL_AUTO_PORT, NL_AUTO_SEQ, family, 0, 0, command, 0);
	nla_put_u32(msg, NBD_ATTR_INDEX, index);
	*ret_sk = sk;
	return msg;
}

static void put_sockets(struct nl_msg *msg, struct nbd_handle **nbd, unsigned n)
{
	struct nlattr *list = nla_nest_start(msg, NBD_ATTR_SOCKETS);

	for (unsigned i = 0; i < n; i++) {
		struct nlattr *item = nla_nest_start(msg, NBD_SOCK_ITEM);

		nla_put_u32(msg, NBD_SOCK_FD, nbd_aio_get_fd(nbd[i]));
		nla_nest_end(msg, item);
	}
	nla_nest_end(msg, list);
}

static void attach(const struct options *opt)
{
	struct nbd_handle *nbd[MAX_CONNECTIONS];
	struct nl_sock *sk;
	struct nl_msg *msg;

	for (unsigned i = 0; i < opt->connections; i++)
		nbd[i] = negotiate(opt);

	if (opt->reconfigure) {
		msg = new_command(&sk, NBD_CMD_RECONFIGURE, opt->index);
	} else {
		msg = new_command(&sk, NBD_CMD_CONNECT, opt->index);
		nla_put_u64(msg, NBD_ATTR_SIZE_BYTES, nbd_get_size(nbd[0]));
		nla_put_u64(msg, NBD_ATTR_BLOCK_SIZE_BYTES, 4096);
		nla_put_u64(msg, NBD_ATTR_SERVER_FLAGS,
			    server_flags(nbd[0], opt->connections));
		nla_put_u64(msg, NBD_ATTR_TIMEOUT, opt->timeout_s);
		nla_put_u64(msg, NBD_ATTR_DEAD_CONN_TIMEOUT,
			    opt->dead_timeout_s);
	}
	put_sockets(msg, nbd, opt->connections);
	send_command(msg, sk);
}

static void disconnect(const struct options *opt)
{
	struct nl_sock *sk;
	struct nl_msg *msg = new_command(&sk, NBD_CMD_DISCONNECT, opt->index);

	send_command(msg, sk);
}

static unsigned number(const char *text)
{
	char *end;
	unsigned long value = strtoul(text, &end, 10);

	if (end == text || *end || value > 100000)
		die(text, "not a number");
	return value;
}

int main(int argc, char **argv)
{
	struct options opt = {
		.connections = 1,
		.warm_rounds = 20,
		.timeout_s = 600,
		.dead_timeout_s = 600,
	};
	int c;

	while ((c = getopt(argc, argv, "C:w:t:D:rd")) != -1) {
		switch (c) {
		case 'C':
			opt.connections = number(optarg);
			break;
		case 'w':
			opt.warm_rounds = number(optarg);
			break;
		case 't':
			opt.timeout_s = number(optarg);
			break;
		case 'D':
			opt.dead_timeout_s = number(optarg);
			break;
		case 'r':
			opt.reconfigure = 1;
			break;
		case 'd':
			opt.disconnect = 1;
			break;
		default:
			return 2;
		}
	}
	if (!opt.connections || opt.connections > MAX_CONNECTIONS)
		die("-C", "1 to 16");
	if (argc - optind != (opt.disconnect ? 1 : 2))
		die("usage", "nbd-attach [-C N] [-w N] [-t S] [-D S] [-r] "
			     "SOCKET INDEX, or nbd-attach -d INDEX");
	opt.index = number(argv[argc - 1]);
	opt.socket = argv[optind];
	if (opt.disconnect)
		disconnect(&opt);
	else
		attach(&opt);
	return 0;
}
