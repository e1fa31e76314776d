/* SPDX-License-Identifier: BSD-3-Clause */
/* shm.c - shared memory that the kernel never swaps
 *
 * A segment that is to pass with the process is marked for removal as soon as
 * it is attached: Linux keeps it until the last process detaches.
 */
#include "shm.h"
#include "util/lock.h"

#include <errno.h>
#include <sys/ipc.h>
#include <sys/mman.h>
#include <sys/shm.h>
#include <unistd.h>

#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23
#endif

#define PAGE_BYTES 4096
#define TABLE_BYTES (2ul << 20) /* what one page of a page table maps */
#define END_TRIES 250u
#define END_PAUSE_NS 20000000u

/* What ts_shm_prepare() has mapped. */
static struct {
	void *base; /* NULL: nothing */
	int id;
} prepared;

static void *take_mapping(int id)
{
	void *base = prepared.base;

	if (!base || prepared.id != id)
		return shmat(id, NULL, 0);
	prepared.base = NULL;
	return base;
}

static int map(struct ts_shm *shm, int id, size_t bytes)
{
	void *base = take_mapping(id);

	if (base == (void *)-1)
		return -errno;
	shm->id = id;
	shm->base = base;
	shm->bytes = bytes;
	shm->locked = !shmctl(id, SHM_LOCK, NULL);
	madvise(base, bytes, MADV_DONTDUMP);
	return 0;
}

int ts_shm_new(struct ts_shm *shm, size_t bytes, int key)
{
	int id, err;

	id = shmget(key, bytes, IPC_CREAT | IPC_EXCL | SHM_NORESERVE | 0600);
	if (id < 0)
		return -errno;
	err = map(shm, id, bytes);
	if (err || key == IPC_PRIVATE)
		ts_shm_remove(id);
	return err;
}

int ts_shm_find(int key)
{
	int id = shmget(key, 0, 0);

	return id < 0 ? -errno : id;
}

/* Wait until nobody but us has a segment of ours mapped. */
static int wait_unused(int id, struct shmid_ds *ret_ds)
{
	for (unsigned i = 0;; i++) {
		if (shmctl(id, IPC_STAT, ret_ds))
			return -errno;
		if (ret_ds->shm_perm.uid != geteuid() ||
		    (ret_ds->shm_perm.mode & 077))
			return -EPERM;
		if (ret_ds->shm_nattch ==
		    (prepared.base && prepared.id == id))
			return 0;
		if (i == END_TRIES)
			return -EBUSY;
		ts_sleep_ns(END_PAUSE_NS);
	}
}

int ts_shm_attach(struct ts_shm *shm, int id)
{
	struct shmid_ds ds;
	int err = wait_unused(id, &ds);

	return err ? err : map(shm, id, ds.shm_segsz);
}

/* One page that is there brings in the table that it is in, and nothing else:
 * a hole would be filled.
 */
static void make_table(uint8_t *at, size_t bytes)
{
	unsigned char in[TABLE_BYTES / PAGE_BYTES];

	if (mincore(at, bytes, in))
		return;
	for (size_t i = 0; i < (bytes + PAGE_BYTES - 1) / PAGE_BYTES; i++) {
		if (!(in[i] & 1))
			continue;
		(void)*(const volatile uint8_t *)(at + i * PAGE_BYTES);
		return;
	}
}

int ts_shm_prepare(int id, const uint8_t **ret_base, size_t *ret_bytes)
{
	struct shmid_ds ds;
	uint8_t *base = prepared.base;

	if (shmctl(id, IPC_STAT, &ds))
		return -errno;
	if (ds.shm_perm.uid != geteuid() || (ds.shm_perm.mode & 077))
		return -EPERM;
	if (base && prepared.id != id)
		return -EBUSY;
	if (!base)
		base = shmat(id, NULL, 0);
	if (base == (void *)-1)
		return -errno;
	madvise(base, ds.shm_segsz, MADV_DONTDUMP);
	for (size_t off = 0; off < ds.shm_segsz; off += TABLE_BYTES) {
		size_t step = ds.shm_segsz - off;

		make_table(base + off, step < TABLE_BYTES ? step : TABLE_BYTES);
	}
	prepared.base = base;
	prepared.id = id;
	*ret_base = base;
	*ret_bytes = ds.shm_segsz;
	return 0;
}

void ts_shm_remove(int id)
{
	shmctl(id, IPC_RMID, NULL);
}

int ts_shm_remove_unused(int id)
{
	struct shmid_ds ds;
	int err = wait_unused(id, &ds);

	if (!err)
		ts_shm_remove(id);
	return err;
}

/* SHM_LOCK keeps the pages in memory whatever becomes of their mappings;
 * MADV_REMOVE is EINVAL on a mapping with VM_LOCKED.
 */
void ts_shm_unpin(struct ts_shm *shm)
{
	if (shm->locked)
		munlock(shm->base, shm->bytes);
}

bool ts_shm_is_locked(const struct ts_shm *shm)
{
	struct shmid_ds ds;

	return !shmctl(shm->id, IPC_STAT, &ds) &&
	       (ds.shm_perm.mode & SHM_LOCKED);
}

void ts_shm_free(struct ts_shm *shm)
{
	if (shm->base)
		shmdt(shm->base);
	shm->base = NULL;
}

int ts_shm_touch(void *addr, size_t bytes)
{
	size_t before = (uintptr_t)addr % PAGE_BYTES;
	uint8_t *p = (uint8_t *)addr - before;

	bytes += before;
	if (!madvise(p, bytes, MADV_POPULATE_WRITE))
		return 0;
	if (errno != EINVAL)
		return -errno;
	/* A kernel before 5.14: one fault a page, by a write that changes
	 * nothing.
	 */
	for (size_t i = 0; i < bytes; i += PAGE_BYTES)
		__atomic_fetch_or(&p[i], 0, __ATOMIC_RELAXED);
	return 0;
}

int ts_shm_punch(void *addr, size_t bytes)
{
	return madvise(addr, bytes, MADV_REMOVE) ? -errno : 0;
}
