/* SPDX-License-Identifier: Apache-2.0 */
#include "guest/pid1/container.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <linux/close_range.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/un.h>

#include "base/fd.h"
#include "guest/channels.h"
#include "guest/dir.h"
#include "guest/module/landlock.h"
#include "guest/spec.h"

enum {
    LOW_FDS = 16, /* new descriptors are first moved above these */
    LINE_S = 10,
    RULES_MAX = 64,
    CODE_NICE = 10,
    ABI_MAX = 6,
};

static SNP_NORETURN void fail(const char *what)
{
    (void)dprintf(2, "%s: %s\n", what, strerror(errno)); /* NOLINT(concurrency-mt-unsafe) */
    _exit(1);
}

static int high(int fd, const char *what)
{
    int r = fd < 0 ? -1 : fcntl(fd, F_DUPFD_CLOEXEC, LOW_FDS);

    if (r < 0) {
        fail(what);
    }
    (void)close(fd);
    return r;
}

/* Make both ends of a stream, above the reserved numbers. */
static void make_stream(int ends[2], bool is_pipe)
{
    if ((is_pipe ? pipe2(ends, O_CLOEXEC)
                 : socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends)) < 0) {
        fail("a stream");
    }
    ends[0] = high(ends[0], "a stream");
    ends[1] = high(ends[1], "a stream");
}

static void complain(void *data, const char *bytes, size_t n)
{
    (void)data;
    (void)bytes;
    (void)n;
}

static SNP_NORETURN void relay(int control_fd, const int out_fd[2])
{
    struct snp_channels_spec spec = {.in_fd = high(0, "standard input"),
                                     .out_fd = high(1, "standard output"),
                                     .is_inner = true,
                                     .complain = complain};
    const uint32_t hello[] = SNP_CHANNEL_HELLO;
    const struct sigaction ignore = {.sa_handler = SIG_IGN};
    struct snp_channels *cs =
        snp_write_all(spec.out_fd, hello, sizeof(hello)) < 0 ? NULL : snp_channels_new(&spec);

    (void)prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0);
    (void)prctl(PR_SET_NAME, "relay", 0, 0, 0);
    (void)sigaction(SIGPIPE, &ignore, NULL);
    if (cs == NULL ||
        snp_channels_add(cs, SNP_CHANNEL_INIT, control_fd, SNP_CHANNEL_READ | SNP_CHANNEL_WRITE) <
            0 ||
        snp_channels_add(cs, SNP_CHANNEL_STDOUT, out_fd[0], SNP_CHANNEL_READ) < 0 ||
        snp_channels_add(cs, SNP_CHANNEL_STDERR, out_fd[1], SNP_CHANNEL_READ) < 0) {
        _exit(1);
    }
    while (snp_channels_step(cs, -1) == 0) {
    }
    _exit(0);
}

static void place(int fd, int number)
{
    if (dup2(fd, number) < 0) {
        fail("a descriptor");
    }
    (void)close(fd);
}

/*
 * Receive our ends of the streams from the supervisor, if it has the same kernel. False: not
 * available (another host, gVisor's kernel, a policy of the host).
 */
static bool take_streams(int ends[SNP_CONTAINER_STREAMS])
{
    const struct sockaddr_un address = {.sun_family = AF_UNIX,
                                        .sun_path = SNP_CONTAINER_LINE "/" SNP_CONTAINER_SOCKET};
    const struct timeval patience = {.tv_sec = LINE_S};
    snp_autoclose int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    int fds[SNP_FDS_MAX];
    size_t n = 0;
    char byte;

    if (fd < 0 || setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience)) < 0 ||
        connect(fd, (const struct sockaddr *)&address, sizeof(address)) < 0 ||
        snp_recv_fds(fd, &byte, 1, fds, &n) != 1 || n != SNP_CONTAINER_STREAMS ||
        send(fd, &byte, 1, MSG_NOSIGNAL) != 1) {
        while (n > 0) {
            (void)close(fds[--n]);
        }
        return false;
    }
    for (size_t i = 0; i < SNP_CONTAINER_STREAMS; i++) {
        ends[i] = high(fds[i], "a stream");
    }
    return true;
}

/* Get the streams from a new relay; returns its pid. */
static pid_t make_streams(int ends[SNP_CONTAINER_STREAMS])
{
    int control[2];
    int out[2];
    int err[2];
    pid_t pid;

    make_stream(control, false);
    make_stream(out, true);
    make_stream(err, true);
    pid = fork();
    if (pid == 0) {
        const int read_fd[2] = {out[0], err[0]};

        (void)close(control[0]);
        (void)close(out[1]);
        (void)close(err[1]);
        relay(control[1], read_fd);
    }
    if (pid < 0) {
        fail("the relay");
    }
    (void)close(control[1]);
    (void)close(out[0]);
    (void)close(err[0]);
    ends[0] = control[0];
    ends[1] = out[1];
    ends[2] = err[1];
    return pid;
}

pid_t snp_container_enter(void)
{
    int ends[SNP_CONTAINER_STREAMS];
    pid_t relay_pid;

    (void)prctl(PR_SET_DUMPABLE, 0, 0, 0, 0);
    (void)umask(0022);
    /* An engine may have set the modes of the image. */
    (void)chmod("/tmp", 01777);
    (void)chmod("/workspace", 0755);
    (void)chmod(SNP_CONTAINER_COPIES, 0700);
    (void)mkdir("/tmp/.home", 0755);
    relay_pid = take_streams(ends) ? 0 : make_streams(ends);
    (void)syscall(SYS_close_range, SNP_INIT_CONTROL_FD, LOW_FDS - 1, 0);
    place(high(open("/workspace", O_PATH | O_DIRECTORY | O_CLOEXEC), "/workspace"),
          SNP_INIT_UPPER_FD);
    place(high(open(SNP_CONTAINER_OURS "/snp-files", O_RDONLY | O_CLOEXEC), "snp-files"),
          SNP_INIT_FILES_FD);
    place(high(open(SNP_CONTAINER_COPIES, O_RDONLY | O_DIRECTORY | O_CLOEXEC), "copies"),
          SNP_INIT_COPIES_FD);
    place(high(open("/dev/null", O_RDWR | O_CLOEXEC), "/dev/null"), 0);
    place(ends[0], SNP_INIT_CONTROL_FD);
    place(ends[1], 1);
    place(ends[2], 2);
    return relay_pid;
}

/* Add rules for the folders of the image: all of the root except special ones. */
static size_t add_image(struct snp_landlock_rule *rules, char (*paths)[NAME_MAX + 2], size_t n)
{
    static const char *const others[] = {"run", "proc", "sys", "dev", "tmp", "workspace"};
    snp_autodir DIR *dir = opendir("/");
    const char *name;

    while (n < RULES_MAX && (name = snp_dir_next(dir)) != NULL) {
        bool is_other = false;

        for (size_t i = 0; i < SNP_ARRAY_LEN(others); i++) {
            is_other = is_other || strcmp(others[i], name) == 0;
        }
        if (!is_other) {
            (void)snprintf(paths[n], sizeof(paths[n]), "/%s", name);
            rules[n] = (struct snp_landlock_rule){paths[n], SNP_LANDLOCK_RUN};
            n++;
        }
    }
    return n;
}

/* The value of a variable, bytes or a number; 0 = not set. */
static rlim_t variable(const char *name)
{
    const char *text = getenv(name); /* NOLINT(concurrency-mt-unsafe) */
    rlim_t value = 0;

    for (; text != NULL && *text >= '0' && *text <= '9'; text++) {
        value = value * 10 + (rlim_t)(*text - '0');
    }
    return value;
}

unsigned snp_container_room(void)
{
    return (unsigned)variable(SNP_CONTAINER_ROOM);
}

/* Room ----------------------------------------------------------------------------------------- */

static sem_t end_one; /* stays at zero until snp_container_hold posts it */
static unsigned held;

static void *wait_for_end(void *data)
{
    while (sem_wait(&end_one) < 0) {
    }
    return data;
}

static int start_thread(void)
{
    pthread_attr_t attr;
    pthread_t thread;
    int r;

    (void)pthread_attr_init(&attr);
    (void)pthread_attr_setstacksize(&attr, (size_t)PTHREAD_STACK_MIN);
    (void)pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
    r = pthread_create(&thread, &attr, wait_for_end, NULL);
    (void)pthread_attr_destroy(&attr);
    return r;
}

void snp_container_hold(unsigned n)
{
    for (; held > n; held--) {
        (void)sem_post(&end_one);
    }
    while (held < n && start_thread() == 0) {
        held++;
    }
}

/* The code ------------------------------------------------------------------------------------- */

static int limit(__rlimit_resource_t resource, const char *name)
{
    const rlim_t value = variable(name);
    const struct rlimit limit = {.rlim_cur = value, .rlim_max = value};

    return value == 0 ? 0 : setrlimit(resource, &limit);
}

int snp_container_fence(void)
{
    static const struct snp_landlock_rule own[] = {
        {"/", SNP_LANDLOCK_LIST},         {SNP_CONTAINER_OURS "/guest", SNP_LANDLOCK_RUN},
        {"/proc", SNP_LANDLOCK_EDIT},     {"/dev", SNP_LANDLOCK_EDIT},
        {"/dev/shm", SNP_LANDLOCK_ALL},   {"/tmp", SNP_LANDLOCK_ALL},
        {"/workspace", SNP_LANDLOCK_ALL},
    };
    static char paths[RULES_MAX][NAME_MAX + 2];
    struct snp_landlock_rule rules[RULES_MAX];
    struct snp_err err;
    int abi;
    size_t n = SNP_ARRAY_LEN(own);

    /* A lower priority than pid 1, which must run beside any number of busy processes. */
    (void)setpriority(PRIO_PROCESS, 0, CODE_NICE);
    if (limit(RLIMIT_DATA, SNP_CONTAINER_DATA) < 0 || limit(RLIMIT_AS, SNP_CONTAINER_SPACE) < 0) {
        return -1;
    }
    memcpy(rules, own, sizeof(own));
    n = add_image(rules, paths, n);
    if (snp_landlock_fence(rules, n, ABI_MAX, false, &abi, &err) < 0 &&
        err.code != SNP_E_UNSUPPORTED) {
        return -1;
    }
    return limit(RLIMIT_NOFILE, SNP_CONTAINER_FILES);
}
