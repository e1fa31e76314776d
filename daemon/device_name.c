// SPDX-License-Identifier: BSD-3-Clause
/* device_name.c - the name of a kernel nbd device, as people write it */
#include "device_name.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

int ts_device_name_parse(const char *text, int *ret_index, char *err,
			 size_t err_bytes)
{
	const char *name = text, *p;
	unsigned index = 0;

	if (strcmp(text, "auto") == 0) {
		*ret_index = -1;
		return 0;
	}
	if (strncmp(name, "/dev/", 5) == 0)
		name += 5;
	if (strncmp(name, "nbd", 3) != 0 || !isdigit((unsigned char)name[3])) {
		snprintf(err, err_bytes, "\"%s\" is not an nbd device", text);
		return -EINVAL;
	}
	for (p = name + 3; isdigit((unsigned char)*p); p++) {
		index = index * 10 + (*p - '0');
		if (index > TS_NBD_INDEX_MAX) {
			snprintf(err, err_bytes, "\"%s\" has too high a number",
				 text);
			return -EINVAL;
		}
	}
	if (*p == 'p' && isdigit((unsigned char)p[1])) {
		snprintf(err, err_bytes,
			 "\"%s\" is a partition; swap takes the whole device",
			 text);
		return -EINVAL;
	}
	if (*p != '\0' || (name[3] == '0' && p - name > 4)) {
		snprintf(err, err_bytes, "\"%s\" is not an nbd device", text);
		return -EINVAL;
	}
	*ret_index = index;
	return 0;
}

char *ts_device_name_path(int index, char buf[TS_DEVICE_PATH_BYTES])
{
	snprintf(buf, TS_DEVICE_PATH_BYTES, "/dev/nbd%d", index);
	return buf;
}
