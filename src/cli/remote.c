/* SPDX-License-Identifier: Apache-2.0 */
/* The command line's end of the wire: connecting, plain calls, reading what is to be sent. */
#include "cli/remote.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <sys/signalfd.h>

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

static int stdin_read(size_t max, char **ret_text, size_t *ret_len, struct snp_err *err)
{
    snp_autobuf struct snp_buf buf = {0};
    char size[32];

    snp_buf_init(&buf, max + READ_BYTES);
    for (;;) {
        char *space = NULL;
        ssize_t n;

        if (buf.len > max) {
            return snp_fail(err, SNP_E_LIMIT, "standard input is larger than %s",
                            snp_format_bytes(max, size, sizeof(size)));
        }
        if (snp_buf_reserve(&buf, READ_BYTES, &space) < 0) {
            return snp_fail(err, SNP_E_NOMEM, "out of memory");
        }
        n = SNP_RETRY(read(STDIN_FILENO, space, READ_BYTES));
        if (n < 0) {
            return snp_fail_sys(err, errno, "read standard input");
        }
        if (n == 0) {
            break;
        }
        snp_buf_commit(&buf, (size_t)n);
    }
    *ret_text = malloc(buf.len + 1);
    if (*ret_text == NULL) {
        return snp_fail(err, SNP_E_NOMEM, "out of memory");
    }
    if (buf.len > 0) {
        memcpy(*ret_text, snp_buf_bytes(&buf), buf.len);
    }
    (*ret_text)[buf.len] = '\0';
    *ret_len = buf.len;
    return 0;
}

int snp_read_input(
    const char *path, size_t max, char **ret_text, size_t *ret_len, struct snp_err *err)
{
    if (strcmp(path, "-") == 0) {
        return stdin_read(max, ret_text, ret_len, err);
    }
    return snp_file_read(path, max, ret_text, ret_len, err);
}
