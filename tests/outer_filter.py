# SPDX-License-Identifier: Apache-2.0
"""Run a program below a filter of system calls, as a container runtime would.

    outer_filter.py CALL[:FLAGS]=ERROR ... -- PROGRAM ARGUMENT...

CALL fails with ERROR (a name of errno); with FLAGS, only if its first argument has one of
these bits.
"""

import ctypes
import errno
import os
import sys

ALLOW, MASKED_EQ = 0x7fff0000, 7
CTL_NNP = 3  # SCMP_FLTATR_CTL_NNP


class Compare(ctypes.Structure):
    _fields_ = [("arg", ctypes.c_uint), ("op", ctypes.c_int), ("a", ctypes.c_uint64), ("b", ctypes.c_uint64)]


def main() -> None:
    split = sys.argv.index("--")
    lib = ctypes.CDLL("libseccomp.so.2", use_errno=True)
    lib.seccomp_init.restype = ctypes.c_void_p
    ctx = ctypes.c_void_p(lib.seccomp_init(ALLOW))
    if os.geteuid() == 0:
        lib.seccomp_attr_set(ctx, CTL_NNP, 0)
    for rule in sys.argv[1:split]:
        call, _, name = rule.partition("=")
        call, _, flags = call.partition(":")
        number = lib.seccomp_syscall_resolve_name(call.encode())
        action = 0x00050000 | getattr(errno, name)
        bits = int(flags or "0", 16)
        # One rule for each bit: an "or" of masks is what a list of rules is.
        compares = [Compare(0, MASKED_EQ, 1 << n, 1 << n) for n in range(32) if bits >> n & 1]
        done = ([lib.seccomp_rule_add_array(ctx, action, number, 1, ctypes.byref(one)) for one in compares]
                or [lib.seccomp_rule_add_array(ctx, action, number, 0, None)])
        if any(done):
            sys.exit(f"outer_filter: {rule}: {done}")
    if lib.seccomp_load(ctx) != 0:
        sys.exit("outer_filter: cannot load")
    os.execv(sys.argv[split + 1], sys.argv[split + 1:])


main()
