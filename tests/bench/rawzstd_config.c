/* SPDX-License-Identifier: BSD-3-Clause */
/* rawzstd_config.c - one way to compress pages: parameters, dictionary, calls
 *
 * Compression contexts are static, of the size that zstd estimates: a store
 * that must not allocate does the same.
 */
#include "rawzstd.h"

#include <zdict.h>

#include <err.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MAX_UNIT  (1u << 16)
#define DICT_STEP 31
#define MAX_DICT  (1u << 20)

static void set_key(struct rz_config *config, const char *key,
		    const char *value)
{
	ZSTD_compressionParameters *p = &config->cparams;
	unsigned number = strtoul(value, NULL, 10);

	if (!strcmp(key, "w"))
		p->windowLog = number;
	else if (!strcmp(key, "c"))
		p->chainLog = number;
	else if (!strcmp(key, "h"))
		p->hashLog = number;
	else if (!strcmp(key, "s"))
		p->searchLog = number;
	else if (!strcmp(key, "m"))
		p->minMatch = number;
	else if (!strcmp(key, "t"))
		p->targetLength = number;
	else if (!strcmp(key, "st"))
		p->strategy = number;
	else if (!strcmp(key, "lit"))
		config->literals = number;
	else if (!strcmp(key, "attach"))
		config->attach = number;
	else if (!strcmp(key, "unit"))
		config->unit_bytes = number;
	else if (!strcmp(key, "dict"))
		config->dict_bytes = number;
	else if (!strcmp(key, "dictfile"))
		config->dict_file = strdup(value);
	else if (!strcmp(key, "api"))
		config->block_api = !strcmp(value, "block");
	else
		errx(2, "%s: unknown key %s", config->text, key);
}

void rz_config_parse(struct rz_config *config, const char *text)
{
	char *copy = strdup(text), *rest = copy, *part;

	*config = (struct rz_config){
		.text = text,
		.level = atoi(text),
		.unit_bytes = RZ_PAGE_BYTES,
		.best = {.comp_us = 1e9, .decomp_us = 1e9},
	};
	/* Twice: the defaults of a level depend on the unit's size. */
	for (int pass = 0; pass < 2; pass++) {
		if (pass)
			config->cparams = ZSTD_getCParams(config->level,
							  config->unit_bytes,
							  config->dict_bytes);
		strcpy(copy, text);
		rest = copy;
		strsep(&rest, ",");
		while ((part = strsep(&rest, ","))) {
			char *value = strchr(part, '=');

			if (!value)
				errx(2, "%s: %s has no value", text, part);
			*value++ = '\0';
			set_key(config, part, value);
		}
	}
	free(copy);
	if (config->unit_bytes % RZ_PAGE_BYTES ||
	    config->unit_bytes > MAX_UNIT || !config->unit_bytes)
		errx(2, "%s: unit must be 4096 .. 65536", text);
	if (ZSTD_isError(ZSTD_checkCParams(config->cparams)))
		errx(2, "%s: parameters out of range", text);
}

static size_t train(struct rz_config *config, const uint8_t *pages,
		    size_t n_pages)
{
	size_t n = n_pages / DICT_STEP, *sizes = malloc(n * sizeof(*sizes));
	uint8_t *samples = malloc(n * RZ_PAGE_BYTES);

	config->dict = malloc(config->dict_bytes);
	if (!sizes || !samples || !config->dict)
		err(1, "memory for training");
	for (size_t i = 0; i < n; i++) {
		sizes[i] = RZ_PAGE_BYTES;
		memcpy(samples + i * RZ_PAGE_BYTES,
		       pages + i * DICT_STEP * RZ_PAGE_BYTES, RZ_PAGE_BYTES);
	}
	size_t got = ZDICT_trainFromBuffer(config->dict, config->dict_bytes,
					   samples, sizes, n);
	if (ZDICT_isError(got))
		errx(1, "training: %s", ZDICT_getErrorName(got));
	free(sizes);
	free(samples);
	return got;
}

static size_t load_dict(struct rz_config *config)
{
	FILE *in = fopen(config->dict_file, "re");
	size_t got;

	config->dict = malloc(MAX_DICT);
	if (!in || !config->dict)
		err(1, "%s", config->dict_file);
	got = fread(config->dict, 1, MAX_DICT, in);
	fclose(in);
	return got;
}

void rz_config_dict(struct rz_config *config, const uint8_t *pages,
		    size_t n_pages)
{
	size_t got;

	if (config->dict_file)
		got = load_dict(config);
	else if (config->dict_bytes)
		got = train(config, pages, n_pages);
	else
		return;
	config->cdict = ZSTD_createCDict_advanced(
		config->dict, got, ZSTD_dlm_byRef, ZSTD_dct_fullDict,
		config->cparams, ZSTD_defaultCMem);
	config->ddict = ZSTD_createDDict(config->dict, got);
	if (!config->cdict || !config->ddict)
		errx(1, "%s: no dictionary", config->text);
}

ZSTD_CCtx *rz_new_cctx(const struct rz_config *config)
{
	size_t bytes = ZSTD_estimateCCtxSize_usingCParams(config->cparams) +
		       (64 << 10);
	ZSTD_CCtx *cctx = ZSTD_initStaticCCtx(aligned_alloc(64, bytes & ~63ul),
					      bytes & ~63ul);

	if (!cctx)
		errx(1, "%s: no context", config->text);
	struct {
		ZSTD_cParameter param;
		int value;
	} set[] = {
		{ZSTD_c_format, ZSTD_f_zstd1_magicless},
		{ZSTD_c_contentSizeFlag, 0},
		{ZSTD_c_checksumFlag, 0},
		{ZSTD_c_dictIDFlag, 0},
		{ZSTD_c_compressionLevel, config->level},
		{ZSTD_c_windowLog, config->cparams.windowLog},
		{ZSTD_c_chainLog, config->cparams.chainLog},
		{ZSTD_c_hashLog, config->cparams.hashLog},
		{ZSTD_c_searchLog, config->cparams.searchLog},
		{ZSTD_c_minMatch, config->cparams.minMatch},
		{ZSTD_c_targetLength, config->cparams.targetLength},
		{ZSTD_c_strategy, config->cparams.strategy},
		{ZSTD_c_literalCompressionMode, config->literals},
		{ZSTD_c_forceAttachDict, config->attach},
	};
	for (size_t i = 0; i < sizeof(set) / sizeof(set[0]); i++) {
		size_t rc = ZSTD_CCtx_setParameter(cctx, set[i].param,
						   set[i].value);

		if (ZSTD_isError(rc))
			errx(1, "%s: %s", config->text, ZSTD_getErrorName(rc));
	}
	if (config->cdict)
		ZSTD_CCtx_refCDict(cctx, config->cdict);
	return cctx;
}

size_t rz_compress(const struct rz_config *config, ZSTD_CCtx *cctx, uint8_t *to,
		   const uint8_t *from)
{
	size_t n = config->unit_bytes;

	if (!config->block_api)
		return ZSTD_compress2(cctx, to, n - 1, from, n);
	if (config->cdict) {
		ZSTD_compressBegin_usingCDict(cctx, config->cdict);
	} else {
		ZSTD_parameters params = {.cParams = config->cparams};

		ZSTD_compressBegin_advanced(cctx, NULL, 0, params, n);
	}
	return ZSTD_compressBlock(cctx, to, n - 1, from, n);
}

size_t rz_decompress(const struct rz_config *config, ZSTD_DCtx *dctx,
		     uint8_t *to, const uint8_t *from, size_t len)
{
	size_t n = config->unit_bytes;

	if (!config->block_api)
		return ZSTD_decompressDCtx(dctx, to, n, from, len);
	if (config->ddict)
		ZSTD_decompressBegin_usingDDict(dctx, config->ddict);
	else
		ZSTD_decompressBegin(dctx);
	return ZSTD_decompressBlock(dctx, to, n, from, len);
}
