/* SPDX-License-Identifier: Apache-2.0 */
#include "guest/pid1/process.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
#include <sys/resource.h>

#include "guest/dir.h"
#include "guest/pid1/frame.h"

pid_t snp_pid_of(const char *name)
{
    pid_t pid = 0;

    for (; *name >= '0' && *name <= '9' && pid < 100000000; name++) {
        pid = pid * 10 + (*name - '0');
    }
    return pid;
}

unsigned snp_processes_each(const struct snp_init *in, void (*visit)(pid_t, void *), void *data)
{
    /* In the local tier the supervisor does this from outside. */
    snp_autodir DIR *dir = in->is_local ? NULL : opendir("/proc");
    const char *name;
    unsigned n = 0;

    if (dir == NULL && !in->is_local) {
        _exit(1);
    }
    while ((name = snp_dir_next(dir)) != NULL) {
        pid_t pid = snp_pid_of(name);
        if (pid > 1 && pid != in->helper.pid && pid != in->relay &&
            !snp_sleepers_spare(&in->sleepers, pid)) {
            visit(pid, data);
            n++;
        }
    }
    return n;
}

bool snp_proc_text(pid_t pid, const char *name, char *text, size_t text_len)
{
    char path[48];
    ssize_t n;

    (void)snprintf(path, sizeof(path), "/proc/%d/%s", (int)pid, name);
    snp_autoclose int fd = open(path, O_RDONLY | O_CLOEXEC);
    n = fd < 0 ? -1 : read(fd, text, text_len - 1);
    text[n > 0 ? n : 0] = '\0';
    return n > 0;
}

bool snp_process_stat(pid_t pid, unsigned first, uint64_t *ret, unsigned n)
{
    char text[1024];
    const char *at = snp_proc_text(pid, "stat", text, sizeof(text)) ? strrchr(text, ')')
                                                                    : NULL; /* ends field 2 */

    for (unsigned skip = 2; at != NULL && skip < first; skip++) {
        at = strchr(at + 1, ' ');
    }
    for (unsigned i = 0; i < n && at != NULL; i++) {
        ret[i] = 0;
        for (at++; *at >= '0' && *at <= '9'; at++) {
            ret[i] = ret[i] * 10 + (uint64_t)(*at - '0');
        }
    }
    return at != NULL;
}

bool snp_process_is_dead(pid_t pid)
{
    char text[1024];
    const char *at = snp_proc_text(pid, "stat", text, sizeof(text)) ? strrchr(text, ')') : NULL;
    uint64_t threads = 0;

    return at == NULL ||
           (strncmp(at, ") Z", 3) == 0 && snp_process_stat(pid, 20, &threads, 1) && threads <= 1);
}

/* CPU time of reaped children of a process, in microseconds. */
static uint64_t waited_cpu(pid_t pid)
{
    uint64_t ticks[2] = {0};
    long per_second = sysconf(_SC_CLK_TCK);

    return per_second <= 0 || !snp_process_stat(pid, 16, ticks, 2)
               ? 0
               : (ticks[0] + ticks[1]) * (1000000U / (uint64_t)per_second);
}

static void add_cpu(pid_t pid, void *data)
{
    /* The kernel's encoding of "CPU time of process pid" (clock_getcpuclockid). */
    clockid_t clock = (clockid_t)((~(unsigned)pid << 3) | 2U);
    struct timespec ts;

    if (clock_gettime(clock, &ts) == 0) {
        *(uint64_t *)data += (uint64_t)ts.tv_sec * 1000000U + (uint64_t)ts.tv_nsec / 1000U;
    }
    *(uint64_t *)data += waited_cpu(pid);
}

uint64_t snp_processes_cpu(const struct snp_init *in)
{
    struct rusage reaped;
    uint64_t total = 0;

    (void)snp_processes_each(in, add_cpu, &total);
    if (getrusage(RUSAGE_CHILDREN, &reaped) == 0) {
        total += snp_micros(&reaped.ru_utime) + snp_micros(&reaped.ru_stime);
    }
    return total;
}
