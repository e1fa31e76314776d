// SPDX-License-Identifier: BSD-3-Clause
/* check_main.c - `thinswap check` alone, for the golden tests */
#include "cli/cmd_check.h"

int main(int argc, char **argv)
{
	argv[0] = (char[]){"check"};
	return ts_cmd_check(argc, argv, false);
}
