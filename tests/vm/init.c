/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Process 1 of the test machine: first in the initramfs, where it loads the modules and
 * moves to the disk, then (with the argument "disk") on it, where it mounts what a host
 * has, with cgroup version 2 alone, and runs the checks. A disk with a systemd of its own
 * is handed to that, whose service does the same. The machine ends with them; the last
 * line on the console carries their exit status.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <termios.h>
#include <time.h>
#include <unistd.h>
#include <sys/mount.h>
#include <sys/reboot.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#define COMMAND "/checks/command"

struct mounting {
    const char *type;
    const char *target;
    const char *options;
    unsigned long flags;
};

static const struct mounting mountings[] = {
    {"proc", "/proc", NULL, MS_NOSUID | MS_NODEV | MS_NOEXEC},
    {"sysfs", "/sys", NULL, MS_NOSUID | MS_NODEV | MS_NOEXEC},
    {"cgroup2", "/sys/fs/cgroup", NULL, MS_NOSUID | MS_NODEV | MS_NOEXEC},
    {"devtmpfs", "/dev", NULL, MS_NOSUID},
    {"devpts", "/dev/pts", "mode=620", MS_NOSUID | MS_NOEXEC},
    {"tmpfs", "/dev/shm", "mode=1777", MS_NOSUID | MS_NODEV},
    {"tmpfs", "/run", "mode=755", MS_NOSUID | MS_NODEV},
    {"tmpfs", "/tmp", "mode=1777", MS_NOSUID | MS_NODEV},
};

static void end(int status)
{
    printf("\nVM-END %d\n", status);
    (void)fflush(stdout);
    (void)tcdrain(1);
    sync();
    (void)reboot(RB_AUTOBOOT); /* with qemu's -no-reboot the end */
    for (;;) {
        (void)pause();
    }
}

static void must(const char *what, int r)
{
    if (r < 0) {
        printf("init: %s: %s\n", what, strerror(errno));
        end(99);
    }
}

static void load_modules(void)
{
    FILE *list = fopen("/modules/list", "re");
    char path[256];

    if (list == NULL) {
        must("list of modules", -1);
        return;
    }
    while (fgets(path, sizeof(path), list) != NULL) {
        path[strcspn(path, "\n")] = '\0';
        int fd = open(path, O_RDONLY | O_CLOEXEC);
        must(path, fd);
        if (syscall(SYS_finit_module, fd, "", 0) < 0 && errno != EEXIST) {
            must(path, -1);
        }
        (void)close(fd);
    }
    (void)fclose(list);
}

static void move_to_disk(void)
{
    char *argv[] = {(char[]){"init"}, (char[]){"disk"}, NULL};
    char *envp[] = {NULL};
    struct stat st;

    must("/dev", mount("devtmpfs", "/dev", "devtmpfs", 0, NULL));
    load_modules();
    for (int i = 0; i < 500 && stat("/dev/vda", &st) < 0; i++) {
        const struct timespec moment = {.tv_nsec = 10000000};
        (void)nanosleep(&moment, NULL);
    }
    must("/dev/vda", mount("/dev/vda", "/disk", "ext4", 0, NULL));
    must("umount /dev", umount2("/dev", MNT_DETACH));
    must("chdir", chdir("/disk"));
    must("move", mount(".", "/", NULL, MS_MOVE, NULL));
    must("chroot", chroot("."));
    must("chdir", chdir("/"));
    if (stat("/checks/systemd", &st) == 0) {
        argv[1] = NULL;
        (void)execve("/sbin/init", argv, envp);
        must("/sbin/init", -1);
    }
    (void)execve("/checks/init", argv, envp);
    must("/checks/init", -1);
}

static void run_checks(void)
{
    char *argv[] = {(char[]){"sh"}, (char[]){COMMAND}, NULL};
    char *envp[] = {(char[]){"PATH=/usr/sbin:/usr/bin"}, (char[]){"HOME=/root"},
                    (char[]){"LANG=C.UTF-8"}, (char[]){"PYTHONDONTWRITEBYTECODE=1"}, NULL};
    int status = 0;
    pid_t child;

    for (size_t i = 0; i < sizeof(mountings) / sizeof(mountings[0]); i++) {
        const struct mounting *m = &mountings[i];
        (void)mkdir(m->target, 0755);
        must(m->target, mount(m->type, m->target, m->type, m->flags, m->options));
    }
    (void)symlink("/proc/self/fd", "/dev/fd");
    child = fork();
    must("fork", child);
    if (child == 0) {
        (void)setsid();
        (void)execve("/bin/sh", argv, envp);
        _exit(98);
    }
    for (;;) { /* as any process 1: also whoever lost its parent */
        pid_t pid = wait(&status);
        if (pid == child) {
            end(WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status));
        }
    }
}

int main(int argc, char **argv)
{
    if (getpid() != 1) {
        return 2;
    }
    if (argc > 1 && strcmp(argv[1], "disk") == 0) {
        run_checks();
    } else {
        move_to_disk();
    }
    return 1;
}
