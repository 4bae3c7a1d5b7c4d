/* SPDX-License-Identifier: Apache-2.0 */
/* A scope of the user's systemd: without an answer it is said why, and soon. With one: tests/vm. */
#include "os/scope.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "unit/harness.h"

TEST(a_bus_that_nobody_listens_on_is_a_refusal)
{
    struct snp_err err;
    uint64_t start = snp_now_us();

    assert_int_equal(setenv("DBUS_SESSION_BUS_ADDRESS", "unix:path=/nonexistent/bus", 1), 0);
    assert_true(snp_scope_enter(geteuid(), &err) < 0);
    if (access("/usr/bin/busctl", X_OK) == 0) {
        assert_int_equal(err.code, SNP_E_DENIED);
        assert_non_null(strstr(err.msg, "refused a scope"));
    } else {
        assert_int_equal(err.code, SNP_E_UNSUPPORTED);
        assert_non_null(strstr(err.msg, "no systemd"));
    }
    assert_true(snp_now_us() - start < 30000000);
}

TEST(an_address_that_is_too_long_is_no_bus)
{
    static char address[8192];
    struct snp_err err;

    memset(address, 'x', sizeof(address) - 1);
    assert_int_equal(setenv("DBUS_SESSION_BUS_ADDRESS", address, 1), 0);
    assert_true(snp_scope_enter(geteuid(), &err) < 0);
    assert_int_equal(err.code, SNP_E_UNSUPPORTED);
}

RUN(UNIT(a_bus_that_nobody_listens_on_is_a_refusal), UNIT(an_address_that_is_too_long_is_no_bus))
