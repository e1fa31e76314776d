// SPDX-License-Identifier: BSD-3-Clause
/* nbdnl.c - the kernel's nbd driver over generic netlink
 *
 * CONNECT is answered twice: by a message with the index, then by the
 * acknowledgement. Each is a datagram of its own, so receiving goes on until
 * the acknowledgement or an error has come.
 */
#include "nbdnl.h"

#include <errno.h>
#include <linux/nbd-netlink.h>
#include <netlink/genl/ctrl.h>
#include <netlink/genl/genl.h>
#include <netlink/netlink.h>
#include <stdlib.h>

struct answer {
	bool done;
	int err;
	int index;
};

static int on_message(struct nl_msg *msg, void *opaque)
{
	struct answer *answer = opaque;
	struct nlattr *attrs[NBD_ATTR_MAX + 1];

	if (genlmsg_parse(nlmsg_hdr(msg), 0, attrs, NBD_ATTR_MAX, NULL) == 0 &&
	    attrs[NBD_ATTR_INDEX])
		answer->index = nla_get_u32(attrs[NBD_ATTR_INDEX]);
	return NL_OK;
}

static int on_ack(struct nl_msg *msg, void *opaque)
{
	struct answer *answer = opaque;

	answer->done = true;
	return NL_STOP;
}

static int on_error(struct sockaddr_nl *from, struct nlmsgerr *told,
		    void *opaque)
{
	struct answer *answer = opaque;

	answer->err = told->error;
	answer->done = true;
	return NL_STOP;
}

static int open_family(struct nl_sock **ret_sock, int *ret_family)
{
	struct nl_sock *sock = nl_socket_alloc();
	int err;

	if (!sock)
		return -ENOMEM;
	err = genl_connect(sock);
	if (err == 0)
		err = genl_ctrl_resolve(sock, NBD_GENL_FAMILY_NAME);
	if (err < 0) {
		nl_socket_free(sock);
		return err == -NLE_OBJ_NOTFOUND ? -ENOENT : -EIO;
	}
	*ret_sock = sock;
	*ret_family = err;
	return 0;
}

int ts_nbdnl_probe(void)
{
	struct nl_sock *sock;
	int family, err;

	err = open_family(&sock, &family);
	if (err == 0)
		nl_socket_free(sock);
	return err;
}

static int put_sockets(struct nl_msg *msg, const int *sockets, unsigned n)
{
	struct nlattr *list = nla_nest_start(msg, NBD_ATTR_SOCKETS);

	if (!list)
		return -ENOMEM;
	for (unsigned i = 0; i < n; i++) {
		struct nlattr *item = nla_nest_start(msg, NBD_SOCK_ITEM);

		if (!item || nla_put_u32(msg, NBD_SOCK_FD, sockets[i]) < 0)
			return -ENOMEM;
		nla_nest_end(msg, item);
	}
	nla_nest_end(msg, list);
	return 0;
}

static int put_connect(struct nl_msg *msg, const struct ts_nbdnl_device *device)
{
	int err = 0;

	if (device->index >= 0)
		err |= nla_put_u32(msg, NBD_ATTR_INDEX, device->index);
	err |= nla_put_u64(msg, NBD_ATTR_SIZE_BYTES, device->size_bytes);
	err |= nla_put_u64(msg, NBD_ATTR_BLOCK_SIZE_BYTES, device->block_bytes);
	err |= nla_put_u64(msg, NBD_ATTR_SERVER_FLAGS, device->server_flags);
	return err;
}

static int put_common(struct nl_msg *msg, const struct ts_nbdnl_device *device)
{
	int err = 0;

	err |= nla_put_u64(msg, NBD_ATTR_TIMEOUT, device->timeout_s);
	err |= nla_put_u64(msg, NBD_ATTR_DEAD_CONN_TIMEOUT,
			   device->dead_conn_timeout_s);
	if (device->n_sockets)
		err |= put_sockets(msg, device->sockets, device->n_sockets);
	if (device->backend)
		err |= nla_put_string(msg, NBD_ATTR_BACKEND_IDENTIFIER,
				      device->backend);
	return err;
}

struct nl_msg *ts_nbdnl_build(int family, int command,
			      const struct ts_nbdnl_device *device)
{
	struct nl_msg *msg = nlmsg_alloc();
	int err = 0;

	if (!msg)
		return NULL;
	if (!genlmsg_put(msg, NL_AUTO_PORT, NL_AUTO_SEQ, family, 0, 0, command,
			 NBD_GENL_VERSION))
		err = -ENOMEM;
	if (err == 0 && command == NBD_CMD_CONNECT)
		err = put_connect(msg, device);
	else if (err == 0)
		err = nla_put_u32(msg, NBD_ATTR_INDEX, device->index);
	if (err == 0 && command != NBD_CMD_DISCONNECT)
		err = put_common(msg, device);
	if (err != 0) {
		nlmsg_free(msg);
		return NULL;
	}
	return msg;
}

static int exchange(struct nl_sock *sock, struct nl_msg *msg,
		    struct answer *answer)
{
	struct nl_cb *cb = nl_cb_alloc(NL_CB_DEFAULT);
	int err;

	if (!cb)
		return -ENOMEM;
	nl_cb_set(cb, NL_CB_VALID, NL_CB_CUSTOM, on_message, answer);
	nl_cb_set(cb, NL_CB_ACK, NL_CB_CUSTOM, on_ack, answer);
	nl_cb_err(cb, NL_CB_CUSTOM, on_error, answer);
	err = nl_send_auto(sock, msg);
	while (err >= 0 && !answer->done)
		err = nl_recvmsgs(sock, cb);
	nl_cb_put(cb);
	/* nl_recvmsgs returns what on_error saw in libnl's own numbers. */
	return answer->done ? answer->err : -EIO;
}

/* What ts_nbdnl_prepare() opened. */
static struct nl_sock *open_sock; /* NULL: nothing */
static int open_sock_family;

int ts_nbdnl_prepare(struct ts_error *error)
{
	int err;

	if (open_sock)
		return 0;
	err = open_family(&open_sock, &open_sock_family);
	if (err < 0)
		open_sock = NULL;
	return err < 0 ? ts_fail(error, err, "the kernel's nbd driver does "
				 "not answer: %m") : 0;
}

static int command(int what, const struct ts_nbdnl_device *device,
		   int *ret_index)
{
	struct answer answer = {.index = -1};
	struct nl_sock *sock = open_sock;
	int family = open_sock_family;
	struct nl_msg *msg;
	int err;

	open_sock = NULL;
	err = sock ? 0 : open_family(&sock, &family);
	if (err < 0)
		return err;
	msg = ts_nbdnl_build(family, what, device);
	err = msg ? exchange(sock, msg, &answer) : -ENOMEM;
	nlmsg_free(msg);
	nl_socket_free(sock);
	if (err == 0 && ret_index)
		*ret_index = answer.index;
	return err;
}

int ts_nbdnl_connect(const struct ts_nbdnl_device *device, int *ret_index,
		     struct ts_error *error)
{
	int index, err = command(NBD_CMD_CONNECT, device, &index);

	if (err == -EBUSY && device->index >= 0)
		return ts_fail(error, err,
			       "/dev/nbd%d is connected to "
			       "something else",
			       device->index);
	if (err == -EPERM)
		return ts_fail(error, err,
			       "connecting an nbd device needs "
			       "CAP_SYS_ADMIN");
	if (err < 0)
		return ts_fail(error, err, "nbd connect: %m");
	if (index < 0)
		return ts_fail(error, -EPROTO,
			       "nbd connect: the kernel named no device");
	*ret_index = index;
	return 0;
}

int ts_nbdnl_reconfigure(const struct ts_nbdnl_device *device,
			 struct ts_error *error)
{
	int err = command(NBD_CMD_RECONFIGURE, device, NULL);

	return err < 0 ? ts_fail(error, err, "nbd reconfigure of nbd%d: %m",
				 device->index)
		       : 0;
}

int ts_nbdnl_disconnect(int index, struct ts_error *error)
{
	struct ts_nbdnl_device device = {.index = index};
	int err = command(NBD_CMD_DISCONNECT, &device, NULL);

	return err < 0 ? ts_fail(error, err, "nbd disconnect of nbd%d: %m",
				 index)
		       : 0;
}

struct ts_nbdnl_link {
	struct nl_sock *sock;
	int index; /* that is looked for */
	bool died;
};

static int on_link(struct nl_msg *msg, void *opaque)
{
	struct genlmsghdr *head = nlmsg_data(nlmsg_hdr(msg));
	struct nlattr *attrs[NBD_ATTR_MAX + 1];
	struct ts_nbdnl_link *link = opaque;

	if (head->cmd != NBD_CMD_LINK_DEAD ||
	    nla_parse(attrs, NBD_ATTR_MAX, genlmsg_attrdata(head, 0),
		      genlmsg_attrlen(head, 0), NULL) < 0 ||
	    !attrs[NBD_ATTR_INDEX])
		return NL_OK;
	if ((int)nla_get_u32(attrs[NBD_ATTR_INDEX]) == link->index)
		link->died = true;
	return NL_OK;
}

int ts_nbdnl_listen(struct ts_nbdnl_link **ret, int *ret_fd,
		    struct ts_error *error)
{
	struct ts_nbdnl_link *link = calloc(1, sizeof(*link));
	int group = -1, err;

	if (!link)
		return ts_fail(error, -ENOMEM, "netlink: %m");
	link->sock = nl_socket_alloc();
	if (!link->sock) {
		free(link);
		return ts_fail(error, -ENOMEM, "netlink: %m");
	}
	/* What comes is no answer to anything. */
	nl_socket_disable_seq_check(link->sock);
	nl_socket_modify_cb(link->sock, NL_CB_VALID, NL_CB_CUSTOM, on_link,
			    link);
	err = genl_connect(link->sock);
	if (err == 0)
		err = group = genl_ctrl_resolve_grp(link->sock,
						    NBD_GENL_FAMILY_NAME,
						    NBD_GENL_MCAST_GROUP_NAME);
	if (err >= 0)
		err = nl_socket_add_membership(link->sock, group);
	if (err >= 0)
		err = nl_socket_set_nonblocking(link->sock);
	if (err < 0) {
		ts_fail(error, -EIO, "netlink: %s", nl_geterror(err));
		ts_nbdnl_unlisten(link);
		return -EIO;
	}
	*ret_fd = nl_socket_get_fd(link->sock);
	*ret = link;
	return 0;
}

bool ts_nbdnl_link_died(struct ts_nbdnl_link *link, int index)
{
	link->index = index;
	link->died = false;
	while (nl_recvmsgs_default(link->sock) >= 0)
		;
	return link->died;
}

void ts_nbdnl_unlisten(struct ts_nbdnl_link *link)
{
	if (!link)
		return;
	nl_socket_free(link->sock);
	free(link);
}
