/* SPDX-License-Identifier: BSD-3-Clause */
/* harden.h - the steps that keep a swap server out of its own swap
 *
 * A process that serves swap must never wait for memory. Each function below
 * takes one step towards that, for the calling process or thread, and can be
 * used by every front end: the nbdkit plugin calls them in after_fork, the
 * FUSE server and thinswapd in main. Nothing here logs.
 *
 * Order     lock first, then populate: with MCL_ONFAULT a page is locked when
 *           it is touched. The flusher flag is per thread and inherited by
 *           threads, by fork and by exec: set it before any thread starts.
 * Errors    0 or -errno. -EPERM means that the capability named at the
 *           function is missing.
 * When      at start only: these functions read /proc and may allocate.
 */
#ifndef TS_UTIL_HARDEN_H
#define TS_UTIL_HARDEN_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

/* Lock what is mapped now and later, each page when it is first touched.
 * Locks do not cross a fork. Needs CAP_IPC_LOCK or a large RLIMIT_MEMLOCK.
 */
int ts_harden_lock_memory(void);

/* Read in the code and read-only data of everything that is mapped, and make
 * the writable copies of file data, so that running code for the first time
 * does not fault it in from disk. Large read-only tables are left out.
 * -EINVAL: the kernel is older than 5.14.
 *
 * @ret_bytes  how much was populated; may be NULL
 */
int ts_harden_populate_code(uint64_t *ret_bytes);

/* Bring in what malloc() has of the heap, also what is free in it: memory
 * that is set aside must be there when there is none. 0 or -errno.
 */
int ts_harden_touch_heap(void);

/* Touch the part of the calling thread's stack that serving may come to use
 * (64 KiB below here; the stack must be that deep). Once a thread.
 */
void ts_harden_touch_stack(void);

/* Mark the calling thread, and what it starts from now on, as part of the
 * I/O path: its allocations never wait for write-back. CAP_SYS_RESOURCE.
 */
int ts_harden_io_flusher(bool on);

/* Take the calling process out of the OOM killer's choice (-1000), or put it
 * back (0). Going below the inherited value needs CAP_SYS_RESOURCE.
 */
int ts_harden_oom_score_adj(int value);

/* Put the calling thread in the real-time class (SCHED_RR, its lowest
 * priority), or back. CAP_SYS_NICE. Beside the flusher flag, because Linux
 * lets real-time threads dip into the memory below the minimum watermark,
 * which the answer to a request may need. A thread that compresses or
 * allocates for itself must not be there.
 */
int ts_harden_realtime(bool on);
bool ts_harden_is_realtime(void);

/* Is a capability of linux/capability.h effective in this thread? */
bool ts_harden_has_capability(int capability);

/* May this process lock @need_bytes? 0 when it may, -ENOMEM when the limit is
 * too small. @ret_limit_bytes is UINT64_MAX when there is none (also with
 * CAP_IPC_LOCK, which lifts it).
 */
int ts_harden_memlock_limit(uint64_t need_bytes, uint64_t *ret_limit_bytes);

/* What the kernel says about a process: the read-back of all of the above. */
struct ts_harden_facts {
	uint64_t rss_bytes;
	uint64_t locked_bytes;   /* VmLck: the size of locked mappings */
	uint64_t swapped_bytes;  /* its own pages in swap: must be 0 */
	uint64_t anon_shm_bytes; /* resident shared memory */
	uint64_t file_bytes;     /* resident pages of files */
	int oom_score_adj;
	unsigned threads;
	unsigned threads_flusher;  /* threads with PF_MEMALLOC_NOIO */
	unsigned threads_realtime; /* threads in SCHED_FIFO or SCHED_RR */
	uint64_t minor_faults, major_faults; /* since it started */
};

/* Read the facts of process @pid. -ESRCH when it is gone. */
int ts_harden_observe(pid_t pid, struct ts_harden_facts *ret);

#endif
