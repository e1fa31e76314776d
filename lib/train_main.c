/* SPDX-License-Identifier: BSD-3-Clause */
/* train_main.c - thinswap-train: make a dictionary of sampled pages
 *
 * Standard input is the memfd of train.h. Seven pages of eight are trained on;
 * the eighth ones are then compressed with the dictionary and without, and it
 * is handed over only if they do not grow: a dictionary always saves time.
 *
 * The process inherits the marks of the one that serves swap. It must not keep
 * them: it allocates, so it has to be killable and to wait like any other.
 */
#define ZSTD_STATIC_LINKING_ONLY
#include "train.h"

#include <fcntl.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <unistd.h>
#include <zdict.h>
#include <zstd.h>

#define TRIAL_EVERY 8u

#ifndef PR_SET_IO_FLUSHER
#define PR_SET_IO_FLUSHER 57
#endif

static void become_ordinary(void)
{
	struct sched_param normal = { 0 };
	int fd = open("/proc/self/oom_score_adj", O_WRONLY | O_CLOEXEC);

	if (fd >= 0) {
		(void)!write(fd, "500", 3);
		close(fd);
	}
	prctl(PR_SET_IO_FLUSHER, 0, 0, 0, 0);
	sched_setscheduler(0, SCHED_OTHER, &normal);
	setpriority(PRIO_PROCESS, 0, 10);
}

static size_t train_dict(struct ts_training *t)
{
	size_t sizes[TS_SAMPLE_PAGES], got;
	uint8_t *pages = malloc(sizeof(t->sample));
	unsigned n = 0;

	if (!pages)
		return 0;
	for (unsigned i = 0; i < TS_SAMPLE_PAGES; i++) {
		if (i % TRIAL_EVERY == 0)
			continue;
		memcpy(pages + n * 4096u, t->sample[i], 4096);
		sizes[n++] = 4096;
	}
	got = ZDICT_trainFromBuffer(t->dict, sizeof(t->dict), pages, sizes, n);
	free(pages);
	return ZDICT_isError(got) ? 0 : got;
}

/* Bytes that the pages kept for the trial take, with a dictionary or NULL. */
static uint64_t trial(const struct ts_training *t, ZSTD_CDict *dict)
{
	ZSTD_CCtx *cctx = ZSTD_createCCtx();
	uint8_t out[8192];
	uint64_t sum = 0;

	if (!cctx)
		return 0;
	ZSTD_CCtx_setParameter(cctx, ZSTD_c_compressionLevel, t->level);
	ZSTD_CCtx_setParameter(cctx, ZSTD_c_format, ZSTD_f_zstd1_magicless);
	ZSTD_CCtx_setParameter(cctx, ZSTD_c_contentSizeFlag, 0);
	ZSTD_CCtx_setParameter(cctx, ZSTD_c_dictIDFlag, 0);
	ZSTD_CCtx_refCDict(cctx, dict);
	for (unsigned i = 0; i < TS_SAMPLE_PAGES; i += TRIAL_EVERY) {
		size_t n = ZSTD_compress2(cctx, out, sizeof(out), t->sample[i],
					  4096);

		sum += ZSTD_isError(n) ? 4096 : n;
	}
	ZSTD_freeCCtx(cctx);
	return sum;
}

int main(void)
{
	struct ts_training *t;
	ZSTD_CDict *dict;
	size_t n;

	become_ordinary();
	t = mmap(NULL, sizeof(*t), PROT_READ | PROT_WRITE, MAP_SHARED,
		 STDIN_FILENO, 0);
	if (t == MAP_FAILED)
		return 1;
	n = train_dict(t);
	dict = n ? ZSTD_createCDict(t->dict, n, t->level) : NULL;
	if (!dict)
		return 1;
	t->plain_bytes = trial(t, NULL);
	t->dict_trial_bytes = trial(t, dict);
	ZSTD_freeCDict(dict);
	if (t->plain_bytes && t->dict_trial_bytes <= t->plain_bytes)
		t->dict_bytes = (uint32_t)n;
	return 0;
}
