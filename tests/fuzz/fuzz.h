/* SPDX-License-Identifier: BSD-3-Clause */
/* fuzz.h - the entry point of every harness, as libFuzzer calls it */
#ifndef TS_TESTS_FUZZ_H
#define TS_TESTS_FUZZ_H

#include <stddef.h>
#include <stdint.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#endif
