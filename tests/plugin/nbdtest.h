/* SPDX-License-Identifier: BSD-3-Clause */
/* nbdtest.h - what the libnbd test programs share
 *
 * A program connects with nt_connect() to the server that with-server started
 * and ends the process by nt_fail() at the first thing that is wrong; there is
 * nothing to clean up, since the server belongs to with-server.
 *
 * Threads  every function may be called from any thread; a handle belongs to
 *          one thread at a time.
 */
#ifndef NBDTEST_H
#define NBDTEST_H

#include <stdbool.h>
#include <stdint.h>
#include <stddef.h>
#include <libnbd.h>

#define NT_PAGE 4096u
#define NT_KIB  (1ull << 10)
#define NT_MIB  (1ull << 20)
#define NT_GIB  (1ull << 30)
#define NT_TIB  (1ull << 40)

/* Say what is wrong and exit with 1. */
void nt_fail(const char *file, int line, const char *fmt, ...)
	__attribute__((format(printf, 3, 4), noreturn));
#define fail(...) nt_fail(__FILE__, __LINE__, __VA_ARGS__)

/* Say why the test cannot run here and exit with 77. */
void nt_skip(const char *why) __attribute__((noreturn));

/* Demand a condition; the rest says in words what was seen. */
#define check(cond, ...)                                                       \
	do {                                                                   \
		if (!(cond))                                                   \
			fail(__VA_ARGS__);                                     \
	} while (0)

/* Demand that a libnbd call succeeds; its value. */
#define must(call)                                                             \
	({                                                                     \
		__typeof__(call) must_ret = (call);                            \
		if (must_ret == -1)                                            \
			fail("%s: %s", #call, nbd_get_error());                \
		must_ret;                                                      \
	})

/* Demand that a libnbd call fails with one error. */
#define must_fail(call, err)                                                   \
	do {                                                                   \
		check((call) == -1, "%s succeeded", #call);                    \
		check(nbd_get_errno() == (err), "%s: %s, not %s", #call,       \
		      nbd_get_error(), #err);                                  \
	} while (0)

/* A connection to the server. libnbd lets requests through that it would
 * refuse by itself (length 0, odd offsets, past the end): the server is what
 * is tested.
 */
struct nbd_handle *nt_connect(void);
void nt_disconnect(struct nbd_handle *nbd);

/* Memory that the server keeps, shared segments included. */
uint64_t nt_server_resident_kib(void);
bool nt_server_is_thinswap(void);
bool nt_server_is_sanitized(void);

/* Pseudo-random numbers (splitmix64, by Sebastiano Vigna, public domain). */
uint64_t nt_rand(uint64_t *state);

/* What a page is filled with: one for each way to store it. */
enum nt_kind {
	NT_ZERO,
	NT_FILL, /* one repeated 64-bit word */
	NT_TEXT, /* compresses about three times */
	NT_RAW,  /* does not compress */
	NT_EDGE, /* compresses to about a page, a little more or less */
	NT_KINDS,
};

/* Fill a page; the same kind and seed always give the same bytes. */
void nt_page(uint8_t *page, enum nt_kind kind, uint64_t seed);

/* Fill a page with zeros, then random_bytes that do not compress. In this
 * order zstd's size grows byte by byte with random_bytes.
 */
void nt_mixed_page(uint8_t *page, unsigned random_bytes, uint64_t seed);

bool nt_is_zero(const uint8_t *buf, size_t len);

/* Demand that the device holds the bytes of @want. */
void nt_expect(struct nbd_handle *nbd, const uint8_t *want, size_t len,
	       uint64_t off);

/* Run @fn(0) ... @fn(n - 1) in n threads and wait for all. */
void nt_threads(unsigned n, void (*fn)(unsigned self));

#endif
