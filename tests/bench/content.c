/* SPDX-License-Identifier: BSD-3-Clause */
/* content.c - the pages a benchmark writes, and which one each slot holds
 *
 * The memory holds the file and once more its beginning, as far as the
 * longest request reaches, so that no request has to be cut at the end.
 */
#include "content.h"

#include <err.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

static void read_fully(int fd, uint8_t *to, size_t bytes, const char *name)
{
	while (bytes) {
		ssize_t got = read(fd, to, bytes);

		if (got < 0)
			err(1, "%s", name);
		if (!got)
			errx(1, "%s became shorter", name);
		to += got;
		bytes -= got;
	}
}

void ts_content_init(struct ts_content *content, const char *file,
		     uint64_t slots)
{
	int fd = open(file, O_RDONLY | O_CLOEXEC);
	struct stat st;

	if (fd < 0 || fstat(fd, &st) < 0)
		err(1, "%s", file);

	uint64_t n = st.st_size / TS_PAGE_BYTES;

	if (!n || n >= TS_SLOT_EMPTY)
		errx(1, "%s: holds %llu pages", file, (unsigned long long)n);

	size_t bytes = (n + TS_CONTENT_MAX_PAGES) * TS_PAGE_BYTES;
	uint8_t *pages = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
			      MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (pages == MAP_FAILED)
		err(1, "memory for %s", file);
	read_fully(fd, pages, n * TS_PAGE_BYTES, file);
	for (uint64_t i = 0; i < TS_CONTENT_MAX_PAGES; i++)
		memcpy(pages + (n + i) * TS_PAGE_BYTES,
		       pages + (i % n) * TS_PAGE_BYTES, TS_PAGE_BYTES);
	close(fd);

	content->pages = pages;
	content->n_pages = n;
	content->n_slots = slots ? slots : n;
	content->slot = malloc(content->n_slots * sizeof(*content->slot));
	if (!content->slot)
		err(1, "memory for slots");
	ts_content_dropped(content, 0, content->n_slots);
}

const uint8_t *ts_content_pages(const struct ts_content *content,
				uint64_t index)
{
	return content->pages + index % content->n_pages * TS_PAGE_BYTES;
}

void ts_content_make(const struct ts_content *content, uint64_t slot,
		     uint64_t n, uint64_t index, uint8_t *ret_data)
{
	memcpy(ret_data, ts_content_pages(content, index), n * TS_PAGE_BYTES);
	for (; content->unique && n; n--, slot++, ret_data += TS_PAGE_BYTES)
		memcpy(ret_data, &slot, sizeof(slot));
}

void ts_content_wrote(struct ts_content *content, uint64_t slot, uint64_t n,
		      uint64_t index)
{
	for (uint64_t i = 0; i < n; i++)
		content->slot[slot + i] = (index + i) % content->n_pages;
}

void ts_content_dropped(struct ts_content *content, uint64_t slot, uint64_t n)
{
	for (uint64_t i = 0; i < n; i++)
		content->slot[slot + i] = TS_SLOT_EMPTY;
}

uint64_t ts_content_wrong(const struct ts_content *content, uint64_t slot,
			  uint64_t n, const uint8_t *data)
{
	uint8_t want[TS_PAGE_BYTES];
	uint64_t wrong = 0;

	for (uint64_t i = 0; i < n; i++) {
		uint32_t index = content->slot[slot + i];

		if (index == TS_SLOT_EMPTY)
			memset(want, 0, sizeof(want));
		else
			ts_content_make(content, slot + i, 1, index, want);
		wrong += memcmp(want, data + i * TS_PAGE_BYTES,
				TS_PAGE_BYTES) != 0;
	}
	return wrong;
}
