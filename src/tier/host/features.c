/* SPDX-License-Identifier: Apache-2.0 */
#include "tier/host/features.h"

#include <errno.h>
#include <unistd.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "base/fd.h"
#include "base/macro.h"
/* Run f in a child; true if it returns 0 there. */
pid_t snp_probe_begin(int (*f)(void))
{
    pid_t pid = fork();

    if (pid == 0) {
        _exit(f() == 0 ? 0 : 1);
    }
    return pid;
}

bool snp_probe_works(int (*f)(void))
{
    return snp_probe_end(snp_probe_begin(f));
}

bool snp_probe_end(pid_t pid)
{
    int status = 1;

    return pid > 0 && SNP_RETRY(waitpid(pid, &status, 0)) == pid && status == 0;
}

int snp_probe_seccomp_notify(void)
{
    uint32_t action = 0x7fc00000U; /* SECCOMP_RET_USER_NOTIF */

    return (int)syscall(SYS_seccomp, 2 /* SECCOMP_GET_ACTION_AVAIL */, 0, &action);
}

json_t *snp_probe_row(
    const char *name, bool ok, const char *detail, const char *cost, const char *fix)
{
    return json_pack("{s:s,s:b,s:s,s:s,s:s}", "name", name, "ok", ok, "detail", detail, "cost",
                     ok ? "" : cost, "fix", ok ? "" : fix);
}
