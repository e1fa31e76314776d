/* SPDX-License-Identifier: BSD-3-Clause */
/* shm.h - shared memory that the kernel never swaps
 *
 * System V shared memory with SHM_LOCK: unlike a locked memfd it stays
 * unevictable when every process that knew it has died, so pages kept in it
 * can never be swapped out to the device that they are the contents of.
 * The mapping is sparse; memory appears at first use and goes back by
 * ts_shm_punch(). It is left out of core dumps.
 */
#ifndef TS_SHM_H
#define TS_SHM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct ts_shm {
	int id;
	uint8_t *base;
	size_t bytes;
	bool locked; /* SHM_LOCK was allowed */
};

/* Make and map a segment of zeroes, mode 0600. With @key 0 the kernel removes
 * it with its last user, however that ends; else it stays, and ts_shm_find()
 * finds it by the key. Returns 0 or -errno, -EEXIST when the key is in use;
 * without CAP_IPC_LOCK, and when RLIMIT_MEMLOCK is too small, it succeeds with
 * @locked false.
 */
int ts_shm_new(struct ts_shm *shm, size_t bytes, int key);

/* The number of a segment by its key, or -errno. */
int ts_shm_find(int key);

/* Map a segment that exists. Only one of ours, with mode 0600, that no process
 * has mapped, after some patience: a process that was killed may be on its way
 * out, and one that only looks (peek.h) maps it for a moment. Returns 0 or
 * -errno: -EINVAL or -EIDRM, there is none.
 */
int ts_shm_attach(struct ts_shm *shm, int id);

/* Map a segment although its process lives, to have ready what mapping it
 * takes: every two MiB of it that hold something get their page table. The
 * next ts_shm_attach() of the same number uses that mapping, once nobody else
 * has the segment mapped. One segment a process, and it can be prepared again;
 * nothing in it is touched.
 * @ret_base is its start. Returns 0 or -errno.
 */
int ts_shm_prepare(int id, const uint8_t **ret_base, size_t *ret_bytes);

/* Have the kernel remove a segment with its last user. */
void ts_shm_remove(int id);

/* The same for one that ts_shm_attach() would map, with the same patience and
 * errors.
 */
int ts_shm_remove_unused(int id);

/* Undo for the segment what mlockall() has done to the process, where the
 * segment's own lock holds: a mapping that is locked as well refuses to give
 * memory back. Call after any mlockall().
 */
void ts_shm_unpin(struct ts_shm *shm);

/* Whether the segment is locked now: whoever may lock it may also unlock it. */
bool ts_shm_is_locked(const struct ts_shm *shm);

/* Unmap. A zeroed struct is fine. */
void ts_shm_free(struct ts_shm *shm);

/* Bring in the pages of a range of any memory, writable, in one call. What is
 * in them stays. 0 or -errno.
 */
int ts_shm_touch(void *addr, size_t bytes);

/* Give the pages of a range back to the system; it reads as zero then.
 * 0 or -errno.
 */
int ts_shm_punch(void *addr, size_t bytes);

#endif
