/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNP_TESTS_UNIT_HARNESS_H
#define SNP_TESTS_UNIT_HARNESS_H

/*
 * cmocka and what it needs before it. A test: TEST(name_states_the_expectation) { ... };
 * the file ends with main() calling RUN(UNIT(name), ...). With the name of a test as its
 * argument, a program runs only that one. Unit tests need nothing special of a host
 * (no root, no network), so none has a reason to be skipped.
 */

/* clang-format off */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
/* clang-format on */

#include <sys/stat.h>

#include "base/macro.h"

#define TEST(name) static void name(void **state SNP_UNUSED)
#define UNIT(name) cmocka_unit_test(name)

#define RUN(...)                                                \
    int main(int argc, char **argv)                             \
    {                                                           \
        static const struct CMUnitTest tests[] = {__VA_ARGS__}; \
        cmocka_set_test_filter(argc > 1 ? argv[1] : NULL);      \
        (void)umask(022); /* whatever the caller's is */        \
        return cmocka_run_group_tests(tests, NULL, NULL);       \
    }

#endif
