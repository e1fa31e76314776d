// SPDX-License-Identifier: BSD-3-Clause
/* fuzz_codec.c - arbitrary bytes for ts_codec_restore()
 *
 * The first byte is the codec, the rest the object. Object and page lie
 * against pages that must not be touched, so that a byte too many ends the
 * program even without a sanitizer. Whatever came before, the decoder must
 * then restore an object that is in order.
 */
#include "tests/fuzz/fuzz.h"
#include "tests/common/coders.h"
#include "tests/common/pages.h"
#include "tests/common/rig.h"

#include <errno.h>
#include <string.h>
#include <sys/mman.h>

static struct ts_codec codec;
static struct ts_coder *decoder;
static uint8_t *object_end; /* slack and a forbidden page follow */
static uint8_t *page;       /* between two forbidden pages */
static uint8_t good_page[PAGE_BYTES], good[PAGE_BYTES];
static unsigned good_bytes;

static uint8_t *guarded_page(void)
{
	uint8_t *p = mmap(NULL, 3 * PAGE_BYTES, PROT_NONE,
			  MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (p == MAP_FAILED ||
	    mprotect(p + PAGE_BYTES, PAGE_BYTES, PROT_READ | PROT_WRITE))
		rig_die("no memory for the test");
	return p + PAGE_BYTES;
}

static void setup(void)
{
	struct ts_coder *encoder;

	if (ts_codec_init(&codec, 1, 1, 1))
		rig_die("no coders");
	encoder = take_encoder(&codec);
	page_make(good_page, PAGE_TEXT, 1);
	good_bytes = ts_codec_compress(encoder, good_page, good, PAGE_BYTES);
	give_encoder(&codec, encoder);
	decoder = take_decoder(&codec);
	object_end = guarded_page() + PAGE_BYTES - TS_CODEC_SLACK_BYTES;
	page = guarded_page();
}

static int restore(unsigned id, const uint8_t *data, size_t size)
{
	memcpy(object_end - size, data, size);
	return ts_codec_restore(decoder, (enum ts_codec_id)id,
				object_end - size, (unsigned)size, page);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	int err;

	if (!decoder)
		setup();
	if (size < 2 || size > PAGE_BYTES + 1 - TS_CODEC_SLACK_BYTES)
		return 0;
	err = restore(data[0] % TS_CODEC_IDS, data + 1, size - 1);
	if (err && err != -EBADMSG)
		rig_die("restore: %d", err);
	if (restore(TS_CODEC_ZSTD, good, good_bytes) ||
	    memcmp(page, good_page, PAGE_BYTES))
		rig_die("the decoder was spoilt");
	return 0;
}
