// SPDX-License-Identifier: BSD-3-Clause
/* secret.c - what is swapped cannot be found in the spill file
 *
 *	ts-spill-secret [--plain]
 *
 * Pages with a marker, compressible and not, are spilled, and the whole file is
 * searched for it. With --plain the marker must be there: the search can find.
 */
#include "tests/spill/rig.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char marker[] = "MARKER-of-a-secret-page-7c0ffee1";

/* Every eighth part of a page begins with the marker; the rest compresses, or
 * does not.
 */
static void make(uint8_t *page, unsigned slot)
{
	page_make(page, slot % 2 ? PAGE_RANDOM : PAGE_TEXT, slot);
	for (unsigned at = 0; at < PAGE_BYTES; at += PAGE_BYTES / 8)
		memcpy(page + at, marker, sizeof(marker) - 1);
}

static unsigned count_in_file(int fd)
{
	static uint8_t buf[MIB + sizeof(marker)];
	unsigned n = 0;
	off_t off = 0;
	ssize_t got;

	while ((got = pread(fd, buf, sizeof(buf), off)) > 0) {
		const uint8_t *at = buf, *end = buf + got;

		while ((at = memmem(at, (size_t)(end - at), marker,
				    sizeof(marker) - 1))) {
			n++;
			at++;
		}
		off += (off_t)MIB;
	}
	return n;
}

int main(int argc, char **argv)
{
	bool plain = argc > 1 && !strcmp(argv[1], "--plain");
	uint8_t page[PAGE_BYTES], now[PAGE_BYTES];
	struct spill_rig rig;
	unsigned found;

	spill_rig_init(&rig, 64 * MIB, 8 * MIB, 64 * MIB);
	rig.params.encrypt = !plain;
	spill_rig_start(&rig);
	for (unsigned slot = 0; slot < rig.n_slots; slot++) {
		make(page, slot);
		if (ts_store_write(rig.store, page, PAGE_BYTES, slot * 4096ull))
			rig_die("a write failed");
	}
	spill_rig_check(&rig);
	if (spill_rig_counters(&rig).spill_slots < rig.n_slots / 4)
		rig_die("hardly anything was spilled");
	for (unsigned slot = 0; slot < rig.n_slots; slot++) {
		make(page, slot);
		if (ts_store_read(rig.store, now, PAGE_BYTES, slot * 4096ull) ||
		    memcmp(page, now, PAGE_BYTES))
			rig_die("slot %u cannot be read", slot);
	}
	found = count_in_file(rig.fd);
	printf("%s: the marker is %u times in the file\n",
	       spill_rig_counters(&rig).spill_cipher, found);
	if (plain != (found > 0))
		rig_die("%s", plain ? "the search does not find" :
				      "a secret is in the file");
	if (plain != !!strstr(rig.said ? rig.said : "", "encrypt=false"))
		rig_die("the log on plaintext: %s", rig.said);
	spill_rig_end(&rig);
	return EXIT_SUCCESS;
}
