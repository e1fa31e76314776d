// SPDX-License-Identifier: BSD-3-Clause
/* size.c - byte sizes as people write them, and back
 *
 * The number is kept as an integer and a fraction over a power of ten, and
 * multiplied in 128 bits: no floating point, so 1.1T is right to the byte.
 * A suffix is looked up whole, in a table; nothing is guessed from its first
 * letter, since "GB" and "Gb" begin like "GiB" and may mean something else.
 */
#include "util/size.h"

#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

/* Digits after the point that count; more would overflow 10^n in 64 bits
 * and cannot change the result by a byte below 1 EiB anyway.
 */
#define FRACTION_DIGITS_MAX 18

static const char unit_letters[] = "KMGTP";

struct number {
	uint64_t whole;
	uint64_t fraction; /* over @scale */
	uint64_t scale;    /* a power of ten; 1 when there is no point */
};

__attribute__((format(printf, 4, 5))) static int
refuse(int code, char *err, size_t err_bytes, const char *fmt, ...)
{
	va_list args;

	va_start(args, fmt);
	vsnprintf(err, err_bytes, fmt, args);
	va_end(args);
	return code;
}

static int too_large(const char *text, char *err, size_t err_bytes)
{
	return refuse(-ERANGE, err, err_bytes,
		      "\"%s\" is more than 2^64 - 1 bytes", text);
}

/* Read the number that @text begins with; @ret_rest is what follows it. */
static int parse_number(const char *text, struct number *ret,
			const char **ret_rest, char *err, size_t err_bytes)
{
	struct number n = {.scale = 1};
	const char *p = text;
	unsigned digits = 0;

	if (*p == '-' || *p == '+')
		return refuse(-EINVAL, err, err_bytes,
			      "\"%s\" has a sign; write a size without one",
			      text);
	if (!isdigit((unsigned char)*p))
		return refuse(-EINVAL, err, err_bytes,
			      "\"%s\" does not begin with a number; write a "
			      "size like 4G, 1.5G or 4096",
			      text);
	for (; isdigit((unsigned char)*p); p++) {
		if (__builtin_mul_overflow(n.whole, 10, &n.whole) ||
		    __builtin_add_overflow(n.whole, *p - '0', &n.whole))
			return too_large(text, err, err_bytes);
	}
	if (*p == '.') {
		for (p++; isdigit((unsigned char)*p); p++, digits++) {
			if (digits >= FRACTION_DIGITS_MAX)
				continue;
			n.fraction = n.fraction * 10 + (*p - '0');
			n.scale *= 10;
		}
		if (digits == 0)
			return refuse(-EINVAL, err, err_bytes,
				      "\"%s\" has no digit after the point",
				      text);
	}
	*ret = n;
	*ret_rest = p;
	return 0;
}

static const char *skip_blanks(const char *p)
{
	while (*p == ' ' || *p == '\t')
		p++;
	return p;
}

/* Find the factor of a suffix. */
static int parse_suffix(const char *text, const char *suffix,
			uint64_t *ret_unit, char *err, size_t err_bytes)
{
	const char *letter;

	if (strcasecmp(suffix, "") == 0 || strcasecmp(suffix, "B") == 0) {
		*ret_unit = 1;
		return 0;
	}
	letter = strchr(unit_letters, toupper((unsigned char)*suffix));
	if (letter && (suffix[1] == '\0' || strcasecmp(suffix + 1, "i") == 0 ||
		       strcasecmp(suffix + 1, "iB") == 0)) {
		*ret_unit = 1ull << (10 * (letter - unit_letters + 1));
		return 0;
	}
	if (letter && strcasecmp(suffix + 1, "B") == 0)
		return refuse(-EINVAL, err, err_bytes,
			      "\"%s\" is ambiguous: %s may count in 1000, in "
			      "1024 or in bits; write %c or %ciB (1024)",
			      text, suffix, *letter, *letter);
	if (*suffix == '%')
		return refuse(
			-EINVAL, err, err_bytes,
			"\"%s\": a percentage is not possible here; write "
			"a size like 4G or 512M",
			text);
	if (toupper((unsigned char)*suffix) == 'E')
		return refuse(-EINVAL, err, err_bytes,
			      "\"%s\": exponents and exbytes are not accepted; "
			      "write a size like 4G or 512M",
			      text);
	return refuse(-EINVAL, err, err_bytes,
		      "\"%s\" has an unknown suffix \"%s\"; known are K, M, G, "
		      "T, P and KiB, MiB, GiB, TiB, PiB (all 1024), or none "
		      "for bytes",
		      text, suffix);
}

/* number * unit / divisor, rounded down. */
static int scale_number(const struct number *n, uint64_t unit,
			uint64_t *ret_bytes)
{
	unsigned __int128 bytes;

	bytes = (unsigned __int128)n->whole * unit +
		(unsigned __int128)n->fraction * unit / n->scale;
	if (bytes > UINT64_MAX)
		return -ERANGE;
	*ret_bytes = bytes;
	return 0;
}

int ts_size_parse(const char *text, uint64_t *ret_bytes, char *err,
		  size_t err_bytes)
{
	const char *rest;
	struct number n;
	uint64_t unit = 0;
	int r;

	r = parse_number(text, &n, &rest, err, err_bytes);
	if (r < 0)
		return r;
	r = parse_suffix(text, skip_blanks(rest), &unit, err, err_bytes);
	if (r < 0)
		return r;
	if (n.scale > 1 && unit == 1)
		return refuse(-EINVAL, err, err_bytes,
			      "\"%s\" is a fraction of a byte; add a suffix, "
			      "like 1.5G",
			      text);
	if (scale_number(&n, unit, ret_bytes) < 0)
		return too_large(text, err, err_bytes);
	return 0;
}

int ts_size_parse_percent(const char *text, uint64_t whole_bytes,
			  uint64_t *ret_bytes, char *err, size_t err_bytes)
{
	const char *rest;
	struct number n;
	int r;

	r = parse_number(text, &n, &rest, err, err_bytes);
	if (r < 0)
		return r;
	if (strcmp(skip_blanks(rest), "%") != 0)
		return ts_size_parse(text, ret_bytes, err, err_bytes);
	if (n.whole > 100 || (n.whole == 100 && n.fraction > 0))
		return refuse(-ERANGE, err, err_bytes,
			      "\"%s\" is more than 100%%", text);
	/* At most 100 * 2^64 before the division: 128 bits hold it. */
	*ret_bytes = ((unsigned __int128)n.whole * whole_bytes +
		      (unsigned __int128)n.fraction * whole_bytes / n.scale) /
		     100;
	return 0;
}

char *ts_size_format(uint64_t bytes, char *buf, size_t buf_bytes)
{
	unsigned shift = 0, letter = 0;
	uint64_t whole, hundredths;
	unsigned __int128 scaled;
	const char *tilde;

	while (shift < 50 && bytes >> shift >= 1024) {
		shift += 10;
		letter++;
	}
	if (letter == 0) {
		snprintf(buf, buf_bytes, "%" PRIu64 " B", bytes);
		return buf;
	}
	scaled = (unsigned __int128)bytes * 100 >> shift;
	tilde = scaled << shift == (unsigned __int128)bytes * 100 ? "" : "~";
	whole = scaled / 100;
	hundredths = scaled % 100;
	if (hundredths == 0)
		snprintf(buf, buf_bytes, "%s%" PRIu64 " %ciB", tilde, whole,
			 unit_letters[letter - 1]);
	else if (hundredths % 10 == 0)
		snprintf(buf, buf_bytes, "%s%" PRIu64 ".%u %ciB", tilde, whole,
			 (unsigned)hundredths / 10, unit_letters[letter - 1]);
	else
		snprintf(buf, buf_bytes, "%s%" PRIu64 ".%02u %ciB", tilde,
			 whole, (unsigned)hundredths, unit_letters[letter - 1]);
	return buf;
}
