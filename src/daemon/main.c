/* SPDX-License-Identifier: Apache-2.0 */
/*
 * snipara-sandboxd: start-up.
 *
 * One daemon per user: only the holder of the lock beside the socket may replace the socket.
 * Clients start it when needed, perhaps several at once; a daemon that finds the lock taken and the
 * socket answering exits silently. systemd can also provide the socket, and keeps listening when
 * the daemon ends.
 */
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <limits.h>
#include <malloc.h>
#include <poll.h>
#include <pwd.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <sys/file.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

#include "base/clock.h"
#include "base/fd.h"
#include "base/log.h"
#include "base/rundir.h"
#include "base/slice.h"
#include "base/str.h"
#include "daemon/front/serve.h"
#include "daemon/server.h"

enum {
    LOCK_WAIT_MS = 9000, /* for a daemon about to end */
    LOCK_STEP_MS = 10,
    LISTEN_BACKLOG = SNP_CAP_CLIENTS,
    LISTEN_FD = 3, /* systemd's first descriptor */
    IDLE_MAX_S = 365 * 24 * 3600,
    MMAP_THRESHOLD = 128 << 10,
};

struct options {
    bool foreground;
    const char *socket;
    const char *state;
    struct snp_server_options server; /* without its paths */
    int ready_fd;
    int listen_fd; /* systemd's listening socket; -1 = none */
    enum snp_log_level level;
};

/* Paths and descriptors that live as long as the process. */
struct daemon_paths {
    char *socket;
    char *state;
    char *home;
    int lock_fd;
};

static const char help[] =
    "Usage: snipara-sandboxd [OPTIONS]\n"
    "\n"
    "Runs the sessions of one user. The command line tool starts it when needed.\n"
    "\n"
    "Options:\n"
    "  --foreground           stay in the foreground and log to standard error\n"
    "  --socket PATH          listen here (default: in the runtime folder)\n"
    "  --state DIR            state folder: journal and log (default: the user's)\n"
    "  --idle SECONDS         end after this idle time (default 300)\n"
    "  --session-idle SECONDS hibernate named sessions after this idle time (default 1800)\n"
    "  --checkpoint-after SECONDS\n"
    "                         save a session this long after its last cell (default 1)\n"
    "  --tier-timeout SECONDS kill a tier that does not answer for this long (default 60)\n"
    "  --snapshots-in-memory N\n"
    "                         snapshots of one session in memory; older ones are on disk only\n"
    "                         (default 8)\n"
    "  --snapshots-memory SIZE\n"
    "                         memory that only the snapshots of one session use; beyond it the\n"
    "                         oldest are on disk only (default: half the session's)\n"
    "  --live-max N           sessions that may be awake at once (default 64)\n"
    "  --live-memory SIZE     memory they may use (default: half of the machine's)\n"
    "  --journal-budget SIZE  disk for sessions and outputs, from 16m; 0 = no limit (default "
    "8g)\n"
    "  --store-key FILE       encrypt the journal with the 32 random bytes of this file, which\n"
    "                         only you may read (default: the key it is encrypted with, if any)\n"
    "  --ready-fd N           write one byte to descriptor N when a daemon listens; without\n"
    "                         --foreground, also leave the process that started it\n"
    "  --log-level LEVEL      error, warn, info or debug (default info)\n"
    "  --version              print the version\n"
    "  --help                 print this\n";

/* Options ------------------------------------------------------------------------------- */

static int seconds_parse(const char *name, const char *text, uint64_t *ret_ms, struct snp_err *err)
{
    double seconds = 0;

    if (snp_parse_double(text, &seconds) < 0 || seconds < 0.05 || seconds > IDLE_MAX_S) {
        return snp_fail(err, SNP_E_INVALID, "%s needs seconds from 0.05 to %d, not '%s'", name,
                        IDLE_MAX_S, text);
    }
    *ret_ms = (uint64_t)(seconds * 1000);
    return 0;
}

static int count_parse(const char *name, const char *text, uint64_t *ret, struct snp_err *err)
{
    uint64_t count = 0;

    if (snp_parse_u64(text, &count) < 0 || count < 1 || count > SNP_CAP_SESSIONS) {
        return snp_fail(err, SNP_E_INVALID, "%s needs a number from 1 to %d, not '%s'", name,
                        SNP_CAP_SESSIONS, text);
    }
    *ret = count;
    return 0;
}

static int bytes_parse(const char *name, const char *text, uint64_t *ret, struct snp_err *err)
{
    if (snp_parse_bytes(text, ret) < 0) {
        return snp_fail(err, SNP_E_INVALID, "%s needs a size like 512m or 8g, not '%s'", name,
                        text);
    }
    return 0;
}

/* Half of the machine's memory. */
static uint64_t half_memory(void)
{
    long pages = sysconf(_SC_PHYS_PAGES);
    long size = sysconf(_SC_PAGESIZE);

    return pages <= 0 || size <= 0 ? UINT64_MAX : (uint64_t)pages * (uint64_t)size / 2;
}

static int level_parse(const char *text, enum snp_log_level *ret, struct snp_err *err)
{
    static const char *const names[] = {"error", "warn", "info", "debug"};

    for (size_t i = 0; i < SNP_ARRAY_LEN(names); i++) {
        if (strcmp(names[i], text) == 0) {
            *ret = (enum snp_log_level)i;
            return 0;
        }
    }
    return snp_fail(err, SNP_E_INVALID, "--log-level is error, warn, info or debug, not '%s'",
                    text);
}

static int ready_fd_parse(const char *text, int *ret, struct snp_err *err)
{
    uint64_t fd = 0;

    if (snp_parse_u64(text, &fd) < 0 || fd < 3 || fd > INT_MAX ||
        fcntl((int)fd, F_SETFD, FD_CLOEXEC) < 0) {
        return snp_fail(err, SNP_E_INVALID, "--ready-fd needs an open descriptor from 3, not '%s'",
                        text);
    }
    *ret = (int)fd;
    return 0;
}

enum unit {
    UNIT_SECONDS = 0, /* kept as ms */
    UNIT_COUNT,
    UNIT_BYTES,
};

/* A setting from the command line, else the environment, else a default. */
struct daemon_setting {
    const char *flag; /* without its dashes */
    const char *env;  /* or NULL */
    enum unit unit;
    size_t at; /* in struct options */
};

#define OPTION_AT(member) offsetof(struct options, server.member)

static const struct daemon_setting settings[] = {
    {"idle", NULL, UNIT_SECONDS, OPTION_AT(idle_ms)},
    {"session-idle", "SNIPARA_SANDBOX_SESSION_IDLE", UNIT_SECONDS, OPTION_AT(session_idle_ms)},
    {"checkpoint-after", "SNIPARA_SANDBOX_CHECKPOINT_AFTER", UNIT_SECONDS,
     OPTION_AT(checkpoint_after_ms)},
    {"tier-timeout", NULL, UNIT_SECONDS, OPTION_AT(tier_ms)},
    {"snapshots-in-memory", "SNIPARA_SANDBOX_SNAPSHOTS_IN_MEMORY", UNIT_COUNT,
     OPTION_AT(snapshots_max)},
    {"snapshots-memory", "SNIPARA_SANDBOX_SNAPSHOTS_MEMORY", UNIT_BYTES,
     OPTION_AT(snapshots_bytes)},
    {"live-max", "SNIPARA_SANDBOX_MAX_LIVE_SESSIONS", UNIT_COUNT, OPTION_AT(live_max)},
    {"live-memory", "SNIPARA_SANDBOX_LIVE_MEMORY", UNIT_BYTES, OPTION_AT(live_bytes)},
    {"journal-budget", "SNIPARA_SANDBOX_JOURNAL_BUDGET", UNIT_BYTES, OPTION_AT(budget_bytes)},
};

/* name: the source of the text. */
static int setting_read(const struct daemon_setting *setting,
                        const char *name,
                        const char *text,
                        struct options *options,
                        struct snp_err *err)
{
    uint64_t *value = (uint64_t *)((char *)options + setting->at);

    switch (setting->unit) {
    case UNIT_SECONDS:
        return seconds_parse(name, text, value, err);
    case UNIT_COUNT:
        return count_parse(name, text, value, err);
    case UNIT_BYTES:
    default:
        return bytes_parse(name, text, value, err);
    }
}

static int environment_read(struct options *options, struct snp_err *err)
{
    for (size_t i = 0; i < SNP_ARRAY_LEN(settings); i++) {
        const char *name = settings[i].env;
        /* NOLINTNEXTLINE(concurrency-mt-unsafe): one thread */
        const char *text = name == NULL ? NULL : getenv(name);

        SNP_TRY(text == NULL ? 0 : setting_read(&settings[i], name, text, options, err));
    }
    /* NOLINTNEXTLINE(concurrency-mt-unsafe): one thread */
    options->server.store_key = getenv("SNIPARA_SANDBOX_STORE_KEY");
    return 0;
}

enum {
    SETTING = 256, /* getopt_long value of the first one */
};

static int setting_option(int i, const char *text, struct options *options, struct snp_err *err)
{
    char name[32];

    (void)snprintf(name, sizeof(name), "--%s", settings[i].flag);
    return setting_read(&settings[i], name, text, options, err);
}

/* 1: help or version was printed, and the program ends. */
static int options_parse(int argc, char **argv, struct options *options, struct snp_err *err)
{
    struct option table[SNP_ARRAY_LEN(settings) + 9] = {
        {"foreground", no_argument, NULL, 'f'},
        {"socket", required_argument, NULL, 's'},
        {"state", required_argument, NULL, 'd'},
        {"ready-fd", required_argument, NULL, 'r'},
        {"log-level", required_argument, NULL, 'l'},
        {"version", no_argument, NULL, 'v'},
        {"help", no_argument, NULL, 'h'},
        {"store-key", required_argument, NULL, 'k'},
    };
    int r = 0;
    int c;

    for (size_t i = 0; i < SNP_ARRAY_LEN(settings); i++) {
        table[8 + i] = (struct option){settings[i].flag, required_argument, NULL, SETTING + (int)i};
    }
    opterr = 0;
    /* NOLINTNEXTLINE(concurrency-mt-unsafe): one thread */
    while (r == 0 && (c = getopt_long(argc, argv, "", table, NULL)) != -1) {
        switch (c) {
        case 'f':
            options->foreground = true;
            break;
        case 's':
            options->socket = optarg;
            break;
        case 'd':
            options->state = optarg;
            break;
        case 'r':
            r = ready_fd_parse(optarg, &options->ready_fd, err);
            break;
        case 'k':
            options->server.store_key = optarg;
            break;
        case 'l':
            r = level_parse(optarg, &options->level, err);
            break;
        case 'v':
            (void)puts("snipara-sandboxd " SNP_VERSION);
            return 1;
        case 'h':
            (void)fputs(help, stdout);
            return 1;
        case '?':
            return snp_fail(err, SNP_E_INVALID, "unknown option or missing value: %s",
                            argv[optind - 1]);
        default:
            r = setting_option(c - SETTING, optarg, options, err);
        }
    }
    if (r == 0 && optind < argc) {
        return snp_fail(err, SNP_E_INVALID, "unexpected argument '%s'", argv[optind]);
    }
    return r;
}

/* Places -------------------------------------------------------------------------------- */

static char *home_find(void)
{
    /* NOLINTBEGIN(concurrency-mt-unsafe): one thread */
    const char *home = getenv("HOME");
    const struct passwd *user = home == NULL || home[0] != '/' ? getpwuid(geteuid()) : NULL;
    /* NOLINTEND(concurrency-mt-unsafe) */

    if (user != NULL) {
        home = user->pw_dir;
    }
    return home == NULL ? NULL : realpath(home, NULL);
}

static int places_find(const struct options *options,
                       struct daemon_paths *places,
                       struct snp_err *err)
{
    int r = 0;

    if (options->state != NULL) {
        places->state = realpath(options->state, NULL);
        if (places->state == NULL) {
            return snp_fail_sys(err, errno, "state folder %s", options->state);
        }
    } else {
        r = snp_state_dir(&places->state, err);
    }
    if (r == 0 && options->socket != NULL) {
        if (options->socket[0] != '/') {
            return snp_fail(err, SNP_E_INVALID, "--socket needs an absolute path");
        }
        r = snp_socket_path_check(options->socket, err);
        places->socket = strdup(options->socket);
    } else if (r == 0) {
        r = snp_socket_path(&places->socket, err);
    }
    if (r == 0 && places->socket == NULL) {
        return snp_fail(err, SNP_E_NOMEM, "out of memory");
    }
    places->home = home_find();
    return r;
}

static void places_done(struct daemon_paths *places)
{
    free(places->socket);
    free(places->state);
    free(places->home);
    snp_closep(&places->lock_fd);
}

/* Socket and lock ----------------------------------------------------------------------- */

static void address_fill(struct sockaddr_un *address, const char *path)
{
    *address = (struct sockaddr_un){.sun_family = AF_UNIX};
    memcpy(address->sun_path, path, strlen(path)); /* its length was checked */
}

/* A child about to execute a tier can hold the socket a little longer than a killed daemon. */
static bool answers(const char *path)
{
    snp_autoclose int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    struct sockaddr_un address;
    struct ucred peer = {0};
    socklen_t len = sizeof(peer);

    address_fill(&address, path);
    return fd >= 0 && connect(fd, (const struct sockaddr *)&address, sizeof(address)) == 0 &&
           getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &len) == 0 &&
           (peer.pid == 0 || kill(peer.pid, 0) == 0 || errno != ESRCH);
}

/* *ret_held false: another daemon runs and answers. systemd's socket always answers. */
static int lock_take(struct daemon_paths *places,
                     bool is_given,
                     bool *ret_held,
                     struct snp_err *err)
{
    snp_autofree char *path = snp_format("%s.lock", places->socket);
    uint64_t deadline = snp_now_us() + (uint64_t)LOCK_WAIT_MS * 1000;

    SNP_TRY_MEMORY(path, err);
    places->lock_fd = open(path, O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (places->lock_fd < 0) {
        return snp_fail_sys(err, errno, "open %s", path);
    }
    while (flock(places->lock_fd, LOCK_EX | LOCK_NB) < 0) {
        if (errno != EWOULDBLOCK && errno != EINTR) {
            return snp_fail_sys(err, errno, "lock %s", path);
        }
        if (!is_given && answers(places->socket)) {
            *ret_held = false;
            return 0;
        }
        if (snp_now_us() > deadline) {
            return snp_fail(err, SNP_E_TIMEOUT,
                            "another daemon has locked %s but does not answer at %s", path,
                            places->socket);
        }
        (void)poll(NULL, 0, LOCK_STEP_MS);
    }
    *ret_held = true;
    return 0;
}

static int socket_listen(const char *path, int *ret_fd, struct snp_err *err)
{
    snp_autoclose int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    struct sockaddr_un address;
    struct stat st;
    mode_t mask;
    int r;

    address_fill(&address, path);
    if (fd < 0) {
        return snp_fail_sys(err, errno, "socket");
    }
    if (lstat(path, &st) == 0) {
        if (!S_ISSOCK(st.st_mode)) {
            return snp_fail(err, SNP_E_DENIED, "%s exists and is not a socket", path);
        }
        if (unlink(path) < 0) {
            return snp_fail_sys(err, errno, "remove the stale socket %s", path);
        }
    }
    mask = umask(0177); /* created with mode 0600 */
    r = bind(fd, (const struct sockaddr *)&address, sizeof(address));
    (void)umask(mask);
    if (r < 0 || listen(fd, LISTEN_BACKLOG) < 0) {
        return snp_fail_sys(err, errno, "listen at %s", path);
    }
    *ret_fd = SNP_TAKE_FD(fd);
    return 0;
}

/* systemd passes descriptor 3 (sd_listen_fds(3)). Its path must be where clients look. */
static int listen_fd_read(struct options *options, struct snp_err *err)
{
    /* NOLINTBEGIN(concurrency-mt-unsafe): one thread */
    const char *pid = getenv("LISTEN_PID");
    const char *count = getenv("LISTEN_FDS");
    /* NOLINTEND(concurrency-mt-unsafe) */
    uint64_t number = 0;

    if (pid == NULL || count == NULL || snp_parse_u64(pid, &number) < 0 ||
        number != (uint64_t)getpid()) {
        return 0;
    }
    if (!snp_streq(count, "1")) {
        return snp_fail(err, SNP_E_INVALID, "systemd passed %s sockets; name one ListenStream",
                        count);
    }
    options->listen_fd = LISTEN_FD;
    options->ready_fd = -1; /* no starter waits: systemd accepts clients before we do */
    return 0;
}

static int listen_fd_check(int fd, const char *path, struct snp_err *err)
{
    struct sockaddr_un address = {0};
    socklen_t len = sizeof(address) - 1; /* leaves a NUL */
    int listens = 0;
    socklen_t listens_len = sizeof(listens);

    if (getsockname(fd, (struct sockaddr *)&address, &len) < 0 || address.sun_family != AF_UNIX ||
        !snp_streq(address.sun_path, path) ||
        getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &listens, &listens_len) < 0 || listens == 0) {
        return snp_fail(err, SNP_E_INVALID,
                        "systemd passed another socket than clients use; set ListenStream=%s",
                        path);
    }
    return snp_set_nonblock(fd, true) < 0 ? snp_fail_sys(err, errno, "socket") : 0;
}

/* Process ------------------------------------------------------------------------------- */

/* Open /dev/null for missing standard descriptors, so that no other file gets their numbers. */
static int std_fds_fill(struct snp_err *err)
{
    int fd;

    do {
        fd = open("/dev/null", O_RDWR); /* NOLINT(android-cloexec-open): meant to stay open */
    } while (fd >= 0 && fd <= STDERR_FILENO);
    if (fd < 0) {
        return snp_fail_sys(err, errno, "open /dev/null");
    }
    (void)close(fd);
    return 0;
}

static int process_setup(const struct options *options, struct snp_err *err)
{
    struct rlimit files;
    struct sigaction ignore = {.sa_handler = SIG_IGN};
    const int kept = options->listen_fd >= 0 ? options->listen_fd : options->ready_fd;
    sigset_t none;

    (void)umask(077);
    (void)sigemptyset(&none);
    (void)sigprocmask(SIG_SETMASK, &none, NULL);
    (void)sigaction(SIGPIPE, &ignore, NULL);
    (void)sigaction(SIGHUP, &ignore, NULL);
    /* Close all descriptors inherited from the starter. */
    if (kept > 3) {
        (void)close_range(3, (unsigned)kept - 1, 0);
    }
    (void)close_range(kept >= 3 ? (unsigned)kept + 1 : 3, ~0U, 0);
    if (kept >= 3) {
        (void)fcntl(kept, F_SETFD, FD_CLOEXEC);
    }
    if (chdir("/") < 0) {
        return snp_fail_sys(err, errno, "chdir /");
    }
    /* Clients need many descriptors, and so do sessions in the tier. */
    if (getrlimit(RLIMIT_NOFILE, &files) == 0) {
        files.rlim_cur = files.rlim_max;
        (void)setrlimit(RLIMIT_NOFILE, &files);
    }
    /* Frames are short-lived: return their memory to the system. */
    (void)mallopt(M_MMAP_THRESHOLD, MMAP_THRESHOLD);
    (void)mallopt(M_TRIM_THRESHOLD, MMAP_THRESHOLD);
    return 0;
}

/* A child program would have the real id of one user and the rights of another. */
static int setuid_refuse(struct snp_err *err)
{
    if (getuid() != geteuid() || getgid() != getegid()) {
        return snp_fail(err, SNP_E_DENIED, "refusing to run set-user-id or set-group-id");
    }
    return 0;
}

static int log_redirect(const char *state, struct snp_err *err)
{
    snp_autoclose int fd = -1;

    SNP_TRY(snp_daemon_log_open(state, &fd, err));
    if (dup3(fd, STDERR_FILENO, 0) < 0) {
        return snp_fail_sys(err, errno, "redirect the log");
    }
    return 0;
}

static void ready_tell(const struct options *options)
{
    if (options->ready_fd >= 0) {
        if (snp_write_all(options->ready_fd, "\1", 1) < 0) {
            snp_log(SNP_LOG_WARN, "ready", "errno=%d", errno);
        }
        (void)close(options->ready_fd);
    }
}

/*
 * The starter may have other children to wait for: it waits for this process, and the daemon is its
 * child.
 */
static int leave_starter(struct snp_err *err)
{
    pid_t pid = fork();

    if (pid > 0) {
        _exit(0);
    }
    return pid < 0 || setsid() < 0 ? snp_fail_sys(err, errno, "leave who started it") : 0;
}

static int serve(const struct options *options, struct daemon_paths *places, struct snp_err *err)
{
    struct snp_server_options server_options = options->server;
    snp_autofree struct snp_server *server = NULL;
    const bool is_given = options->listen_fd >= 0;
    int listen_fd = options->listen_fd;
    bool held = false;
    int r = is_given ? listen_fd_check(listen_fd, places->socket, err) : 0;

    SNP_THEN(r, lock_take(places, is_given, &held, err));
    if (r == 0 && !held) {
        ready_tell(options); /* another daemon is ready */
    }
    if (r < 0 || !held) {
        return r;
    }
    server = malloc(sizeof(*server));
    SNP_TRY_MEMORY(server, err);
    server_options.socket_path = places->socket;
    server_options.is_socket_given = is_given;
    server_options.state_dir = places->state;
    server_options.home = places->home;
    if (server_options.budget_bytes != 0 &&
        server_options.budget_bytes < SNP_CAP_JOURNAL_BYTES_MIN) {
        server_options.budget_bytes = SNP_CAP_JOURNAL_BYTES_MIN;
    }
    if (!is_given) {
        SNP_TRY(socket_listen(places->socket, &listen_fd, err));
    }
    SNP_TRY(snp_server_init(server, listen_fd, &server_options, err));
    snp_log(SNP_LOG_INFO, "start", "version=%s pid=%d socket=%s", SNP_VERSION, (int)getpid(),
            places->socket);
    ready_tell(options);
    snp_server_run(server);
    snp_log(SNP_LOG_INFO, "end", "pid=%d", (int)getpid());
    return 0;
}

static int run(const struct options *options, struct snp_err *err)
{
    struct daemon_paths places = {.lock_fd = -1};
    int r = setuid_refuse(err);

    SNP_THEN(r, places_find(options, &places, err));
    SNP_THEN(r, process_setup(options, err));
    if (r == 0 && !options->foreground) {
        r = log_redirect(places.state, err);
    }
    SNP_THEN(r, serve(options, &places, err));
    places_done(&places);
    return r;
}

int main(int argc, char **argv)
{
    struct options options = {
        .server = {.idle_ms = (uint64_t)SNP_CAP_IDLE_S * 1000,
                   .session_idle_ms = (uint64_t)SNP_CAP_SESSION_IDLE_S * 1000,
                   .checkpoint_after_ms = SNP_CAP_CHECKPOINT_MS,
                   .tier_ms = SNP_CAP_TIER_MS,
                   .snapshots_max = SNP_CAP_COPIES,
                   .live_max = SNP_CAP_LIVE,
                   .live_bytes = half_memory(),
                   .budget_bytes = SNP_CAP_JOURNAL_BYTES},
        .ready_fd = -1,
        .listen_fd = -1,
        .level = SNP_LOG_INFO,
    };
    struct snp_err err = {0};
    int r = std_fds_fill(&err);

    SNP_THEN(r, environment_read(&options, &err));
    SNP_THEN(r, options_parse(argc, argv, &options, &err));
    if (r > 0) {
        return 0;
    }
    SNP_THEN(r, listen_fd_read(&options, &err));
    if (r == 0 && options.ready_fd >= 0 && !options.foreground) {
        r = leave_starter(&err);
    }
    snp_log_setup("daemon", options.level);
    snp_slice_short();
    SNP_THEN(r, run(&options, &err));
    if (r < 0) {
        snp_log(SNP_LOG_ERROR, "fail", "%s", err.msg);
        return snp_code_exit(r);
    }
    return 0;
}
