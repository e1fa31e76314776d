/* SPDX-License-Identifier: BSD-3-Clause */
/* size.h - byte sizes as people write them, and back
 *
 * Form     NUMBER [blanks] [SUFFIX], where NUMBER is decimal digits with at
 *          most one point between digits. The case of letters is free.
 *
 *            suffix       bytes        examples
 *            none, B      1            4096, 512B
 *            K, Ki, KiB   1024         64K, "64 KiB"
 *            M, Mi, MiB   1024^2       512M
 *            G, Gi, GiB   1024^3       4G, 1.5G, 4gib
 *            T, Ti, TiB   1024^4       2T
 *            P, Pi, PiB   1024^5       8P
 *
 * Refused  KB, MB, GB ... in any case (some mean 1000, some 1024, some bits);
 *          signs, exponents, hexadecimal; a fraction without a suffix; more
 *          than 2^64 - 1 bytes.
 * Rounding a fraction that does not come out even is rounded down to a byte.
 * Errors   -EINVAL for a form that is refused, -ERANGE for one too large;
 *          @err then holds one sentence without a final newline, that quotes
 *          what was given and says what to write instead. @ret_bytes is
 *          untouched.
 *
 * None of these allocates; all may be called from any thread.
 */
#ifndef TS_UTIL_SIZE_H
#define TS_UTIL_SIZE_H

#include <stddef.h>
#include <stdint.h>

/* Room that ts_size_format() needs for any size, terminator included. */
#define TS_SIZE_TEXT_BYTES 16

int ts_size_parse(const char *text, uint64_t *ret_bytes, char *err,
		  size_t err_bytes);

/* The same, and also "N%" with N from 0 to 100, of @whole_bytes. */
int ts_size_parse_percent(const char *text, uint64_t whole_bytes,
			  uint64_t *ret_bytes, char *err, size_t err_bytes);

/* Write @bytes for people, in the largest unit that leaves 1 or more, with
 * at most two decimals: "4 GiB", "1.5 GiB", "300 B". What had to be rounded
 * (down) carries a tilde: "~1.33 GiB", so a text without one is exact and
 * ts_size_parse() gives the same bytes back. Returns @buf.
 */
char *ts_size_format(uint64_t bytes, char *buf, size_t buf_bytes);

#endif
