// SPDX-License-Identifier: BSD-3-Clause
/* fault.c - every k-th transfer of the spill file goes wrong
 *
 *	ts-spill-fault short|intr|again|delay|late|eio|enospc|read [--no-uring]
 *
 * What is only awkward (short transfers, EINTR, EAGAIN, delays) must not be
 * seen. Failing writes lose nothing: what cannot leave memory stays there, the
 * state is shown as degraded when nothing arrives any more, and clears by
 * itself. Failing reads give EIO and nothing else.
 */
#include "tests/spill/faults.h"
#include "tests/spill/rig.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define THREADS 4u

static struct spill_rig rig;
static enum fault fault;

static enum fault fault_named(const char *name)
{
	static const char *const names[] = {
		[FAULT_SHORT] = "short", [FAULT_INTR] = "intr",
		[FAULT_AGAIN] = "again", [FAULT_DELAY] = "delay",
		[FAULT_LATE] = "late",	 [FAULT_EIO] = "eio",
		[FAULT_ENOSPC] = "enospc", [FAULT_READ] = "read",
	};

	for (unsigned i = 1; i < sizeof(names) / sizeof(*names); i++)
		if (!strcmp(name, names[i]))
			return (enum fault)i;
	rig_die("%s: no such fault", name);
}

static bool writes_fail(void)
{
	return fault == FAULT_EIO || fault == FAULT_ENOSPC;
}

/* A thread has every fourth slot to itself. */
static void *work(void *arg)
{
	unsigned me = *(unsigned *)arg;
	struct rng rng = { me };

	for (unsigned op = 0; op < 6000; op++) {
		unsigned slot = (unsigned)rng_below(&rng,
						    rig.n_slots / THREADS) *
					THREADS + me;
		unsigned what = (unsigned)rng_below(&rng, 8);

		if (what < 4) {
			if (slot_write(&rig, slot) && !writes_fail())
				rig_die("a write was refused");
		} else if (what == 4) {
			slot_discard(&rig, slot);
		} else if (!slot_reads(&rig, slot) && fault != FAULT_READ) {
			rig_die("slot %u cannot be read", slot);
		}
	}
	return NULL;
}

static void work_in_threads(void)
{
	unsigned number[THREADS];
	pthread_t id[THREADS];

	for (unsigned i = 0; i < THREADS; i++) {
		number[i] = i;
		if (pthread_create(&id[i], NULL, work, &number[i]))
			rig_die("no thread");
	}
	for (unsigned i = 0; i < THREADS; i++)
		pthread_join(id[i], NULL);
}

static void one_run(unsigned every)
{
	unsigned before = faults_injected();

	faults_set(fault, every);
	work_in_threads();
	if (writes_fail() && every == 1 &&
	    !spill_rig_counters(&rig).spill_degraded)
		rig_die("no write arrives, and the state is not degraded");
	faults_set(FAULT_NONE, 1);
	if (faults_injected() == before)
		rig_die("nothing was injected");
	slots_verify(&rig);
	spill_rig_check(&rig);
}

/* What failed must work again without anybody's doing. */
static void recover(void)
{
	uint64_t spilled = spill_rig_counters(&rig).spill_written_bytes;

	for (unsigned slot = 0; slot < rig.n_slots; slot++)
		slot_write(&rig, slot);
	WAIT_FOR(!spill_rig_counters(&rig).spill_degraded);
	WAIT_FOR(spill_rig_counters(&rig).spill_written_bytes > spilled);
	for (unsigned slot = 0; slot < rig.n_slots; slot++)
		if (slot_write(&rig, slot))
			rig_die("a write is refused although all works again");
	slots_verify(&rig);
	spill_rig_check(&rig);
	if (!strstr(rig.said, "the device fails") ||
	    !strstr(rig.said, "the device works again"))
		rig_die("the log does not tell of it: %s", rig.said);
}

int main(int argc, char **argv)
{
	static const unsigned every[] = { 1, 2, 7, 50 };
	bool uring = argc < 3 || strcmp(argv[2], "--no-uring");

	if (argc < 2)
		rig_die("which fault?");
	fault = fault_named(argv[1]);
	spill_rig_init(&rig, 24 * MIB, 8 * MIB, 40 * MIB);
	rig.params.use_uring = uring;
	spill_rig_start(&rig);
	if (uring != spill_rig_counters(&rig).spill_uring)
		rig_die("the wrong engine");
	for (unsigned slot = 0; slot < rig.n_slots; slot++)
		if (slot_write(&rig, slot))
			rig_die("no room for the test");
	for (unsigned i = 0; i < 4; i++) {
		/* Always again would be for ever. */
		if ((fault == FAULT_INTR || fault == FAULT_AGAIN) &&
		    every[i] == 1)
			continue;
		one_run(every[i]);
		if (writes_fail() && every[i] == 1)
			recover();
	}
	printf("%u faults, %llu pages spilled\n", faults_injected(),
	       (unsigned long long)spill_rig_counters(&rig).spilled_pages);
	spill_rig_end(&rig);
	return EXIT_SUCCESS;
}
