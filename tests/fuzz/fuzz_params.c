// SPDX-License-Identifier: BSD-3-Clause
/* fuzz_params.c - arbitrary text as parameters and sizes
 *
 * The first byte chooses the key and the second how much room the sentence
 * has; the text follows. What is refused changes nothing, what is accepted is
 * within its limits, and a size that is printed exactly is read back.
 */
#include "tests/fuzz/fuzz.h"
#include "tests/common/rig.h"
#include "codec.h"
#include "util/size.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

static void check_sentence(const char *err, size_t room, int result)
{
	if (!result)
		return;
	if (!memchr(err, '\0', room))
		rig_die("a sentence without an end");
	if (room > 1 && !*err)
		rig_die("refused without a sentence");
}

static void set(unsigned which, const char *text, char *err, size_t room)
{
	static const char *const keys[] = {"size", "ram", "level"};
	struct ts_params params, before;
	const char *key = which < 3 ? keys[which] : text;
	int result;

	ts_params_init(&params);
	before = params;
	result = ts_params_set(&params, key, text, err, room);
	check_sentence(err, room, result);
	if (result && result != -EINVAL && result != -ENOENT)
		rig_die("%s: %d", text, result);
	if (result && (params.size_bytes != before.size_bytes ||
		       params.ram_bytes != before.ram_bytes ||
		       params.level != before.level))
		rig_die("\"%s\" was refused and changed something", text);
	if (params.size_bytes > TS_MAX_SIZE_BYTES ||
	    params.level < TS_CODEC_LEVEL_MIN ||
	    params.level > TS_CODEC_LEVEL_MAX)
		rig_die("\"%s\" is beyond the limits", text);
}

static void parse(const char *text, char *err, size_t room)
{
	uint64_t bytes = 12345, again;
	char shown[TS_SIZE_TEXT_BYTES];
	int result = ts_size_parse(text, &bytes, err, room);

	check_sentence(err, room, result);
	if (result && bytes != 12345)
		rig_die("\"%s\" was refused and changed something", text);
	if (result)
		return;
	ts_size_format(bytes, shown, sizeof(shown));
	if (*shown != '~' &&
	    (ts_size_parse(shown, &again, err, room) || again != bytes))
		rig_die("\"%s\" was shown as \"%s\"", text, shown);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	char *text, *err;
	size_t room;

	if (size < 2)
		return 0;
	room = data[1] + 1u;
	text = malloc(size);
	err = malloc(room);
	if (!text || !err)
		rig_die("no memory for the test");
	memcpy(text, data + 2, size - 2);
	text[size - 2] = '\0';
	memset(err, 'x', room);
	set(data[0] % 4, text, err, room);
	memset(err, 'x', room);
	parse(text, err, room);
	free(text);
	free(err);
	return 0;
}
