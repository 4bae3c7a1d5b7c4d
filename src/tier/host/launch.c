/* SPDX-License-Identifier: Apache-2.0 */
#include "tier/host/launch.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>

#include "base/str.h"
#include "guest/image.h"
#include "tier/host/template.h"

enum {
    FILTER_MAX = 64 << 10,
    CAPS_N = 64,
    THREAD_STACK = 2 << 20,
    ARGV_MAX = 16,
    PATH_LEN = 4096
};

/* Names of arguments, and their members. */
static const struct {
    const char *name;
    size_t offset;
} arguments[] = {
    {"template", offsetof(struct snp_launch, template_name)},
    {"python", offsetof(struct snp_launch, python)},
    {"guest", offsetof(struct snp_launch, source[SNP_TREE_GUEST])},
    {"prefix", offsetof(struct snp_launch, source[SNP_TREE_PREFIX])},
    {"venv", offsetof(struct snp_launch, source[SNP_TREE_VENV])},
    {"site", offsetof(struct snp_launch, site)},
    {"alias", offsetof(struct snp_launch, alias)},
    {"hash", offsetof(struct snp_launch, hash)},
    {"ours", offsetof(struct snp_launch, ours)},
    {"preload", offsetof(struct snp_launch, preload)},
    {"rootfs", offsetof(struct snp_launch, rootfs)},
    {"id", offsetof(struct snp_launch, id)},
    {"host-id", offsetof(struct snp_launch, host_id_text)},
    {"folder", offsetof(struct snp_launch, folder)},
    {"landlock-abi", offsetof(struct snp_launch, landlock_abi_text)},
};

static bool take(struct snp_launch *l, const char *argument)
{
    size_t n = strcspn(argument, "=");

    for (size_t i = 0; argument[n] == '=' && i < SNP_ARRAY_LEN(arguments); i++) {
        if (strlen(arguments[i].name) == n && strncmp(arguments[i].name, argument, n) == 0) {
            const char *value = argument + n + 1;
            memcpy((char *)l + arguments[i].offset, &value, sizeof(value));
            return true;
        }
    }
    return false;
}

int snp_launch_read(struct snp_launch *l, int argc, char **argv)
{
    bool is_good = true;

    *l = (struct snp_launch){.landlock_abi_text = "0", .root_fd = -1, .tree = {-1, -1, -1}};
    l->has_image = fcntl(SNP_TEMPLATE_IMAGE_FD, F_GETFD) >= 0; /* no other file is open yet */
    for (int i = 0; i < argc; i++) {
        is_good = take(l, argv[i]) && is_good;
    }
    if (is_good && l->template_name != NULL && l->python != NULL &&
        l->source[SNP_TREE_GUEST] != NULL && l->host_id_text != NULL &&
        snp_parse_u64(l->host_id_text, &l->host_id) == 0 &&
        snp_parse_u64(l->landlock_abi_text, &l->landlock_abi) == 0) {
        return 0;
    }
    (void)dprintf(2, "usage: --zygote NAME=VALUE..., see src/tier/host/launch.h\n");
    return -1;
}

void snp_launch_steps(struct snp_launch *l, const struct snp_launch_step *steps, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        struct snp_err err;
        if (steps[i].run(l, &err) < 0) {
            (void)dprintf(2, "template %s: step %s: %s\n", l->template_name, steps[i].name,
                          err.msg);
            _exit(SNP_LAUNCH_FAILED);
        }
    }
}

/*
 * A program's stack limit at its start becomes the stack size of each thread, which counts against
 * the sandbox's memory although it is hardly used. A sandbox restores the usual limit for its first
 * thread.
 */
int snp_launch_rlimits(struct snp_launch *l, struct snp_err *err)
{
    /* 1 also disables a core_pattern program. */
    const struct rlimit core = {.rlim_cur = 1, .rlim_max = 1};
    struct rlimit stack;

    (void)l;
    (void)setrlimit(RLIMIT_CORE, &core);
    if (getrlimit(RLIMIT_STACK, &stack) < 0) {
        return snp_fail_sys(err, errno, "getrlimit");
    }
    stack.rlim_cur = THREAD_STACK;
    return setrlimit(RLIMIT_STACK, &stack) < 0 ? snp_fail_sys(err, errno, "setrlimit") : 0;
}

int snp_launch_seccomp(struct snp_launch *l, struct snp_err *err)
{
    static char code[FILTER_MAX];
    ssize_t n = pread(SNP_LAUNCH_ZYGOTE_FILTER_FD, code, sizeof(code), 0);
    struct sock_fprog program = {.filter = (struct sock_filter *)(void *)code};

    (void)l;
    if (n <= 0 || (size_t)n % sizeof(struct sock_filter) != 0) {
        return snp_fail(err, SNP_E_INTERNAL, "the filter cannot be read");
    }
    program.len = (unsigned short)((size_t)n / sizeof(struct sock_filter));
    if (syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &program) < 0) {
        return snp_fail_sys(err, errno, "seccomp");
    }
    return 0;
}

void snp_launch_bound_caps(void)
{
    for (int cap = 0; cap < CAPS_N && prctl(PR_CAPBSET_DROP, cap, 0, 0, 0) == 0; cap++) {
    }
}

/*
 * The interpreter starts without packages (-S): driver.py adds them in the sandbox, or here if
 * there are modules to preload.
 */
void snp_launch_exec(const struct snp_launch *l,
                     const char *driver,
                     const char *home,
                     const char *more)
{
    char preload[PATH_LEN];
    const char *const envp[] = {"PATH=/usr/local/bin:/usr/bin:/bin",
                                "LANG=C.UTF-8",
                                "PYTHONDONTWRITEBYTECODE=1",
                                home,
                                l->has_image ? preload : more,
                                l->has_image ? more : NULL,
                                NULL};
    const struct {
        const char *option;
        const char *value;
    } options[] = {
        {"--template", l->template_name},
        {"--site", l->site},
        {"--preload", l->preload},
        {"--zygote", "3"},
    };
    const char *argv[ARGV_MAX] = {l->python, "-I", driver};
    size_t n = 3;

    if (l->site != NULL) {
        argv[2] = "-S";
        argv[n++] = driver;
    }
    for (size_t i = 0; i < SNP_ARRAY_LEN(options); i++) {
        if (options[i].value != NULL) {
            argv[n++] = options[i].option;
            argv[n++] = options[i].value;
        }
    }
    (void)snprintf(preload, sizeof(preload), "LD_PRELOAD=%.*s/thaw.so",
                   (int)(strrchr(driver, '/') - driver), driver);
    (void)close(SNP_LAUNCH_ZYGOTE_FILTER_FD);
    if (l->has_image) {
        (void)fcntl(SNP_TEMPLATE_IMAGE_FD, F_SETFD, 0);
    }
    for (int fd = SNP_LAUNCH_CONTROL_FD; fd <= SNP_LAUNCH_SESSION_FILTER_FD; fd++) {
        (void)fcntl(fd, F_SETFD, 0);
    }
    (void)execve(l->python, (char *const *)(uintptr_t)argv, (char *const *)(uintptr_t)envp);
    (void)dprintf(2, "template %s: cannot run %s: errno %d\n", l->template_name, l->python, errno);
    _exit(SNP_LAUNCH_FAILED);
}
