/* SPDX-License-Identifier: BSD-3-Clause */
/* rawzstd.h - one way to compress pages: parameters, dictionary, calls
 *
 * A CONFIG is LEVEL or LEVEL,KEY=VALUE,... with the keys w c h s (logarithms
 * of window, chain, hash, searches), m (minimal match), t (target length),
 * st (strategy, 1 fast .. 9 btultra2), lit (literal compression: 0 auto,
 * 1 on, 2 off), unit (bytes compressed together, default 4096), dict (train
 * a dictionary of so many bytes on every 31st page first), dictfile (take the
 * dictionary in that file), attach (how it is used: 0 as zstd likes, 1
 * referenced, 2 copied), and api:
 *   api=frame  magicless frames without size and checksum (default)
 *   api=block  the block interface, no frame at all
 * All functions exit with a message when they fail.
 */
#ifndef TS_BENCH_RAWZSTD_H
#define TS_BENCH_RAWZSTD_H

#define ZSTD_STATIC_LINKING_ONLY
#define ZSTD_DISABLE_DEPRECATE_WARNINGS
#include <zstd.h>

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define RZ_PAGE_BYTES 4096u

/* The best of all rounds so far. */
struct rz_result {
	double comp_us, decomp_us; /* CPU microseconds a page */
	double comp_mb, decomp_mb; /* MB/s of wall time, all threads */
	uint64_t out_bytes, raw_units;
};

struct rz_config {
	const char *text; /* as given */
	int level;
	ZSTD_compressionParameters cparams;
	int literals;
	int attach;
	size_t unit_bytes;
	size_t dict_bytes;
	const char *dict_file;
	bool block_api;
	void *dict;
	ZSTD_CDict *cdict;
	ZSTD_DDict *ddict;
	struct rz_result best;
};

void rz_config_parse(struct rz_config *config, const char *text);

/* Make the dictionary that the configuration asks for, if any. */
void rz_config_dict(struct rz_config *config, const uint8_t *pages,
		    size_t n_pages);

/* A static context; give it back with free(). */
ZSTD_CCtx *rz_new_cctx(const struct rz_config *config);

/* One unit there, which must become shorter, and back. Return the length or
 * zstd's error code; compression 0 as well when it does not become shorter.
 */
size_t rz_compress(const struct rz_config *config, ZSTD_CCtx *cctx, uint8_t *to,
		   const uint8_t *from);
size_t rz_decompress(const struct rz_config *config, ZSTD_DCtx *dctx,
		     uint8_t *to, const uint8_t *from, size_t len);

#endif
