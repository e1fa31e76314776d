// SPDX-License-Identifier: BSD-3-Clause
/* config_keys_main.c - print the table of keys, for the lint of the docs
 *
 * One key a line: section, name, default, allowed, live, served, with tabs
 * between.
 */
#include "config_keys.h"

#include <stdio.h>

int main(void)
{
	const struct ts_config_key *keys;
	char allowed[256];
	unsigned n;

	keys = ts_config_keys(&n);
	for (unsigned i = 0; i < n; i++) {
		ts_config_key_allowed(&keys[i], allowed, sizeof(allowed));
		printf("%s\t%s\t%s\t%s\t%s\n", keys[i].section,
		       keys[i].name, keys[i].default_text, allowed,
		       keys[i].live ? "live" : "");
	}
	return 0;
}
