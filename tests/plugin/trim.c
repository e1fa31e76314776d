/* SPDX-License-Identifier: BSD-3-Clause */
/* trim.c - dropping a lot at once (case 22)
 *
 * Time is not asserted. What a trim may cost is counted in the reads that one
 * other connection completes meanwhile: few while empty space is trimmed (the
 * slots are not looked at one by one), and some while a million stored slots
 * are dropped (readers are not shut out until it is over).
 */
#include "nbdtest.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define STEP    (4 * NT_GIB - NT_PAGE) /* the most one request may cover */
#define READERS 4u
#define ROUNDS  8u
#define PARTS   8u
/* An empty 4 GiB is 2048 clusters: a trim that asks each once costs about as
 * much as a read, one that asks 1048575 slots hundreds.
 */
#define READS_AN_EMPTY_TRIM 50u

static struct nbd_handle *nbd;
static uint64_t slots = STEP / NT_PAGE;
static _Atomic uint64_t reads_done, trimmed_to;
static _Atomic bool stop;

static void stored_page(uint8_t *page, uint64_t slot)
{
	uint64_t stamp = slot + 1;

	memset(page, 0, NT_PAGE);
	memcpy(page, &stamp, sizeof(stamp));
}

/* Slots below trimmed_to may have been dropped, the others are stored. */
static void *reader(void *opaque)
{
	struct nbd_handle *mine = nt_connect();
	uint8_t got[NT_PAGE], want[NT_PAGE];
	uint64_t state = (uintptr_t)opaque, slot;

	while (!atomic_load(&stop)) {
		slot = nt_rand(&state) % slots;
		must(nbd_pread(mine, got, NT_PAGE, slot * NT_PAGE, 0));
		stored_page(want, slot);
		if (memcmp(got, want, NT_PAGE) != 0)
			check(slot < atomic_load(&trimmed_to) &&
				      nt_is_zero(got, NT_PAGE),
			      "slot %llu is neither stored nor zero",
			      (unsigned long long)slot);
		atomic_fetch_add(&reads_done, 1);
	}
	nt_disconnect(mine);
	return NULL;
}

static void *empty_reader(void *opaque)
{
	struct nbd_handle *mine = nt_connect();
	uint8_t got[NT_PAGE];

	while (!atomic_load(&stop)) {
		must(nbd_pread(mine, got, NT_PAGE, 0, 0));
		atomic_fetch_add(&reads_done, 1);
	}
	nt_disconnect(mine);
	return NULL;
}

static void start(pthread_t *thread, void *(*fn)(void *), unsigned self)
{
	check(pthread_create(thread, NULL, fn, (void *)(uintptr_t)self) == 0,
	      "pthread_create");
}

static unsigned trim_all(void)
{
	uint64_t off, len, size = must(nbd_get_size(nbd));
	unsigned trims = 0;

	for (off = 0; off < size; off += len) {
		len = size - off < STEP ? size - off : STEP;
		must(nbd_trim(nbd, len, off, 0));
		trims++;
	}
	return trims;
}

/* Twice over the empty device; another process may take the CPU away in any
 * round, so the best of some is what counts.
 */
static void trim_empty(void)
{
	uint64_t before, reads, best = UINT64_MAX;
	unsigned round, trims = 0;
	pthread_t thread;

	start(&thread, empty_reader, 0);
	for (round = 0; round < ROUNDS; round++) {
		before = atomic_load(&reads_done);
		trims = trim_all();
		reads = atomic_load(&reads_done) - before;
		best = reads < best ? reads : best;
		if (round > 0 && best <= trims * READS_AN_EMPTY_TRIM)
			break;
	}
	atomic_store(&stop, true);
	pthread_join(thread, NULL);
	printf("%u trims of empty space took as long as %llu reads\n", trims,
	       (unsigned long long)best);
	check(best <= trims * READS_AN_EMPTY_TRIM,
	      "a trim of empty space looks at too much");
}

static void store_all(void)
{
	uint64_t slot, n, i, batch = NT_MIB / NT_PAGE;
	uint8_t *buf = malloc(NT_MIB);

	check(buf, "out of memory");
	for (slot = 0; slot <= slots; slot += n) {
		n = slots + 1 - slot < batch ? slots + 1 - slot : batch;
		for (i = 0; i < n; i++)
			stored_page(buf + i * NT_PAGE, slot + i);
		must(nbd_pwrite(nbd, buf, n * NT_PAGE, slot * NT_PAGE, 0));
	}
	free(buf);
}

/* Drop one part; true when each reader got several reads done meanwhile. A
 * few always fit in before the server has seen the request.
 */
static bool readers_go_on(unsigned part)
{
	uint64_t first = slots * part / PARTS, end = slots * (part + 1) / PARTS;
	uint64_t before, during;

	atomic_store(&trimmed_to, end);
	before = atomic_load(&reads_done);
	must(nbd_trim(nbd, (end - first) * NT_PAGE, first * NT_PAGE, 0));
	during = atomic_load(&reads_done) - before;
	printf("%llu reads while %llu slots were dropped\n",
	       (unsigned long long)during, (unsigned long long)(end - first));
	return during >= 4 * READERS;
}

static void trim_stored(void)
{
	unsigned part, i, good = 0;
	pthread_t threads[READERS];
	uint8_t page[NT_PAGE];
	uint64_t slot;

	atomic_store(&stop, false);
	atomic_store(&reads_done, 0);
	for (i = 0; i < READERS; i++)
		start(&threads[i], reader, i);
	while (atomic_load(&reads_done) < 100 * READERS)
		usleep(1000);
	for (part = 0; part < PARTS; part++)
		good += readers_go_on(part);
	atomic_store(&stop, true);
	for (i = 0; i < READERS; i++)
		pthread_join(threads[i], NULL);
	check(good > PARTS / 2, "readers wait for a trim to end");

	stored_page(page, slots);
	nt_expect(nbd, page, NT_PAGE, slots * NT_PAGE);
	memset(page, 0, NT_PAGE);
	for (slot = 0; slot < slots; slot += 509)
		nt_expect(nbd, page, NT_PAGE, slot * NT_PAGE);
}

int main(void)
{
	/* Other plugins would need the memory uncompressed. */
	if (!nt_server_is_thinswap() || nt_server_is_sanitized())
		slots /= 16;
	nbd = nt_connect();
	trim_empty();
	store_all();
	trim_stored();
	nt_disconnect(nbd);
	return 0;
}
