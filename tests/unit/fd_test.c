/* SPDX-License-Identifier: Apache-2.0 */
/* Files and descriptors: limits, odd files, passing over sockets; no descriptor is left open. */
#include "base/fd.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "base/json.h"
#include "base/process.h"
#include "base/str.h"
#include "client/client.h"
#include "unit/harness.h"

/* A folder of its own for one test; removed with what the test names as its files. */
struct folder {
    char path[64];
    int fds_before;
};

static int open_fds(void)
{
    DIR *dir = opendir("/proc/self/fd");
    assert_non_null(dir);
    int n = 0;
    while (readdir(dir) != NULL) {
        n++;
    }
    (void)closedir(dir);
    return n;
}

static void folder_init(struct folder *folder)
{
    folder->fds_before = open_fds();
    (void)snprintf(folder->path, sizeof(folder->path), "/tmp/snp-fd-test-XXXXXX");
    assert_non_null(mkdtemp(folder->path));
}

/* Remove the folder; it fails if a file is left in it, a temporary one too. */
static void folder_done(struct folder *folder)
{
    assert_int_equal(rmdir(folder->path), 0);
    assert_int_equal(open_fds(), folder->fds_before);
}

static const char *in(const struct folder *folder, const char *name)
{
    static char path[256];
    (void)snprintf(path, sizeof(path), "%s/%s", folder->path, name);
    return path;
}

TEST(files_are_read_up_to_their_limit)
{
    struct folder folder;
    struct snp_err err;
    char *text = NULL;
    size_t len = 0;
    folder_init(&folder);
    const char *path = in(&folder, "f");
    assert_int_equal(snp_file_write_atomic(path, "0123456789", 10, 0600, &err), 0);
    assert_int_equal(snp_file_read(path, 10, &text, &len, &err), 0);
    assert_int_equal(len, 10);
    assert_string_equal(text, "0123456789");
    free(text);
    text = NULL;
    assert_int_equal(snp_file_read(path, 9, &text, &len, &err), SNP_E_LIMIT);
    assert_int_equal(snp_file_read(path, 0, &text, &len, &err), SNP_E_LIMIT);
    assert_null(text);
    assert_int_equal(snp_file_write_atomic(path, "", 0, 0600, &err), 0);
    assert_int_equal(snp_file_read(path, 0, &text, NULL, &err), 0);
    assert_string_equal(text, "");
    free(text);
    assert_int_equal(unlink(path), 0);
    folder_done(&folder);
}

TEST(a_large_file_is_read_whole)
{
    enum {
        SIZE = 300001
    };
    struct folder folder;
    struct snp_err err;
    char *text = NULL;
    size_t len = 0;
    folder_init(&folder);
    snp_autofree char *bytes = malloc(SIZE);
    assert_non_null(bytes);
    for (size_t i = 0; i < SIZE; i++) {
        bytes[i] = (char)(i % 251);
    }
    assert_int_equal(snp_file_write_atomic(in(&folder, "f"), bytes, SIZE, 0600, &err), 0);
    assert_int_equal(snp_file_read(in(&folder, "f"), SIZE_MAX, &text, &len, &err), 0);
    assert_int_equal(len, SIZE);
    assert_memory_equal(text, bytes, SIZE);
    free(text);
    assert_int_equal(unlink(in(&folder, "f")), 0);
    folder_done(&folder);
}

TEST(files_without_a_size_are_read_to_their_end)
{
    struct snp_err err;
    char *text = NULL;
    size_t len = 0;
    assert_int_equal(snp_file_read("/proc/self/status", 1 << 20, &text, &len, &err), 0);
    assert_true(len > 100);
    assert_non_null(strstr(text, "Name:\t"));
    free(text);
    assert_int_equal(snp_file_read("/proc/self/status", 100, &text, &len, &err), SNP_E_LIMIT);
}

TEST(what_is_not_a_file_is_refused_at_once)
{
    struct folder folder;
    struct snp_err err;
    char *text = NULL;
    folder_init(&folder);
    assert_int_equal(mkfifo(in(&folder, "fifo"), 0600), 0);
    assert_int_equal(snp_file_read(in(&folder, "fifo"), 10, &text, NULL, &err), SNP_E_INVALID);
    assert_int_equal(snp_file_read(folder.path, 10, &text, NULL, &err), SNP_E_INVALID);
    assert_int_equal(snp_file_read("/dev/zero", 10, &text, NULL, &err), SNP_E_INVALID);
    assert_int_equal(snp_file_read(in(&folder, "none"), 10, &text, NULL, &err), SNP_E_NOT_FOUND);
    assert_int_equal(snp_file_read(in(&folder, "fifo/x"), 10, &text, NULL, &err), SNP_E_NOT_FOUND);
    assert_null(text);
    assert_int_equal(unlink(in(&folder, "fifo")), 0);
    folder_done(&folder);
}

TEST(atomic_write_replaces_a_link_and_sets_the_mode)
{
    struct folder folder;
    struct snp_err err;
    struct stat st;
    folder_init(&folder);
    assert_int_equal(symlink("/nonexistent/victim", in(&folder, "f")), 0);
    assert_int_equal(snp_file_write_atomic(in(&folder, "f"), "a", 1, 0640, &err), 0);
    assert_int_equal(lstat(in(&folder, "f"), &st), 0);
    assert_true(S_ISREG(st.st_mode));
    assert_int_equal(st.st_mode & 07777U, 0640);
    assert_int_equal(unlink(in(&folder, "f")), 0);
    folder_done(&folder);
}

TEST(a_failed_atomic_write_leaves_nothing)
{
    struct folder folder;
    struct snp_err err;
    folder_init(&folder);
    assert_int_equal(mkdir(in(&folder, "d"), 0700), 0);
    assert_int_equal(snp_file_write_atomic(in(&folder, "d"), "a", 1, 0600, &err), SNP_E_SYS);
    assert_int_equal(err.sys_errno, EISDIR);
    assert_int_equal(snp_file_write_atomic(in(&folder, "no/f"), "a", 1, 0600, &err), SNP_E_SYS);
    assert_int_equal(err.sys_errno, ENOENT);
    assert_int_equal(rmdir(in(&folder, "d")), 0);
    folder_done(&folder);
}

TEST(poke_writes_in_place_and_never_creates)
{
    struct folder folder;
    struct snp_err err;
    char *text = NULL;
    folder_init(&folder);
    assert_int_equal(snp_file_poke(in(&folder, "f"), "x"), -1);
    assert_int_equal(errno, ENOENT);
    assert_int_equal(snp_file_write_atomic(in(&folder, "f"), "abc", 3, 0600, &err), 0);
    snp_autoclose int dir = open(folder.path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    assert_true(dir >= 0);
    assert_int_equal(snp_file_pokeat(dir, "f", "X"), 0);
    assert_int_equal(snp_file_read(in(&folder, "f"), 10, &text, NULL, &err), 0);
    assert_string_equal(text, "Xbc");
    free(text);
    assert_int_equal(unlink(in(&folder, "f")), 0);
    snp_closep(&dir);
    dir = -1;
    folder_done(&folder);
}

TEST(mkdir_p_makes_all_and_keeps_what_is_there)
{
    struct folder folder;
    struct snp_err err;
    struct stat st;
    folder_init(&folder);
    assert_int_equal(snp_mkdir_p(in(&folder, "a//b/c/"), 0700, &err), 0);
    assert_int_equal(snp_mkdir_p(in(&folder, "a/b"), 0755, &err), 0);
    assert_int_equal(stat(in(&folder, "a/b"), &st), 0);
    assert_int_equal(st.st_mode & 0777U, 0700);
    assert_int_equal(snp_mkdir_p("/", 0700, &err), 0);
    assert_int_equal(snp_mkdir_p("", 0700, &err), SNP_E_INVALID);
    assert_int_equal(snp_file_write_atomic(in(&folder, "f"), "", 0, 0600, &err), 0);
    assert_int_equal(snp_mkdir_p(in(&folder, "f/x"), 0700, &err), SNP_E_SYS);
    assert_int_equal(err.sys_errno, ENOTDIR);
    assert_int_equal(snp_mkdir_p(in(&folder, "f"), 0700, &err), SNP_E_SYS);
    char too_long[6000];
    memset(too_long, 'x', sizeof(too_long) - 1);
    too_long[sizeof(too_long) - 1] = '\0';
    assert_int_equal(snp_mkdir_p(too_long, 0700, &err), SNP_E_INVALID);
    assert_int_equal(unlink(in(&folder, "f")), 0);
    assert_int_equal(rmdir(in(&folder, "a/b/c")), 0);
    assert_int_equal(rmdir(in(&folder, "a/b")), 0);
    assert_int_equal(rmdir(in(&folder, "a")), 0);
    folder_done(&folder);
}

TEST(read_all_stops_at_the_end)
{
    int ends[2];
    char bytes[8] = "";
    assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
    assert_int_equal(snp_write_all(ends[1], "abc", 3), 0);
    assert_int_equal(snp_write_all(ends[1], "de", 2), 0);
    (void)close(ends[1]);
    assert_int_equal(snp_read_all(ends[0], bytes, sizeof(bytes)), 5);
    assert_memory_equal(bytes, "abcde", 5);
    assert_int_equal(snp_read_all(ends[0], bytes, sizeof(bytes)), 0);
    (void)close(ends[0]);
    assert_int_equal(snp_read_all(ends[0], bytes, 1), -1);
    assert_int_equal(errno, EBADF);
}

static void socket_pair(int type, int ends[2])
{
    assert_int_equal(socketpair(AF_UNIX, type | SOCK_CLOEXEC, 0, ends), 0);
}

static void close_all(const int *fds, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        assert_int_equal(close(fds[i]), 0);
    }
}

TEST(descriptors_travel_and_arrive_cloexec)
{
    int before = open_fds();
    int ends[2];
    int files[2];
    int got[SNP_FDS_MAX];
    size_t n_got = 99;
    char bytes[16] = "";
    socket_pair(SOCK_STREAM, ends);
    assert_int_equal(pipe2(files, O_CLOEXEC), 0);
    assert_int_equal(snp_send_fds(ends[0], "hello", 5, files, 2), 0);
    assert_int_equal(snp_recv_fds(ends[1], bytes, sizeof(bytes), got, &n_got), 5);
    assert_memory_equal(bytes, "hello", 5);
    assert_int_equal(n_got, 2);
    for (size_t i = 0; i < n_got; i++) {
        assert_int_equal(fcntl(got[i], F_GETFD), FD_CLOEXEC);
    }
    assert_int_equal(snp_write_all(got[1], "x", 1), 0);
    assert_int_equal(snp_read_all(files[0], bytes, 1), 1);
    close_all(got, n_got);
    close_all(files, 2);
    (void)close(ends[0]);
    assert_int_equal(snp_recv_fds(ends[1], bytes, sizeof(bytes), got, &n_got), 0);
    assert_int_equal(n_got, 0);
    (void)close(ends[1]);
    assert_int_equal(open_fds(), before);
}

TEST(as_many_descriptors_as_allowed_and_no_more)
{
    int before = open_fds();
    int ends[2];
    int same[SNP_FDS_MAX + 1] = {0};
    int got[SNP_FDS_MAX];
    size_t n_got = 0;
    char byte = 0;
    socket_pair(SOCK_STREAM, ends);
    assert_int_equal(snp_send_fds(ends[0], "a", 1, same, SNP_FDS_MAX), 0);
    assert_int_equal(snp_recv_fds(ends[1], &byte, 1, got, &n_got), 1);
    assert_int_equal(n_got, SNP_FDS_MAX);
    close_all(got, n_got);
    assert_int_equal(snp_send_fds(ends[0], "a", 1, same, SNP_FDS_MAX + 1), -1);
    assert_int_equal(errno, EINVAL);
    assert_int_equal(snp_send_fds(ends[0], "", 0, same, 1), -1);
    assert_int_equal(errno, EINVAL);
    close_all(ends, 2);
    assert_int_equal(open_fds(), before);
}

/* Send n descriptors past our own limit, as a peer that does not use our code can. */
static void send_many(int sock, size_t n)
{
    union {
        struct cmsghdr align;
        char space[CMSG_SPACE(64 * sizeof(int))];
    } control;
    memset(&control, 0, sizeof(control)); /* every descriptor is 0 */
    char byte = 'a';
    struct iovec iov = {.iov_base = &byte, .iov_len = 1};
    struct msghdr msg = {.msg_iov = &iov,
                         .msg_iovlen = 1,
                         .msg_control = control.space,
                         .msg_controllen = CMSG_SPACE(n * sizeof(int))};
    struct cmsghdr *c = CMSG_FIRSTHDR(&msg);
    c->cmsg_level = SOL_SOCKET;
    c->cmsg_type = SCM_RIGHTS;
    c->cmsg_len = CMSG_LEN(n * sizeof(int));
    assert_int_equal(sendmsg(sock, &msg, MSG_NOSIGNAL), 1);
}

TEST(too_many_or_unwanted_descriptors_are_closed)
{
    int before = open_fds();
    int ends[2];
    int got[SNP_FDS_MAX];
    size_t n_got = 0;
    char byte = 0;
    socket_pair(SOCK_STREAM, ends);
    for (size_t n = SNP_FDS_MAX + 1; n <= 64; n++) {
        send_many(ends[0], n);
        assert_int_equal(snp_recv_fds(ends[1], &byte, 1, got, &n_got), -1);
        assert_int_equal(errno, EBADMSG);
        assert_int_equal(n_got, 0);
        assert_int_equal(open_fds(), before + 2);
    }
    send_many(ends[0], 3);
    assert_int_equal(snp_recv_fds(ends[1], &byte, 1, NULL, NULL), 1);
    close_all(ends, 2);
    assert_int_equal(open_fds(), before);
}

TEST(a_full_socket_answers_eagain_and_a_closed_one_epipe)
{
    int ends[2];
    char bytes[4096] = "";
    socket_pair(SOCK_SEQPACKET, ends);
    assert_int_equal(snp_set_nonblock(ends[0], true), 0);
    int r = 0;
    for (int i = 0; i < 100000 && r == 0; i++) {
        r = snp_send_fds(ends[0], bytes, sizeof(bytes), NULL, 0);
    }
    assert_int_equal(r, -1);
    assert_int_equal(errno, EAGAIN);
    (void)close(ends[1]);
    assert_int_equal(snp_send_fds(ends[0], bytes, 1, NULL, 0), -1);
    assert_true(errno == EPIPE || errno == ECONNRESET);
    (void)close(ends[0]);
}

TEST(nonblock_goes_on_and_off)
{
    int ends[2];
    char byte = 0;
    assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
    assert_int_equal(snp_set_nonblock(ends[0], true), 0);
    assert_int_equal(snp_read_all(ends[0], &byte, 1), -1);
    assert_int_equal(errno, EAGAIN);
    assert_int_equal(snp_set_nonblock(ends[0], false), 0);
    assert_int_equal((unsigned)fcntl(ends[0], F_GETFL) & (unsigned)O_NONBLOCK, 0);
    close_all(ends, 2);
    assert_int_equal(snp_set_nonblock(-1, true), -1);
}

static void *no_memory(size_t n)
{
    (void)n;
    return NULL;
}

/* What is freed before it has a descriptor closes none: 0 is one, too. */
TEST(a_client_without_memory_closes_nothing)
{
    const struct snp_client_options options = {.socket_path = "/nobody", .signal_fd = -1};
    struct snp_client *client = NULL;
    struct snp_err err;
    snp_autoclose int kept = open("/dev/null", O_RDONLY | O_CLOEXEC);
    int zero = fcntl(STDIN_FILENO, F_DUPFD_CLOEXEC, 3);

    assert_int_equal(dup2(kept, STDIN_FILENO), STDIN_FILENO);
    json_set_alloc_funcs(no_memory, free);
    assert_int_equal(snp_client_connect(&options, &client, &err), SNP_E_NOMEM);
    json_set_alloc_funcs(malloc, free);
    assert_true(fcntl(STDIN_FILENO, F_GETFD) >= 0);
    if (zero >= 0) {
        assert_int_equal(dup2(zero, STDIN_FILENO), STDIN_FILENO);
        (void)close(zero);
    }
}

static void a_process_is_over_only_if_that_is_certain(void **state)
{
    (void)state;
    struct rlimit old;
    struct rlimit none;
    char mark[SNP_PROCESS_MARK_MAX];
    char other[SNP_PROCESS_MARK_MAX + 1];
    char *boot = NULL;
    pid_t child = fork();

    if (child == 0) {
        (void)pause();
        _exit(0);
    }
    snp_process_mark((uint64_t)child, mark);
    assert_string_not_equal(mark, "");
    assert_false(snp_process_is_over(mark));
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &old), 0);
    none = (struct rlimit){.rlim_cur = 0, .rlim_max = old.rlim_max};
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &none), 0);
    assert_false(snp_process_is_over(mark)); /* no file can be opened */
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &old), 0);
    (void)kill(child, SIGKILL);
    assert_int_equal(waitpid(child, NULL, 0), child);
    assert_true(snp_process_is_over(mark));
    snp_process_mark((uint64_t)child, other); /* of one that ended before it was asked about */
    assert_true(snp_process_is_over(other));
    (void)snprintf(other, sizeof(other), "%s0", mark); /* of another namespace */
    assert_false(snp_process_is_over(other));
    boot = strchr(strchr(other, ' ') + 1, ' ') + 1;
    *boot = *boot == '0' ? '1' : '0'; /* of before a start of the machine */
    assert_true(snp_process_is_over(other));
    (void)snprintf(other, sizeof(other), "%d 1 %s", (int)getpid(),
                   strchr(strchr(mark, ' ') + 1, ' ') + 1);
    assert_true(snp_process_is_over(other)); /* another had that number */
    assert_false(snp_process_is_over("no mark"));
}

RUN(UNIT(files_are_read_up_to_their_limit),
    UNIT(a_large_file_is_read_whole),
    UNIT(files_without_a_size_are_read_to_their_end),
    UNIT(what_is_not_a_file_is_refused_at_once),
    UNIT(atomic_write_replaces_a_link_and_sets_the_mode),
    UNIT(a_failed_atomic_write_leaves_nothing),
    UNIT(poke_writes_in_place_and_never_creates),
    UNIT(mkdir_p_makes_all_and_keeps_what_is_there),
    UNIT(read_all_stops_at_the_end),
    UNIT(descriptors_travel_and_arrive_cloexec),
    UNIT(as_many_descriptors_as_allowed_and_no_more),
    UNIT(too_many_or_unwanted_descriptors_are_closed),
    UNIT(a_full_socket_answers_eagain_and_a_closed_one_epipe),
    UNIT(nonblock_goes_on_and_off),
    UNIT(a_client_without_memory_closes_nothing),
    UNIT(a_process_is_over_only_if_that_is_certain))
