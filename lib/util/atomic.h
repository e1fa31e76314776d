/* SPDX-License-Identifier: BSD-3-Clause */
/* atomic.h - atomic accesses, named by their memory order
 *
 * relaxed   counters and hints; nothing is ordered by them
 * acquire   pairs with a release store of the same word
 * release   everything written before is visible to who acquires the value
 */
#ifndef TS_UTIL_ATOMIC_H
#define TS_UTIL_ATOMIC_H

#define ts_load_relaxed(p) __atomic_load_n((p), __ATOMIC_RELAXED)
#define ts_load_acquire(p) __atomic_load_n((p), __ATOMIC_ACQUIRE)
#define ts_store_relaxed(p, v) __atomic_store_n((p), (v), __ATOMIC_RELAXED)
#define ts_store_release(p, v) __atomic_store_n((p), (v), __ATOMIC_RELEASE)
#define ts_add_relaxed(p, v) __atomic_fetch_add((p), (v), __ATOMIC_RELAXED)
#define ts_add_release(p, v) __atomic_fetch_add((p), (v), __ATOMIC_RELEASE)

#endif
