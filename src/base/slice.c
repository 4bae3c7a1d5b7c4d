/* SPDX-License-Identifier: Apache-2.0 */
/*
 * See sched(7) and sched_setattr(2): since Linux 6.12 sched_runtime of an ordinary thread is the
 * length of the time slice it requests. The total share of processor time stays the same, and no
 * privilege is needed.
 */
#include "base/slice.h"

#include <errno.h>
#include <unistd.h>
#include <linux/sched.h>
#include <linux/sched/types.h>
#include <sys/syscall.h>

enum {
    SLICE_NS = 100000 /* the shortest allowed */
};

void snp_slice_short(void)
{
    const int before = errno;
    struct sched_attr attr = {.size = sizeof(attr)};

    if (syscall(SYS_sched_getattr, 0, &attr, sizeof(attr), 0) == 0 &&
        attr.sched_policy == SCHED_NORMAL) {
        attr.sched_runtime = SLICE_NS;
        attr.sched_flags |= SCHED_FLAG_RESET_ON_FORK;
        (void)syscall(SYS_sched_setattr, 0, &attr, 0);
    }
    errno = before;
}
