// SPDX-License-Identifier: Apache-2.0
#include <inttypes.h>
#include <stdio.h>

#include "base.h"
#include "size.h"

static const struct {
	const char *name;
	unsigned int shift;
} units[] = {
	{ "", 0 }, { "B", 0 },
	{ "K", 10 }, { "KB", 10 }, { "KiB", 10 },
	{ "M", 20 }, { "MB", 20 }, { "MiB", 20 },
	{ "G", 30 }, { "GB", 30 }, { "GiB", 30 },
	{ "T", 40 }, { "TB", 40 }, { "TiB", 40 },
};

/* A multiple of 2^-40 has 40 decimals at most: later ones change no byte. */
#define DECIMALS_MAX	40

/* The fraction's digits times the unit: exact, by doubling them. */
static uint64_t fraction_bytes(const char *digits, size_t n,
			       unsigned int shift)
{
	uint8_t d[DECIMALS_MAX];
	uint64_t bytes = 0;

	if (n > DECIMALS_MAX)
		n = DECIMALS_MAX;
	for (size_t i = 0; i < n; i++)
		d[i] = (uint8_t)(digits[i] - '0');
	for (; shift; shift--) {
		unsigned int carry = 0;

		for (size_t i = n; i-- > 0;) {
			carry += 2u * d[i];
			d[i] = carry % 10;
			carry /= 10;
		}
		bytes = 2 * bytes + carry;
	}
	return bytes;
}

static int unit_shift(const char *name, unsigned int *ret_shift)
{
	for (size_t i = 0; i < FKV_ARRAY_SIZE(units); i++) {
		if (!strcmp(name, units[i].name)) {
			*ret_shift = units[i].shift;
			return 0;
		}
	}
	return -EINVAL;
}

static size_t digits_at(const char *p)
{
	return strspn(p, "0123456789");
}

int fkv_size_parse(const char *text, uint64_t *ret_bytes)
{
	size_t n = digits_at(text), nf = 0;
	const char *frac = NULL, *p = text + n;
	unsigned __int128 whole = 0;
	unsigned int shift;

	if (!n)
		return -EINVAL;
	if (*p == '.') {
		frac = p + 1;
		nf = digits_at(frac);
		if (!nf)
			return -EINVAL;
		p = frac + nf;
	}
	if (*p == ' ')
		p++;
	if (unit_shift(p, &shift) || (!*p && (frac || p[-1] == ' ')))
		return -EINVAL;
	for (size_t i = 0; i < n; i++) {
		whole = whole * 10 + (unsigned int)(text[i] - '0');
		if (whole > INT64_MAX)
			return -ERANGE;
	}
	whole <<= shift;
	if (nf)
		whole += fraction_bytes(frac, nf, shift);
	if (whole > INT64_MAX)
		return -ERANGE;
	*ret_bytes = (uint64_t)whole;
	return 0;
}

const char *fkv_size_print(uint64_t bytes, char *buf, size_t size)
{
	static const char *const names[] = { "B", "KiB", "MiB", "GiB", "TiB" };
	unsigned int u = 0;
	uint64_t unit = 1;

	while (u + 1 < FKV_ARRAY_SIZE(names) && bytes / unit >= 1024) {
		unit *= 1024;
		u++;
	}
	if (!u)
		snprintf(buf, size, "%" PRIu64 " B", bytes);
	else
		snprintf(buf, size, "%" PRIu64 ".%" PRIu64 " %s", bytes / unit,
			 bytes % unit * 10 / unit, names[u]);
	return buf;
}
