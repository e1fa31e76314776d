/* SPDX-License-Identifier: BSD-3-Clause */
/* trim.c - dropping a lot at once (case 22)
 *
 * Time is not asserted. What a trim of empty space may cost is counted in the
 * reads that another connection completes meanwhile: few, since slots are not
 * looked at one by one. While a million stored slots are dropped, readers are
 * not shut out: they see the first slot gone and, read after that, the last
 * one still there (or the other way round), so the reads came in between.
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
/* An empty 4 GiB is 2048 clusters: a trim that asks each once costs about as
 * much as a read, one that asks 1048575 slots hundreds.
 */
#define READS_AN_EMPTY_TRIM 50u
/* Dropping a million slots costs as much as thousands of reads. */
#define READS_IN_BETWEEN 8u

static struct nbd_handle *nbd;
static uint64_t slots = STEP / NT_PAGE;
static _Atomic uint64_t reads_done, reads_between;
static _Atomic bool stop, dropping;

static void stored_page(uint8_t *page, uint64_t slot)
{
	uint64_t stamp = slot + 1;

	memset(page, 0, NT_PAGE);
	memcpy(page, &stamp, sizeof(stamp));
}

/* Read a slot, which is whole or gone; whether it is gone. */
static bool is_gone(struct nbd_handle *mine, uint64_t slot)
{
	uint8_t got[NT_PAGE], want[NT_PAGE];

	must(nbd_pread(mine, got, NT_PAGE, slot * NT_PAGE, 0));
	stored_page(want, slot);
	if (memcmp(got, want, NT_PAGE) == 0)
		return false;
	check(atomic_load(&dropping) && nt_is_zero(got, NT_PAGE),
	      "slot %llu is neither stored nor zero", (unsigned long long)slot);
	return true;
}

static void *reader(void *opaque)
{
	struct nbd_handle *mine = nt_connect();
	uint64_t state = (uintptr_t)opaque, last = slots - 1;

	while (!atomic_load(&stop)) {
		is_gone(mine, nt_rand(&state) % slots);
		if ((is_gone(mine, 0) && !is_gone(mine, last)) ||
		    (is_gone(mine, last) && !is_gone(mine, 0)))
			atomic_fetch_add(&reads_between, 1);
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

/* Drop all but the last slot; the reads that came in between. */
static uint64_t drop_while_reading(void)
{
	pthread_t threads[READERS];
	unsigned i;

	atomic_store(&stop, false);
	atomic_store(&dropping, false);
	atomic_store(&reads_done, 0);
	atomic_store(&reads_between, 0);
	for (i = 0; i < READERS; i++)
		start(&threads[i], reader, i);
	while (atomic_load(&reads_done) < 20 * READERS)
		usleep(1000);
	atomic_store(&dropping, true);
	must(nbd_trim(nbd, slots * NT_PAGE, 0, 0));
	atomic_store(&stop, true);
	for (i = 0; i < READERS; i++)
		pthread_join(threads[i], NULL);
	printf("%llu reads came in between while %llu slots were dropped\n",
	       (unsigned long long)atomic_load(&reads_between),
	       (unsigned long long)slots);
	return atomic_load(&reads_between);
}

static void expect_dropped(void)
{
	uint8_t page[NT_PAGE];
	uint64_t slot;

	stored_page(page, slots);
	nt_expect(nbd, page, NT_PAGE, slots * NT_PAGE);
	memset(page, 0, NT_PAGE);
	for (slot = 0; slot < slots; slot += 509)
		nt_expect(nbd, page, NT_PAGE, slot * NT_PAGE);
}

/* Another process may keep the readers from running, so one good round of
 * some is enough.
 */
static void trim_stored(void)
{
	bool good = false;
	unsigned round;

	for (round = 0; round < 3 && !good; round++) {
		store_all();
		good = drop_while_reading() >= READS_IN_BETWEEN;
		expect_dropped();
	}
	check(good, "readers wait for a trim to end");
}

int main(void)
{
	/* Other plugins would need the memory uncompressed. */
	if (!nt_server_is_thinswap() || nt_server_is_sanitized())
		slots /= 16;
	nbd = nt_connect();
	trim_empty();
	trim_stored();
	nt_disconnect(nbd);
	return 0;
}
