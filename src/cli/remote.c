/* SPDX-License-Identifier: Apache-2.0 */
/* The command line's end of the wire: connecting, plain calls, reading what is to be sent. */
#include "cli/remote.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <sys/signalfd.h>
#include <sys/stat.h>

#include "base/buf.h"
#include "base/fd.h"
#include "base/str.h"

enum {
    READ_BYTES = 64 << 10
};

int snp_remote_connect(bool with_signals, struct snp_client **ret, struct snp_err *err)
{
    struct snp_client_options options = {.has_start = true, .signal_fd = -1};
    snp_autoclose int fd = -1;
    sigset_t set;
    int r;

    if (with_signals) {
        (void)sigemptyset(&set);
        (void)sigaddset(&set, SIGINT);
        (void)sigaddset(&set, SIGTERM);
        fd = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
        if (fd < 0) {
            return snp_fail_sys(err, errno, "signalfd");
        }
        options.signal_fd = fd;
    }
    r = snp_client_connect(&options, ret, err);
    if (r == 0 && with_signals) {
        /* Only now: until then the default (to end) is what is wanted. */
        (void)sigprocmask(SIG_BLOCK, &set, NULL);
        (void)SNP_TAKE_FD(fd);
    }
    return r;
}

int snp_remote_call(struct snp_client *client,
                    const char *method,
                    json_t *head,
                    struct snp_reply *ret,
                    struct snp_err *err)
{
    snp_autojson json_t *owned = head;
    struct snp_call call = {.method = method, .head = owned};

    if (owned == NULL) {
        return snp_fail(err, SNP_E_NOMEM, "out of memory");
    }
    return snp_client_call(client, &call, ret, err);
}

/* All that comes through fd, which is called name in errors. */
static int stream_read(
    int fd, const char *name, size_t max, struct snp_buf *ret, struct snp_err *err)
{
    char size[32];

    for (;;) {
        char *space = NULL;
        ssize_t n;

        if (ret->len > max) {
            return snp_fail(err, SNP_E_LIMIT, "%s is larger than %s", name,
                            snp_format_bytes(max, size, sizeof(size)));
        }
        if (snp_buf_reserve(ret, READ_BYTES, &space) < 0) {
            return snp_fail(err, SNP_E_NOMEM, "out of memory");
        }
        n = SNP_RETRY(read(fd, space, READ_BYTES));
        if (n < 0) {
            return snp_fail_sys(err, errno, "read %s", name);
        }
        if (n == 0) {
            return 0;
        }
        snp_buf_commit(ret, (size_t)n);
    }
}

/* A pipe that has a name: a FIFO, a shell's <(COMMAND), /dev/stdin. */
static bool is_pipe(const char *path)
{
    struct stat st;

    return stat(path, &st) == 0 && S_ISFIFO(st.st_mode);
}

int snp_read_input(
    const char *path, size_t max, char **ret_text, size_t *ret_len, struct snp_err *err)
{
    bool is_stdin = strcmp(path, "-") == 0;
    snp_autobuf struct snp_buf buf = {0};
    snp_autoclose int opened = -1;
    int fd = STDIN_FILENO;
    int r;

    if (!is_stdin && !is_pipe(path)) {
        return snp_file_read(path, max, ret_text, ret_len, err);
    }
    if (!is_stdin) {
        fd = opened = SNP_RETRY(open(path, O_RDONLY | O_CLOEXEC));
    }
    if (fd < 0) {
        return snp_fail_sys(err, errno, "open %s", path);
    }
    snp_buf_init(&buf, max + READ_BYTES);
    r = stream_read(fd, is_stdin ? "standard input" : path, max, &buf, err);
    if (r < 0) {
        return r;
    }
    if (snp_buf_cstr(&buf) == NULL) {
        return snp_fail(err, SNP_E_NOMEM, "out of memory");
    }
    *ret_len = buf.len;
    *ret_text = SNP_TAKE_PTR(buf.data); /* nothing was consumed: it starts at data */
    return 0;
}
