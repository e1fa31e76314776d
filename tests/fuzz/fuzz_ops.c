// SPDX-License-Identifier: BSD-3-Clause
/* fuzz_ops.c - streams of operations against the array model
 *
 * Eight bytes each:
 *	| operation | kind of page | offset 3 | length 3 |
 * The highest bit of the operation makes offset and length count slots. The
 * device is larger than the budget, so refusals happen too.
 */
#include "tests/fuzz/fuzz.h"
#include "tests/common/model.h"

#include <stdlib.h>
#include <string.h>

#define SIZE     (20 * MIB)
#define RAM      (8 * MIB)
#define OP_BYTES 8u
#define MAX_LEN  (2 * MIB)

static uint64_t u24(const uint8_t *p)
{
	return p[0] | (uint64_t)p[1] << 8 | (uint64_t)p[2] << 16;
}

static void content(uint8_t *buf, uint64_t len, uint64_t off, uint8_t kind,
		    uint64_t seed)
{
	uint8_t page[PAGE_BYTES];
	uint64_t n;

	for (uint64_t at = off; at < off + len; at += n) {
		n = 4096 - at % 4096;
		if (n > off + len - at)
			n = off + len - at;
		page_make(page, (enum page_kind)(kind % PAGE_KINDS),
			  seed + at / 4096);
		memcpy(buf + (at - off), page + at % 4096, n);
	}
}

static void operate(struct model *model, const uint8_t *op, uint8_t *buf)
{
	uint64_t unit = op[0] & 0x80 ? 4096 : 1;
	uint64_t off = u24(op + 2) * unit % SIZE;
	uint64_t len = u24(op + 5) * unit % MAX_LEN;

	if (len > SIZE - off)
		len = SIZE - off;
	switch (op[0] % 6) {
	case 0:
	case 1:
		content(buf, len, off, op[1], op[0] + op[1] * 256u);
		model_write(model, buf, len, off);
		break;
	case 2:
		model_read(model, len, off);
		break;
	case 3:
		model_discard(model, len, off);
		break;
	case 4:
		model_zero(model, len, off);
		break;
	default:
		model_extents(model, len, off);
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct ts_store *store = rig_start(SIZE, RAM);
	uint8_t *buf = malloc(MAX_LEN);
	struct model model;

	if (!buf)
		rig_die("no memory for the test");
	model_init(&model, store, SIZE);
	for (size_t i = 0; i + OP_BYTES <= size; i += OP_BYTES)
		operate(&model, data + i, buf);
	rig_check(store);
	model_compare(&model);
	model_discard(&model, SIZE, 0);
	rig_check_empty(store);
	model_fini(&model);
	free(buf);
	ts_store_free(store);
	return 0;
}
