// SPDX-License-Identifier: BSD-3-Clause
/* test_nbdnl.c - messages to the kernel's nbd driver, attribute by attribute */
#include "nbdnl.h"
#include "run.h"

#include <linux/nbd-netlink.h>
#include <netlink/attr.h>
#include <netlink/genl/genl.h>
#include <netlink/msg.h>

#define FAMILY 0x1234

static const int sockets[] = {5, 7, 9};

static const struct ts_nbdnl_device device = {
	.index = 3,
	.sockets = sockets,
	.n_sockets = 3,
	.size_bytes = 1ull << 42,
	.block_bytes = 4096,
	.timeout_s = 60,
	.dead_conn_timeout_s = 600,
	.server_flags = 0x165,
	.backend = "thinswap /run/thinswap",
};

/* The kernel's own policy (drivers/block/nbd.c): 64-bit numbers but for the
 * index and the descriptor, which have 32; sockets nested twice.
 */
static void parse(struct nl_msg *msg, int command, struct nlattr **attrs)
{
	struct nla_policy policy[NBD_ATTR_MAX + 1] = {
		[NBD_ATTR_INDEX] = {.type = NLA_U32},
		[NBD_ATTR_SIZE_BYTES] = {.type = NLA_U64},
		[NBD_ATTR_BLOCK_SIZE_BYTES] = {.type = NLA_U64},
		[NBD_ATTR_TIMEOUT] = {.type = NLA_U64},
		[NBD_ATTR_SERVER_FLAGS] = {.type = NLA_U64},
		[NBD_ATTR_CLIENT_FLAGS] = {.type = NLA_U64},
		[NBD_ATTR_SOCKETS] = {.type = NLA_NESTED},
		[NBD_ATTR_DEAD_CONN_TIMEOUT] = {.type = NLA_U64},
		[NBD_ATTR_BACKEND_IDENTIFIER] = {.type = NLA_STRING},
	};
	struct nlmsghdr *head;

	ck_assert_ptr_nonnull(msg);
	head = nlmsg_hdr(msg);
	ck_assert_int_eq(head->nlmsg_type, FAMILY);
	ck_assert_int_eq(genlmsg_hdr(head)->cmd, command);
	ck_assert_int_eq(genlmsg_hdr(head)->version, NBD_GENL_VERSION);
	ck_assert_int_eq(genlmsg_parse(head, 0, attrs, NBD_ATTR_MAX, policy),
			 0);
}

static void check_sockets(struct nlattr *list)
{
	struct nlattr *item, *parts[NBD_SOCK_MAX + 1];
	unsigned n = 0;
	int left;

	ck_assert_ptr_nonnull(list);
	nla_for_each_nested(item, list, left)
	{
		ck_assert_int_eq(nla_type(item), NBD_SOCK_ITEM);
		ck_assert_int_eq(
			nla_parse_nested(parts, NBD_SOCK_MAX, item, NULL), 0);
		ck_assert_int_eq(nla_len(parts[NBD_SOCK_FD]), 4);
		ck_assert_int_eq(nla_get_u32(parts[NBD_SOCK_FD]), sockets[n]);
		n++;
	}
	ck_assert_uint_eq(n, 3);
}

START_TEST(connect_names_everything)
{
	struct nlattr *a[NBD_ATTR_MAX + 1];
	struct nl_msg *msg = ts_nbdnl_build(FAMILY, NBD_CMD_CONNECT, &device);

	parse(msg, NBD_CMD_CONNECT, a);
	ck_assert_uint_eq(nla_get_u32(a[NBD_ATTR_INDEX]), 3);
	ck_assert_uint_eq(nla_get_u64(a[NBD_ATTR_SIZE_BYTES]), 1ull << 42);
	ck_assert_uint_eq(nla_get_u64(a[NBD_ATTR_BLOCK_SIZE_BYTES]), 4096);
	ck_assert_uint_eq(nla_get_u64(a[NBD_ATTR_TIMEOUT]), 60);
	ck_assert_uint_eq(nla_get_u64(a[NBD_ATTR_DEAD_CONN_TIMEOUT]), 600);
	ck_assert_uint_eq(nla_get_u64(a[NBD_ATTR_SERVER_FLAGS]), 0x165);
	ck_assert_str_eq(nla_get_string(a[NBD_ATTR_BACKEND_IDENTIFIER]),
			 "thinswap /run/thinswap");
	check_sockets(a[NBD_ATTR_SOCKETS]);
	nlmsg_free(msg);
}
END_TEST

START_TEST(connect_lets_the_kernel_choose)
{
	struct nlattr *a[NBD_ATTR_MAX + 1];
	struct ts_nbdnl_device any = device;
	struct nl_msg *msg;

	any.index = -1;
	msg = ts_nbdnl_build(FAMILY, NBD_CMD_CONNECT, &any);
	parse(msg, NBD_CMD_CONNECT, a);
	ck_assert_ptr_null(a[NBD_ATTR_INDEX]);
	nlmsg_free(msg);
}
END_TEST

START_TEST(reconfigure_keeps_the_size)
{
	struct nlattr *a[NBD_ATTR_MAX + 1];
	struct nl_msg *msg =
		ts_nbdnl_build(FAMILY, NBD_CMD_RECONFIGURE, &device);

	parse(msg, NBD_CMD_RECONFIGURE, a);
	ck_assert_uint_eq(nla_get_u32(a[NBD_ATTR_INDEX]), 3);
	ck_assert_ptr_null(a[NBD_ATTR_SIZE_BYTES]);
	ck_assert_str_eq(nla_get_string(a[NBD_ATTR_BACKEND_IDENTIFIER]),
			 "thinswap /run/thinswap");
	check_sockets(a[NBD_ATTR_SOCKETS]);
	nlmsg_free(msg);
}
END_TEST

START_TEST(disconnect_names_the_device_alone)
{
	struct nlattr *a[NBD_ATTR_MAX + 1];
	struct nl_msg *msg =
		ts_nbdnl_build(FAMILY, NBD_CMD_DISCONNECT, &device);

	parse(msg, NBD_CMD_DISCONNECT, a);
	ck_assert_uint_eq(nla_get_u32(a[NBD_ATTR_INDEX]), 3);
	ck_assert_ptr_null(a[NBD_ATTR_SOCKETS]);
	nlmsg_free(msg);
}
END_TEST

int main(void)
{
	TCase *tcase = tcase_create("nbdnl");

	tcase_add_test(tcase, connect_names_everything);
	tcase_add_test(tcase, connect_lets_the_kernel_choose);
	tcase_add_test(tcase, reconfigure_keeps_the_size);
	tcase_add_test(tcase, disconnect_names_the_device_alone);
	return run_case(tcase);
}
