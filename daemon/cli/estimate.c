// SPDX-License-Identifier: BSD-3-Clause
/* estimate.c - what thinswap would make of a sample of pages */
#include "cli/estimate.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <xxhash.h>
#include <zdict.h>

#include "codec.h"
#include "pool.h"

#define PAGE         4096u
#define HEADER_BYTES 10u /* of an object in the pool: backend_ram.c */
#define WORD_BYTES   8u
/* What the pool takes beside the objects; its tests hold it to that. */
#define OVERHEAD  1.04
#define TRAIN_MIN 64u
#define TRAIN_MAX 512u /* as the server does: train.h */

struct judge {
	const uint8_t *data;
	const size_t *index; /* of pages that are neither zero nor fill */
	size_t n;
	unsigned done, total; /* trials */
	ts_progress_fn *progress;
	void *opaque;
};

static uint64_t cpu_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
	return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static const uint8_t *page_of(const struct judge *j, size_t i)
{
	return j->data + j->index[i] * PAGE;
}

/* The pages from @from on, all with one encoder. */
static void try_pages(struct judge *j, struct ts_codec *codec, size_t from,
		      struct ts_trial *trial)
{
	struct ts_coder *encoder = ts_codec_encoder(codec);
	struct ts_coder *decoder = ts_borrow(&codec->decoders);
	uint8_t page[PAGE], object[PAGE];

	for (size_t i = from; i < j->n; i++) {
		uint64_t start_ns = cpu_ns(), middle_ns;
		unsigned len =
			ts_codec_compress(encoder, page_of(j, i), object,
					  TS_OBJ_MAX_BYTES - HEADER_BYTES);

		middle_ns = cpu_ns();
		trial->compress_ns += middle_ns - start_ns;
		if (len) {
			ts_codec_restore(decoder, encoder->codec, object, len,
					 page);
			trial->restore_ns += cpu_ns() - middle_ns;
			trial->stored_bytes += len + HEADER_BYTES;
		} else {
			trial->raw_pages++;
			trial->stored_bytes += PAGE;
		}
		trial->pages++;
		if (i % 256 == 0 && j->progress)
			j->progress(j->opaque,
				    (j->done + (double)i / (double)j->n) /
					    j->total);
	}
	ts_return(&codec->encoders, encoder);
	ts_return(&codec->decoders, decoder);
	trial->done = trial->pages > 0;
}

/* Train with pages from all over the sample, which are then moved to its
 * begin and left out of the trial. Returns how many, 0 when none is made.
 */
static size_t train(struct judge *j, struct ts_codec *codec, size_t *index)
{
	size_t n = j->n / 4 > TRAIN_MAX ? TRAIN_MAX : j->n / 4, got, step;
	size_t sizes[TRAIN_MAX];
	uint8_t dict[TS_DICT_BYTES], *pages;

	if (n < TRAIN_MIN)
		return 0;
	pages = malloc(n * PAGE);
	if (!pages)
		return 0;
	step = j->n / n;
	for (size_t i = 0; i < n; i++) {
		size_t other = index[i];

		memcpy(pages + i * PAGE, j->data + index[i * step] * PAGE,
		       PAGE);
		index[i] = index[i * step];
		index[i * step] = other;
		sizes[i] = PAGE;
	}
	got = ZDICT_trainFromBuffer(dict, sizeof(dict), pages, sizes,
				    (unsigned)n);
	free(pages);
	if (ZDICT_isError(got) || ts_dicts_add(&codec->dicts, dict, got))
		return 0;
	return n;
}

static int try_level(struct judge *j, int level, size_t *index,
		     struct ts_trial *plain, struct ts_trial *with_dict)
{
	struct ts_codec codec = {0};
	size_t from;
	int err = ts_codec_init(&codec, level, 1, 1);

	if (err)
		return err;
	plain->level = with_dict->level = level;
	with_dict->dictionary = true;
	try_pages(j, &codec, 0, plain);
	j->done++;
	from = train(j, &codec, index);
	if (from)
		try_pages(j, &codec, from, with_dict);
	j->done++;
	ts_codec_fini(&codec);
	return 0;
}

static int compare_hash(const void *a, const void *b)
{
	return memcmp(a, b, sizeof(XXH128_hash_t));
}

static uint64_t count_duplicates(const struct judge *j)
{
	XXH128_hash_t *hash = calloc(j->n + 1, sizeof(*hash));
	uint64_t n = 0;

	for (size_t i = 0; hash && i < j->n; i++)
		hash[i] = XXH3_128bits(page_of(j, i), PAGE);
	if (hash)
		qsort(hash, j->n, sizeof(*hash), compare_hash);
	for (size_t i = 1; hash && i < j->n; i++)
		n += XXH128_isEqual(hash[i], hash[i - 1]);
	free(hash);
	return n;
}

/* Zero and fill pages cost nothing more; the rest is for the codec. */
static size_t sort_out(const uint8_t *data, size_t n, size_t *index,
		       struct ts_estimate *ret)
{
	size_t rest = 0;
	uint64_t pattern;

	for (size_t i = 0; i < n; i++)
		if (!ts_page_repeats(data + i * PAGE, &pattern))
			index[rest++] = i;
		else if (pattern)
			ret->fill++;
		else
			ret->zero++;
	ret->pages = n;
	ret->compressible_pages = rest;
	return rest;
}

int ts_estimate(const uint8_t *data, size_t n, const int *level,
		unsigned n_levels, ts_progress_fn *progress, void *opaque,
		struct ts_estimate *ret)
{
	size_t *index = calloc(n + 1, sizeof(*index));
	struct judge j = {
		.data = data,
		.index = index,
		.total = 2 * n_levels,
		.progress = progress,
		.opaque = opaque,
	};
	int err = 0;

	memset(ret, 0, sizeof(*ret));
	if (!index)
		return -ENOMEM;
	j.n = sort_out(data, n, index, ret);
	ret->duplicate = count_duplicates(&j);
	ret->n_trials = 2 * n_levels;
	for (unsigned i = 0; i < n_levels && !err; i++)
		err = try_level(&j, level[i], index, &ret->trial[2 * i],
				&ret->trial[2 * i + 1]);
	ret->incompressible = ret->trial[0].raw_pages;
	free(index);
	return err;
}

double ts_trial_ratio(const struct ts_trial *trial)
{
	return trial->stored_bytes ? (double)trial->pages * PAGE /
					     (double)trial->stored_bytes
				   : 0;
}

uint64_t ts_estimate_room(const struct ts_estimate *e,
			  const struct ts_trial *trial, uint64_t budget_bytes)
{
	double stored, cost;

	if (!e->pages)
		return 0;
	/* Bytes that a page of the whole sample costs. */
	stored = trial->pages
			 ? (double)trial->stored_bytes / (double)trial->pages
			 : 0;
	cost = WORD_BYTES + OVERHEAD * stored * (double)e->compressible_pages /
				    (double)e->pages;
	return (uint64_t)((double)budget_bytes / cost * PAGE);
}
