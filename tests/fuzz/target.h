/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNP_TESTS_FUZZ_TARGET_H
#define SNP_TESTS_FUZZ_TARGET_H

/* What each tests/fuzz/fuzz_NAME.c defines; its corpus is tests/fuzz/corpus/NAME/. */

#include <stddef.h>
#include <stdint.h>

/* Feed n bytes to the parser; abort (SNP_ASSERT) on a broken promise. Returns 0. */
int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n);

#endif
