/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Pid 1 of a sandbox.
 *
 * One thread, one poll loop: the supervisor's control stream, the sockets of branches
 * that are to say something, SIGCHLD. It reaps, starts commands, passes signals on, sweeps, and
 * reads and writes workspace files for the host. It holds no privilege: the filter, the
 * Landlock domain and the limits are those of the code. When the control stream ends it
 * exits, and the kernel then kills everything else in the sandbox.
 *
 * In the local tier there is no pid namespace: it is the parent of all there is inside and
 * adopts what is orphaned, and the supervisor sweeps, watches and kills from outside.
 *
 * usage: init INTERPRETER_PID [FOLDER]   (descriptors as in guest/spec.h)
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
#include <linux/magic.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/vfs.h>
#include <sys/wait.h>

#include "base/buf.h"
#include "base/fd.h"
#include "guest/files/files.h"
#include "guest/files/pack.h"
#include "guest/files/shadow.h"
#include "guest/pid1/branches.h"
#include "guest/pid1/kill.h"
#include "guest/pid1/stop.h"
#include "guest/pid1/wire.h"
#include "guest/pid1/worker.h"
#include "guest/spec.h"

enum {
    HEADER_LEN = 16,
    ARGS_MAX = 4096,
    QUIET_ROUNDS = 2,
    SWEEP_MS = 12000, /* less than the supervisor's patience */
    KILL_ROUNDS = 400,
    AWAKE_MS = 2000,      /* for a copy to come to rest */
    SAVERS_MS = 300,      /* for what saves a state to end */
    WORKER_MS = 500,      /* how long the code can hold up a worker by stopping it */
    MAPPINGS_EVERY = 16,  /* samples */
    MAPPINGS_MAX = 65530, /* of a process: the kernel's default */
    MAPPING_BYTES = 256,  /* of the kernel for each, about */
    THREAD_BYTES = 24 << 10,
    PAGE_BYTES = 4096,
    POLLED_CONTROL = 0,
    POLLED_CHILDREN = 1,
    POLLED_BRANCHES = 2 /* and more */
};

struct init {
    pid_t interpreter; /* -1 = none */
    pid_t command;     /* -1 = none */
    bool is_stopped;   /* the command was signalled: what it leaves behind goes with it */
    uint32_t command_id;
    bool is_local; /* no namespaces: /proc is closed to us */
    bool is_watching;
    bool was_crowded;      /* since the watch began */
    uint64_t watched;      /* bytes last reported */
    uint64_t watch_limit;  /* bytes that matter; 0 = not watched */
    uint64_t most_threads; /* of the code; 0 = not watched */
    unsigned n_samples;
    uint64_t mappings_bytes;    /* as last counted, which is dear: not in each sample */
    int children_fd;            /* readable when one has ended */
    int passed_fd[SNP_FDS_MAX]; /* of requests that are not run yet, in their order */
    size_t n_passed;
    struct snp_init_branches branches;
    uint64_t n_ended;  /* of branches, at the last sweep */
    uint32_t n_others; /* processes of the code when a branch came to rest */
    struct snp_changes *changes;
    struct snp_shadows *shadows; /* NULL = none are kept */
    pid_t worker;                /* child that packs or unpacks; -1 = none */
    uint8_t worker_type;         /* the request it works for */
    uint32_t worker_reply;
    struct snp_buf in;
    struct snp_buf out;
};

/* A cursor over the raw bytes of a request; every read is checked, a short one sets bad. */
struct cursor {
    const char *at;
    const char *end;
    bool bad;
};

struct request {
    uint8_t type;
    uint32_t id;
    int fd; /* passed with it, or -1 */
    struct cursor body;
};

static uint64_t take(struct cursor *c, size_t n)
{
    uint64_t value = 0;

    if ((size_t)(c->end - c->at) < n) {
        c->bad = true;
        return 0;
    }
    memcpy(&value, c->at, n); /* little-endian hosts only, as the wire is */
    c->at += n;
    return value;
}

static const char *take_text(struct cursor *c)
{
    const char *text = c->at;
    size_t n = strnlen(text, (size_t)(c->end - c->at));

    if (n == (size_t)(c->end - c->at)) {
        c->bad = true;
        return "";
    }
    c->at += n + 1;
    return text;
}

static void send_frame(uint8_t type, uint32_t id, const void *bytes, size_t n)
{
    char header[HEADER_LEN] = {0};
    uint32_t len = (uint32_t)n;

    memcpy(header, &len, sizeof(len));
    memcpy(header + 4, &id, sizeof(id));
    header[12] = (char)type;
    if (snp_write_all(SNP_INIT_CONTROL_FD, header, sizeof(header)) < 0 ||
        snp_write_all(SNP_INIT_CONTROL_FD, bytes, n) < 0) {
        _exit(0);
    }
}

static void send_reply(struct init *in, uint32_t id, int eno)
{
    uint32_t code = (uint32_t)eno;

    memcpy(snp_buf_bytes(&in->out), &code, sizeof(code));
    send_frame(SNP_INIT_REPLY, id, snp_buf_bytes(&in->out),
               eno == 0 ? in->out.len : sizeof(code));
}

static uint64_t micros(const struct timeval *tv)
{
    return (uint64_t)tv->tv_sec * 1000000U + (uint64_t)tv->tv_usec;
}

static void send_exit(uint8_t target, uint32_t id, int status, const struct rusage *usage)
{
    char raw[21];
    uint32_t code = (uint32_t)status;
    uint64_t cpu_us = micros(&usage->ru_utime) + micros(&usage->ru_stime);
    uint64_t peak = (uint64_t)usage->ru_maxrss * 1024;

    raw[0] = (char)target;
    memcpy(raw + 1, &code, 4);
    memcpy(raw + 5, &cpu_us, 8);
    memcpy(raw + 13, &peak, 8);
    send_frame(SNP_INIT_EXIT, id, raw, sizeof(raw));
}

/* Whom a sweep is to spare, and who is gone of them. pid 0: nobody yet. */
static void tell_spared(void *data, uint32_t number, pid_t pid, bool is_there)
{
    char raw[9];
    int32_t who = pid;

    (void)data;
    memcpy(raw, &who, 4);
    memcpy(raw + 4, &number, 4);
    raw[8] = is_there ? 1 : 0;
    send_frame(SNP_INIT_SPARED, 0, raw, sizeof(raw));
}

static void worker_done(struct init *in, int status)
{
    uint32_t eno = WIFEXITED(status) ? (uint32_t)WEXITSTATUS(status) : EIO;

    in->worker = -1;
    snp_shadows_pin(in->shadows, false);
    if (in->worker_type == SNP_INIT_UNPACK) {
        snp_shadows_forget(in->shadows);
        snp_changes_rebase(in->changes);
    }
    send_frame(SNP_INIT_REPLY, in->worker_reply, &eno, sizeof(eno));
}

static void reap(struct init *in)
{
    struct rusage usage;
    int status;
    pid_t pid;

    while ((pid = wait4(-1, &status, WNOHANG | WUNTRACED | WCONTINUED, &usage)) > 0) {
        if (WIFSTOPPED(status) || WIFCONTINUED(status)) {
            snp_branches_moved(&in->branches, pid, WIFSTOPPED(status));
        } else if (pid == in->interpreter) {
            in->interpreter = -1;
            send_exit(SNP_INIT_INTERPRETER, 0, status, &usage);
        } else if (pid == in->command) {
            in->command = -1;
            if (in->is_stopped) { /* a shell's background processes ignore SIGINT */
                (void)snp_init_kill(-pid, SIGKILL);
            }
            send_exit(SNP_INIT_COMMAND_TARGET, in->command_id, status, &usage);
        } else {
            (void)snp_branches_reaped(&in->branches, pid);
            if (pid == in->worker) {
                worker_done(in, status);
            }
        }
    }
}

/* 0 = no number. */
static pid_t pid_of(const char *name)
{
    pid_t pid = 0;

    for (; *name >= '0' && *name <= '9' && pid < 100000000; name++) {
        pid = pid * 10 + (*name - '0');
    }
    return pid;
}

/*
 * Calls visit for every process but pid 1, branches and jobs; the number of them. Who cannot look
 * must not report that there is nothing: then the sandbox ends.
 */
static unsigned each_process(const struct init *in, void (*visit)(pid_t, void *), void *data)
{
    DIR *dir = in->is_local ? NULL : opendir("/proc");
    struct dirent *entry;
    unsigned n = 0;

    if (dir == NULL) {
        if (!in->is_local) {
            _exit(1);
        }
        return 0; /* the supervisor looks and kills from outside */
    }
    while ((entry = readdir(dir)) != NULL) { /* NOLINT(concurrency-mt-unsafe): one thread */
        pid_t pid = pid_of(entry->d_name);
        if (pid > 1 && !snp_branches_spare(&in->branches, pid)) {
            visit(pid, data);
            n++;
        }
    }
    (void)closedir(dir);
    return n;
}

static void signal_one(pid_t pid, void *data)
{
    (void)snp_init_kill(pid, *(const int *)data);
}

static uint64_t now_ms(void)
{
    struct timespec ts;

    (void)clock_gettime(CLOCK_MONOTONIC, &ts);
    return (uint64_t)ts.tv_sec * 1000U + (uint64_t)ts.tv_nsec / 1000000U;
}

/* Until one ends, or a millisecond. */
static void await_child(struct init *in)
{
    struct pollfd children = {.fd = in->children_fd, .events = POLLIN};
    struct signalfd_siginfo info;

    if (poll(&children, 1, 1) > 0) {
        (void)!read(in->children_fd, &info, sizeof(info));
    }
    reap(in);
}

/* Whoever has spoken, moved or died since the last look; before anything is asked of us. */
static void look_round(struct init *in)
{
    const pid_t other[] = {in->interpreter, in->command};

    reap(in);
    snp_branches_look(&in->branches, other, SNP_ARRAY_LEN(other));
}

static size_t n_awake(const struct init *in)
{
    return snp_branches_awake(&in->branches);
}

static size_t n_savers(const struct init *in)
{
    return in->branches.n_jobs - (in->worker > 0 ? 1 : 0);
}

/* Until there are none, but not for long. */
static void await_none(struct init *in, size_t (*count)(const struct init *), unsigned ms)
{
    struct pollfd polled[1 + SNP_INIT_BRANCHES_MAX] = {
        {.fd = in->children_fd, .events = POLLIN}
    };
    const uint64_t end = now_ms() + ms;

    for (uint64_t now = now_ms(); count(in) > 0 && now < end; now = now_ms()) {
        struct signalfd_siginfo info;
        int own_ms;
        size_t n = snp_branches_poll(&in->branches, polled + 1, &own_ms);

        (void)poll(polled, 1 + n, (int)(end - now));
        (void)!read(in->children_fd, &info, sizeof(info));
        look_round(in);
    }
}

/*
 * A copy that forks what saves its state will be at rest in a moment, and must be left alone until then: we
 * do not know yet whom it forks. What saves is the session's code and goes with all else; it gets a
 * moment to end, in which nothing else runs. A copy that does not come to rest is lost.
 */
static void settle(struct init *in)
{
    int number = SIGSTOP;

    await_none(in, n_awake, AWAKE_MS);
    if (n_savers(in) > 0) {
        (void)each_process(in, signal_one, &number);
        await_none(in, n_savers, SAVERS_MS);
    }
    snp_branches_end_awake(&in->branches, in->worker);
}

/*
 * Kill all but ourselves, copies that are at rest, and our worker. All are stopped by one call of the
 * kernel's first: a stopped process keeps its place, so code that forks as fast as it can has
 * soon none left to fork into, and takes no time from us. It is over when a list of all processes has
 * none to kill, twice (numbers that begin anew could hide one from a list, not from the next), and
 * no copy was let go on meanwhile, which would have ended it. Then nothing is left that could
 * let one go on. If that does not come about in time the answer is EAGAIN and the host ends us.
 */
static int sweep(struct init *in)
{
    const uint64_t end = now_ms() + SWEEP_MS;
    int number = SIGKILL;
    unsigned quiet = 0;

    while (quiet < QUIET_ROUNDS) {
        unsigned n;

        if (now_ms() > end) {
            return EAGAIN;
        }
        if (!in->is_local) {
            (void)snp_init_kill(-1, SIGSTOP);
        }
        n = each_process(in, signal_one, &number) + snp_branches_dying(&in->branches);
        if (n > 0) {
            await_child(in);
        } else {
            reap(in);
        }
        quiet = n + snp_branches_dying(&in->branches) == 0 ? quiet + 1 : 0;
    }
    if (in->worker > 0) {
        (void)snp_init_kill(in->worker, SIGCONT);
    }
    return 0;
}

/* Read the file name of process pid in /proc into text (NUL-terminated); false if it is gone. */
static bool read_proc(pid_t pid, const char *name, char *text, size_t text_len)
{
    char path[48];
    int fd;
    ssize_t n;

    (void)snprintf(path, sizeof(path), "/proc/%d/%s", (int)pid, name);
    fd = open(path, O_RDONLY | O_CLOEXEC);
    n = fd < 0 ? -1 : read(fd, text, text_len - 1);
    snp_closep(&fd);
    text[n > 0 ? n : 0] = '\0';
    return n > 0;
}

/* Numbers from the stat of a process, from field first on (3 is its state); false if it is gone. */
static bool stat_fields(pid_t pid, unsigned first, uint64_t *ret, unsigned n)
{
    char text[1024];
    const char *at = read_proc(pid, "stat", text, sizeof(text)) ? strrchr(text, ')')
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

/* CPU time of the children that a process has waited for, in microseconds. */
static uint64_t waited_cpu(pid_t pid)
{
    uint64_t ticks[2] = {0};
    long per_second = sysconf(_SC_CLK_TCK);

    return per_second <= 0 || !stat_fields(pid, 16, ticks, 2)
               ? 0
               : (ticks[0] + ticks[1]) * (1000000U / (uint64_t)per_second);
}

/* A copy, and who shares its session. */
struct company {
    pid_t copy;
    bool is_shared;
    uint32_t n; /* processes of the code */
};

static void look_whose_session(pid_t pid, void *data)
{
    struct company *company = data;
    uint64_t ids[2]; /* group, session */

    company->n++;
    if (stat_fields(pid, 5, ids, 2) && ids[1] == (uint64_t)company->copy) {
        company->is_shared = true;
    }
}

/*
 * A group of processes can be let go on by signals to it, and by the kernel when it is orphaned. Groups are
 * parts of sessions, and who is not in one cannot enter it.
 */
static bool is_alone(void *data, pid_t pid, pid_t woken)
{
    struct init *in = data;
    struct company company = {.copy = pid};
    uint64_t ids[2];

    if (in->is_local) {
        return true; /* there signals are sent one by one; of the kernel's we are told */
    }
    (void)each_process(in, look_whose_session, &company);
    in->n_others = company.n;
    if (woken > 1 && woken != pid) {
        look_whose_session(woken, &company); /* a job is not among them */
    }
    return !company.is_shared && stat_fields(pid, 5, ids, 2) && ids[0] == (uint64_t)pid &&
           ids[1] == (uint64_t)pid;
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

static uint64_t cpu_used(const struct init *in)
{
    struct rusage reaped;
    uint64_t total = 0;

    (void)each_process(in, add_cpu, &total);
    if (getrusage(RUSAGE_CHILDREN, &reaped) == 0) {
        total += micros(&reaped.ru_utime) + micros(&reaped.ru_stime);
    }
    return total;
}

/*
 * The number behind key in text, in bytes from kB; 0 if it is not there. Keys begin with
 * their newline, because the line with the name of the process may hold anything else.
 */
static uint64_t kb_field(const char *text, const char *key)
{
    const char *at = strstr(text, key);
    uint64_t value = 0;

    if (at == NULL) {
        return 0;
    }
    at += strlen(key);
    at += strspn(at, " \t");
    for (; *at >= '0' && *at <= '9'; at++) {
        value = value * 10 + (uint64_t)(*at - '0');
    }
    return value * 1024;
}

/* What a sample adds up. */
struct sample {
    const struct snp_init_branches *branches; /* which do not count */
    uint64_t anonymous;                       /* bytes, with page tables */
    uint64_t shared; /* bytes: of /dev/shm, /tmp and the workspace if mapped, or of no file */
    uint64_t threads;
    bool is_shared; /* what several have in common is divided: dearer */
};

/*
 * The status of a process. Of one whose first thread has ended, which the kernel shows without
 * memory, that of another thread, whose number is returned then; 0 = it is gone.
 */
static pid_t read_status(pid_t pid, char *text, size_t text_len)
{
    char path[48];
    struct dirent *entry;
    pid_t tid = 0;
    DIR *dir;

    if (!read_proc(pid, "status", text, text_len)) {
        return 0;
    }
    if (strstr(text, "\nVmPTE:") != NULL) {
        return pid;
    }
    (void)snprintf(path, sizeof(path), "/proc/%d/task", (int)pid);
    dir = opendir(path);
    while (dir != NULL && tid == 0 &&
           (entry = readdir(dir)) != NULL) { /* NOLINT(concurrency-mt-unsafe): one thread */
        pid_t other = pid_of(entry->d_name);
        if (other > 0 && read_proc(other, "status", text, text_len) &&
            strstr(text, "\nVmPTE:") != NULL) {
            tid = other;
        }
    }
    if (dir != NULL) {
        (void)closedir(dir);
    }
    return tid;
}

/*
 * The memory of one process. Divided: pages it has in common with others, the template's among
 * them, count in part, unless it does not let itself be looked into.
 */
static void add_memory(pid_t pid, void *data)
{
    struct sample *sample = data;
    char status[4096];
    char text[2048];

    if (snp_branches_has(sample->branches, pid)) {
        return;
    }
    pid = read_status(pid, status, sizeof(status));
    if (pid == 0) {
        return;
    }
    sample->threads += kb_field(status, "\nThreads:") / 1024;
    sample->anonymous += kb_field(status, "\nVmPTE:");
    if (sample->is_shared && read_proc(pid, "smaps_rollup", text, sizeof(text))) {
        sample->anonymous += kb_field(text, "\nPss_Anon:");
        sample->shared += kb_field(text, "\nPss_Shmem:");
    } else {
        sample->anonymous += kb_field(status, "\nRssAnon:");
        sample->shared += kb_field(status, "\nRssShmem:");
    }
}

/* What the kernel keeps of the mappings of one process. */
static void add_mappings(pid_t pid, void *data)
{
    struct sample *sample = data;
    char path[48];
    char text[8192];
    uint64_t n = 0;
    int fd;

    if (snp_branches_has(sample->branches, pid)) {
        return;
    }
    pid = read_status(pid, text, sizeof(text));
    if (pid == 0) {
        return;
    }
    (void)snprintf(path, sizeof(path), "/proc/%d/maps", (int)pid);
    fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) { /* it does not let itself be looked into: as many as there can be */
        n = kb_field(text, "\nVmSize:") / PAGE_BYTES;
    }
    for (ssize_t got = 1; fd >= 0 && got > 0;) {
        got = read(fd, text, sizeof(text));
        for (ssize_t i = 0; i < got; i++) {
            n += text[i] == '\n' ? 1 : 0;
        }
    }
    snp_closep(&fd);
    sample->anonymous += (n < MAPPINGS_MAX ? n : MAPPINGS_MAX) * MAPPING_BYTES;
}

/* Bytes of the files in memory, mapped or not. */
static uint64_t files_in_memory(const struct init *in)
{
    const int held[] = {SNP_INIT_UPPER_FD, in->shadows == NULL ? -1 : SNP_INIT_SHADOW_FD};
    static const char *const mounts[] = {"/tmp", "/dev/shm"};
    struct statfs fs;
    uint64_t bytes = 0;

    for (size_t i = 0; i < SNP_ARRAY_LEN(mounts); i++) {
        bytes += statfs(mounts[i], &fs) < 0
                     ? 0
                     : (uint64_t)(fs.f_blocks - fs.f_bfree) * (uint64_t)fs.f_bsize;
    }
    for (size_t i = 0; i < SNP_ARRAY_LEN(held); i++) {
        bytes += fstatfs(held[i], &fs) < 0 || fs.f_type != TMPFS_MAGIC
                     ? 0
                     : (uint64_t)(fs.f_blocks - fs.f_bfree) * (uint64_t)fs.f_bsize;
    }
    return bytes;
}

/*
 * Shared pages are mostly those of files, which are counted whether mapped or not; so the
 * larger of both numbers is taken, and nobody is ended for using what counts twice.
 */
static uint64_t sample_bytes(const struct init *in, const struct sample *sample)
{
    uint64_t files = files_in_memory(in);

    return sample->anonymous + in->mappings_bytes + sample->threads * THREAD_BYTES +
           (sample->shared > files ? sample->shared : files);
}

static void watch(struct init *in)
{
    struct sample sample = {.branches = &in->branches};
    uint64_t bytes;

    if (in->n_samples++ % MAPPINGS_EVERY == 0) {
        (void)each_process(in, add_mappings, &sample);
        in->mappings_bytes = sample.anonymous;
        sample.anonymous = 0;
    }
    (void)each_process(in, add_memory, &sample);
    in->was_crowded |= in->most_threads > 0 && sample.threads >= in->most_threads;
    if (in->watch_limit == 0) {
        return;
    }
    bytes = sample_bytes(in, &sample);
    if (bytes > in->watch_limit / 2) { /* too near to guess */
        sample = (struct sample){.branches = &in->branches, .is_shared = true};
        (void)each_process(in, add_memory, &sample);
        bytes = sample_bytes(in, &sample);
    }
    if (bytes > in->watched + (1 << 20) || bytes + (1 << 20) < in->watched) {
        in->watched = bytes;
        send_frame(SNP_INIT_MEMORY, 0, &bytes, sizeof(bytes));
    }
}

static int input_fd(const char *bytes, size_t n)
{
    int fd = memfd_create("stdin", MFD_CLOEXEC);

    if (fd < 0) { /* not allowed where no cgroup counts its pages */
        fd = open(snp_files_tmp(), O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
    }

    if (fd >= 0 && (snp_write_all(fd, bytes, n) < 0 || lseek(fd, 0, SEEK_SET) < 0)) {
        snp_closep(&fd);
    }
    return fd;
}

/* Look a program up in the PATH of the environment it will get, as a shell does. */
static void exec_in_path(char **argv, char **envp)
{
    const char *path = "/usr/local/bin:/usr/bin:/bin";
    char file[4096];

    for (char **e = envp; *e != NULL; e++) {
        path = strncmp(*e, "PATH=", 5) == 0 ? *e + 5 : path;
    }
    if (strchr(argv[0], '/') != NULL) {
        (void)execve(argv[0], argv, envp);
        return;
    }
    for (const char *at = path; at != NULL && *at != '\0';) {
        size_t n = strcspn(at, ":");
        if (snprintf(file, sizeof(file), "%.*s/%s", (int)n, at, argv[0]) < (int)sizeof(file)) {
            (void)execve(file, argv, envp);
        }
        if (errno != ENOENT && errno != ENOTDIR && errno != EACCES) {
            return;
        }
        at = at[n] == ':' ? at + n + 1 : NULL;
    }
}

static SNP_NORETURN void run_command(char **argv, char **envp, const char *cwd, int stdin_fd)
{
    struct sigaction act = {.sa_handler = SIG_DFL};
    sigset_t none;
    int eno;

    /* We come from the interpreter's template, which ignores some. */
    for (int number = 1; number < NSIG; number++) {
        (void)sigaction(number, &act, NULL);
    }
    (void)sigemptyset(&none);
    (void)sigprocmask(SIG_SETMASK, &none, NULL);
    (void)setsid();
    if (stdin_fd >= 0 && dup2(stdin_fd, 0) < 0) {
        _exit(126);
    }
    if (chdir(cwd) < 0) {
        (void)dprintf(2, "%s: %s\n", cwd, strerror(errno)); /* NOLINT(concurrency-mt-unsafe) */
        _exit(126);
    }
    exec_in_path(argv, envp);
    eno = errno;
    (void)dprintf(2, "%s: %s\n", argv[0],
                  eno == ENOENT ? "command not found"
                                : strerror(eno)); /* NOLINT(concurrency-mt-unsafe) */
    _exit(eno == ENOENT ? 127 : 126);
}

static char **take_list(struct cursor *c)
{
    uint32_t n = (uint32_t)take(c, 4);
    char **list = n > ARGS_MAX ? NULL : calloc((size_t)n + 1, sizeof(*list));

    if (list == NULL) {
        c->bad = true;
        return NULL;
    }
    for (uint32_t i = 0; i < n; i++) {
        list[i] = (char *)(uintptr_t)take_text(c);
    }
    return list;
}

static int on_command(struct init *in, struct request *rq)
{
    struct cursor *c = &rq->body;
    char **argv = take_list(c);
    char **envp = take_list(c);
    const char *cwd = take_text(c);
    bool has_stdin = take(c, 1) != 0;
    int stdin_fd = -1;
    int r = c->bad || argv == NULL || argv[0] == NULL ? EINVAL : in->command != -1 ? EBUSY : 0;

    if (r == 0 && has_stdin) {
        stdin_fd = input_fd(c->at, (size_t)(c->end - c->at));
        r = stdin_fd < 0 ? errno : 0;
    }
    if (r == 0) {
        pid_t pid = fork();
        if (pid == 0) {
            run_command(argv, envp, cwd, stdin_fd);
        }
        r = pid < 0 ? errno : 0;
        in->command = r == 0 ? pid : in->command;
        in->is_stopped = r == 0 ? false : in->is_stopped;
        in->command_id = r == 0 ? rq->id : in->command_id;
    }
    snp_closep(&stdin_fd);
    free(argv);
    free(envp);
    return r;
}

static int on_signal(struct init *in, struct request *rq)
{
    uint8_t target = (uint8_t)take(&rq->body, 1);
    pid_t pid = target == SNP_INIT_INTERPRETER ? in->interpreter : in->command;
    int signal_number = (int)take(&rq->body, 4);

    if (target == SNP_INIT_JOB_TARGET) {
        pid = (pid_t)take(&rq->body, 4);
        pid = snp_branches_is_job(&in->branches, pid) ? pid : -1;
    }

    if (pid <= 1 || signal_number <= 0 || signal_number > 64) {
        return ESRCH;
    }
    in->is_stopped = in->is_stopped || target == SNP_INIT_COMMAND_TARGET;
    /* Before its setsid the process is no group leader yet; then it is signalled alone. */
    return snp_init_kill(-pid, signal_number) < 0 && snp_init_kill(pid, signal_number) < 0
               ? errno
               : 0;
}

/*
 * In the local tier only a question: who asks sweeps after our answer, knows by then whom to spare, and asks
 * again until no copy had to be ended since.
 */
static int on_sweep(struct init *in, struct request *rq)
{
    uint64_t before = in->n_ended;
    int r;

    (void)rq;
    settle(in);
    r = sweep(in);
    in->n_ended = in->branches.n_ended;
    return r == 0 && in->is_local && in->n_ended != before ? EAGAIN : r;
}

/* A branch has spoken, or will not: to whoever asked. */
static void on_branch(void *data, const struct snp_init_branch *b, int eno, pid_t pid)
{
    const uint32_t code = (uint32_t)eno;
    struct init *in = data;
    char raw[12];
    int32_t who = pid;
    uint32_t others = 0;

    if (eno == 0 && b->waits_for == SNP_BRANCH_AWAKE && !b->is_job) {
        in->interpreter = pid;
    } else if (eno == 0 && b->waits_for == SNP_BRANCH_ASLEEP) {
        others = in->n_others - (in->interpreter > 0 && in->n_others > 0 ? 1 : 0);
    }
    memcpy(raw, &code, 4);
    memcpy(raw + 4, &who, 4);
    memcpy(raw + 8, &others, 4);
    send_frame(SNP_INIT_REPLY, b->reply_to, raw, eno == 0 ? sizeof(raw) : sizeof(code));
}

static int on_hold(struct init *in, struct request *rq)
{
    uint32_t number = (uint32_t)take(&rq->body, 4);

    return rq->body.bad ? EINVAL : snp_branches_hold(&in->branches, number, rq->fd, rq->id);
}

static int on_wake(struct init *in, struct request *rq)
{
    uint32_t number = (uint32_t)take(&rq->body, 4);
    bool is_job = take(&rq->body, 1) != 0;

    if (rq->body.bad) {
        return EINVAL;
    }
    /* One that lost its stream may still be there. */
    for (int i = 0; !is_job && in->interpreter > 0 && i < KILL_ROUNDS; i++) {
        (void)snp_init_kill(in->interpreter, SIGKILL);
        (void)poll(NULL, 0, 1);
        reap(in);
    }
    if (!is_job && in->interpreter > 0) {
        return EBUSY;
    }
    return snp_branches_wake(&in->branches, number, is_job, rq->fd, rq->id);
}

static int on_drop(struct init *in, struct request *rq)
{
    uint32_t number = (uint32_t)take(&rq->body, 4);

    if (!rq->body.bad && in->shadows != NULL) {
        (void)snp_shadows_drop(in->shadows, number); /* there may be none */
    }
    return rq->body.bad ? EINVAL : snp_branches_drop(&in->branches, number, rq->id);
}

static int on_put(struct init *in, struct request *rq)
{
    struct cursor *c = &rq->body;
    struct snp_put put = {.offset = take(c, 8)};

    put.truncate = take(c, 1) != 0;
    put.mode = (uint32_t)take(c, 4);
    put.path = take_text(c);
    put.bytes = c->at;
    put.n = (size_t)(c->end - c->at);
    int r = c->bad || put.offset > INT64_MAX / 2 ? EINVAL : snp_files_put(&put, &in->out);

    if (r == 0) {
        snp_changes_accept(in->changes, put.path);
    }
    return r;
}

static int on_get(struct init *in, struct request *rq)
{
    struct cursor *c = &rq->body;
    uint64_t offset = take(c, 8);
    uint32_t length = (uint32_t)take(c, 4);
    const char *path = take_text(c);

    return c->bad || offset > INT64_MAX / 2 ? EINVAL
                                            : snp_files_get(path, offset, length, &in->out);
}

static int on_ls(struct init *in, struct request *rq)
{
    const char *path = take_text(&rq->body);

    return rq->body.bad ? EINVAL : snp_files_ls(path, &in->out);
}

static int on_changes(struct init *in, struct request *rq)
{
    (void)rq;
    reap(in); /* one that died tells so before the cell it belonged to is answered */
    return snp_changes_report(in->changes, cpu_used(in),
                              in->was_crowded ? SNP_CHANGES_CROWDED : 0, &in->out);
}

static void stop_one(pid_t pid, void *data)
{
    snp_stop_one(data, pid);
}

/* Make all of the code stand still if any of it could write meanwhile. 0 or EAGAIN. */
static int stop_code(struct init *in, struct snp_stop *stop)
{
    stop->interpreter = in->interpreter;
    stop->is_counting = true;
    (void)each_process(in, stop_one, stop);
    stop->is_counting = false;
    if (stop->n_active == 0) {
        return 0;
    }
    do {
        stop->n_moving = 0;
        (void)each_process(in, stop_one, stop);
    } while (stop->n_moving > 0 && snp_stop_again(stop));
    return stop->n_moving > 0 ? EAGAIN : 0;
}

/* What cannot be begun while the workspace is being written. */
static int check_idle(const struct init *in)
{
    return in->shadows == NULL                                    ? EOPNOTSUPP
           : in->worker > 0 && in->worker_type == SNP_INIT_UNPACK ? EBUSY
                                                                  : 0;
}

static int on_keep(struct init *in, struct request *rq)
{
    uint32_t number = (uint32_t)take(&rq->body, 4);
    struct snp_keep_most most = {.bytes = take(&rq->body, 8)};
    struct snp_stop stop = {0};
    struct snp_kept kept = {0};
    int r;

    most.files = (uint32_t)take(&rq->body, 4);
    most.new_bytes = take(&rq->body, 8);
    r = rq->body.bad ? EINVAL : check_idle(in);
    r = r == 0 ? stop_code(in, &stop) : r;
    if (r == 0) {
        r = snp_shadows_keep(in->shadows, number, &most, &kept);
    }
    kept.flags |= stop.n > 0 ? SNP_KEEP_STOPPED : 0;
    snp_stop_done(&stop);
    if (r == 0 && (snp_buf_add(&in->out, &kept.bytes, 8) < 0 ||
                   snp_buf_add(&in->out, &kept.files, 4) < 0 ||
                   snp_buf_add(&in->out, &kept.flags, 1) < 0)) {
        r = ENOMEM;
    }
    return r;
}

/* Run job in a worker; its REPLY comes when it has ended. */
static int start_worker(struct init *in,
                        struct request *rq,
                        int (*job)(const struct init *, struct request *))
{
    pid_t pid;

    if (in->shadows == NULL || rq->fd < 0 || in->worker > 0) {
        return in->shadows == NULL ? EOPNOTSUPP : rq->fd < 0 ? EINVAL : EBUSY;
    }
    pid = snp_worker_fork(snp_shadows_place(in->shadows), rq->fd);
    if (pid == 0) {
        _exit(job(in, rq));
    }
    if (pid < 0) {
        return errno;
    }
    if (!snp_branches_add_job(&in->branches, pid)) {
        (void)snp_init_kill(pid, SIGKILL); /* and answer when it is reaped */
    }
    snp_shadows_pin(in->shadows, true);
    in->worker = pid;
    in->worker_type = rq->type;
    in->worker_reply = rq->id;
    return SNP_INIT_LATER;
}

static int pack_job(const struct init *in, struct request *rq)
{
    uint32_t number = (uint32_t)take(&rq->body, 4);
    struct snp_pack pack = {
        .place = snp_shadows_place(in->shadows),
        .fd = rq->fd,
    };

    pack.is_describing = take(&rq->body, 1) != 0;
    pack.known = rq->body.at;
    pack.n_known = (size_t)(rq->body.end - rq->body.at);
    if (rq->body.bad) {
        return EINVAL;
    }
    pack.tree = number == SNP_PACK_LIVE ? NULL : snp_shadows_find(in->shadows, number);
    return number != SNP_PACK_LIVE && pack.tree == NULL ? ENOENT : snp_pack(&pack);
}

static int on_pack(struct init *in, struct request *rq)
{
    return start_worker(in, rq, pack_job);
}

static int unpack_job(const struct init *in, struct request *rq)
{
    return snp_unpack(snp_shadows_place(in->shadows), rq->fd);
}

static int on_unpack(struct init *in, struct request *rq)
{
    return start_worker(in, rq, unpack_job);
}

static int on_restore(struct init *in, struct request *rq)
{
    uint32_t number = (uint32_t)take(&rq->body, 4);
    int r = rq->body.bad ? EINVAL : check_idle(in);

    if (r == 0) {
        r = snp_shadows_restore(in->shadows, number);
        snp_changes_rebase(in->changes);
    }
    return r;
}

static int on_watch(struct init *in, struct request *rq)
{
    in->watch_limit = take(&rq->body, 8);
    in->most_threads = take(&rq->body, 4);
    in->is_watching = in->watch_limit != 0 || in->most_threads != 0;
    in->watched = 0;
    in->was_crowded = in->was_crowded && !in->is_watching; /* told when the cell is */
    return rq->body.bad ? EINVAL : 0;
}

static int on_secret(struct init *in, struct request *rq)
{
    uint64_t secret = take(&rq->body, 8);

    (void)in;
    if (!rq->body.bad) {
        snp_init_kill_secret(secret);
    }
    return rq->body.bad ? EINVAL : 0;
}

static const struct {
    uint8_t type;
    bool has_fd;                                 /* a descriptor is passed with it */
    int (*run)(struct init *, struct request *); /* 0, errno or LATER; appends to in->out */
} handlers[] = {
    {SNP_INIT_COMMAND, false, on_command},
    {SNP_INIT_SIGNAL,  false, on_signal },
    {SNP_INIT_SWEEP,   false, on_sweep  },
    {SNP_INIT_WAKE,    true,  on_wake   },
    {SNP_INIT_PUT,     false, on_put    },
    {SNP_INIT_GET,     false, on_get    },
    {SNP_INIT_LS,      false, on_ls     },
    {SNP_INIT_CHANGES, false, on_changes},
    {SNP_INIT_WATCH,   false, on_watch  },
    {SNP_INIT_HOLD,    true,  on_hold   },
    {SNP_INIT_DROP,    false, on_drop   },
    {SNP_INIT_SECRET,  false, on_secret },
    {SNP_INIT_KEEP,    false, on_keep   },
    {SNP_INIT_RESTORE, false, on_restore},
    {SNP_INIT_PACK,    true,  on_pack   },
    {SNP_INIT_UNPACK,  true,  on_unpack },
};

/* The next descriptor that was passed; -1 = none. */
static int take_fd(struct init *in)
{
    int fd = in->n_passed == 0 ? -1 : in->passed_fd[0];

    if (in->n_passed > 0) {
        in->n_passed--;
        memmove(in->passed_fd, in->passed_fd + 1, in->n_passed * sizeof(fd));
    }
    return fd;
}

static void dispatch(struct init *in, struct request *rq)
{
    const uint32_t no_error = 0;
    int r = ENOSYS;

    snp_buf_clear(&in->out);
    if (snp_buf_add(&in->out, &no_error, sizeof(no_error)) < 0) {
        _exit(1);
    }
    for (size_t i = 0; i < SNP_ARRAY_LEN(handlers); i++) {
        if (handlers[i].type != rq->type) {
            continue;
        }
        rq->fd = handlers[i].has_fd ? take_fd(in) : -1;
        r = handlers[i].run(in, rq);
        snp_closep(&rq->fd);
        break;
    }
    if (r != SNP_INIT_LATER) {
        send_reply(in, rq->id, r);
    }
}

/* Read what is there, then run every whole request. Descriptors come in the requests' order. */
static void on_control(struct init *in)
{
    int fds[SNP_FDS_MAX];
    size_t n_fds = 0;
    char *space;
    ssize_t n;

    if (snp_buf_reserve(&in->in, 64 << 10, &space) < 0) {
        _exit(1);
    }
    n = snp_recv_fds(SNP_INIT_CONTROL_FD, space, 64 << 10, fds, &n_fds);
    if (n <= 0) {
        _exit(0);
    }
    snp_buf_commit(&in->in, (size_t)n);
    for (size_t i = 0; i < n_fds; i++) {
        if (in->n_passed == SNP_ARRAY_LEN(in->passed_fd)) {
            _exit(1);
        }
        in->passed_fd[in->n_passed++] = fds[i];
    }
    while (in->in.len >= HEADER_LEN) {
        struct request rq = {.fd = -1};
        const char *bytes = snp_buf_bytes(&in->in);
        uint32_t len;

        memcpy(&len, bytes, sizeof(len));
        memcpy(&rq.id, bytes + 4, sizeof(rq.id));
        rq.type = (uint8_t)bytes[12];
        if (len > SNP_INIT_BODY_MAX) {
            _exit(1);
        }
        if (in->in.len < HEADER_LEN + (size_t)len) {
            break;
        }
        rq.body = (struct cursor){.at = bytes + HEADER_LEN, .end = bytes + HEADER_LEN + len};
        dispatch(in, &rq);
        snp_buf_consume(&in->in, HEADER_LEN + (size_t)len);
    }
}

static pid_t parse_pid(const char *text)
{
    pid_t pid = 0;

    for (; *text >= '0' && *text <= '9' && pid < 100000000; text++) {
        pid = pid * 10 + (*text - '0');
    }
    return pid;
}

/* Where the supervisor wants copies of the workspace, there is a folder for them. */
static struct snp_shadows *open_shadows(bool is_local)
{
    bool has_store = fcntl(SNP_INIT_SHADOW_FD, F_SETFD, FD_CLOEXEC) == 0;
    bool has_base = fcntl(SNP_INIT_BASE_FD, F_SETFD, FD_CLOEXEC) == 0;
    struct snp_shadow_place place = {
        .layer_fd = SNP_INIT_UPPER_FD,
        .base_fd = has_base ? SNP_INIT_BASE_FD : -1,
        .store_fd = SNP_INIT_SHADOW_FD,
        .is_local = is_local,
    };
    struct statfs fs;

    if (!has_store) {
        return NULL;
    }
    place.view_fd = open(snp_files_workspace(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    place.is_layer =
        !is_local && fstatfs(place.view_fd, &fs) == 0 && fs.f_type == OVERLAYFS_SUPER_MAGIC;
    return place.view_fd < 0 ? NULL : snp_shadows_new(&place);
}

static SNP_NORETURN void serve(struct init *in)
{
    struct pollfd polled[POLLED_BRANCHES + SNP_INIT_BRANCHES_MAX] = {
        [POLLED_CONTROL] = {.fd = SNP_INIT_CONTROL_FD, .events = POLLIN},
        [POLLED_CHILDREN] = {.fd = in->children_fd,     .events = POLLIN},
    };

    for (;;) {
        int timeout_ms;
        size_t n;

        look_round(in); /* whatever died before the signal was asked for */
        n = snp_branches_poll(&in->branches, polled + POLLED_BRANCHES, &timeout_ms);
        if (in->is_watching && (timeout_ms < 0 || timeout_ms > SNP_INIT_WATCH_MS)) {
            timeout_ms = SNP_INIT_WATCH_MS;
        }
        if (in->worker > 0 && (timeout_ms < 0 || timeout_ms > WORKER_MS)) {
            timeout_ms = WORKER_MS;
        }
        if (poll(polled, POLLED_BRANCHES + n, timeout_ms) < 0 && errno != EINTR) {
            _exit(1);
        }
        if (in->worker > 0) {
            (void)snp_init_kill(in->worker, SIGCONT); /* the code may have stopped it */
        }
        if (polled[POLLED_CHILDREN].revents != 0) {
            struct signalfd_siginfo info;
            (void)!read(in->children_fd, &info, sizeof(info));
        }
        if (polled[POLLED_CONTROL].revents != 0) {
            look_round(in);
            on_control(in);
        }
        if (in->is_watching) {
            watch(in);
        }
    }
}

int main(int argc, char **argv)
{
    struct init in = {.command = -1, .worker = -1};
    sigset_t all;

    (void)prctl(PR_SET_DUMPABLE, 0, 0, 0, 0);
    (void)prctl(PR_SET_NAME, "init", 0, 0, 0);
    if (argc != 2 && argc != 3) {
        return 2;
    }
    in.is_local = argc == 3;
    snp_files_locate(argv[2]);
    in.interpreter = parse_pid(argv[1]);
    in.shadows = open_shadows(in.is_local); /* before their numbers are anybody's */
    in.branches.done = on_branch;
    in.branches.spared = tell_spared;
    in.branches.is_alone = is_alone;
    in.branches.data = &in;
    snp_branches_init(&in.branches);
    (void)sigfillset(&all);
    (void)sigprocmask(SIG_SETMASK, &all, NULL);
    (void)sigemptyset(&all);
    (void)sigaddset(&all, SIGCHLD);
    in.children_fd = signalfd(-1, &all, SFD_CLOEXEC | SFD_NONBLOCK);
    for (int fd = SNP_INIT_CONTROL_FD; fd <= SNP_INIT_UPPER_FD; fd++) {
        (void)fcntl(fd, F_SETFD, FD_CLOEXEC);
    }
    snp_buf_init(&in.in, SNP_INIT_BODY_MAX + (1 << 20));
    snp_buf_init(&in.out, 8 << 20);
    in.changes = snp_changes_new(SNP_INIT_UPPER_FD, in.is_local);
    if (in.children_fd < 0 || in.changes == NULL) {
        return 1;
    }
    if (in.is_local) { /* what is in the workspace now has been seen */
        tell_spared(NULL, 0, 0, false);
    }
    serve(&in);
}
