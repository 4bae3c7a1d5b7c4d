/* SPDX-License-Identifier: Apache-2.0 */
#include "base/cli/input.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>
#include <sys/stat.h>

#include "base/buf.h"
#include "base/cli/human.h"
#include "base/cli/need.h"
#include "base/fd.h"

enum {
    READ_BYTES = 64 << 10,
};

/* Read fd to its end; name is used in errors. */
static int stream_read(
    int fd, const char *name, size_t max, struct snp_buf *ret, struct snp_err *err)
{
    for (;;) {
        char *space = NULL;
        ssize_t n;

        if (ret->len > max) {
            return snp_fail(err, SNP_E_LIMIT, "%s is larger than %s", name,
                            snp_human_bytes(max).text);
        }
        (void)snp_need(snp_buf_reserve(ret, READ_BYTES, &space) < 0 ? NULL : space);
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

/* A pipe with a name: a FIFO, a shell's <(COMMAND), /dev/stdin. */
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
    int r;

    if (!is_stdin && !is_pipe(path)) {
        return snp_file_read(path, max, ret_text, ret_len, err);
    }
    if (!is_stdin) {
        opened = SNP_RETRY(open(path, O_RDONLY | O_CLOEXEC));
    }
    if (!is_stdin && opened < 0) {
        return snp_fail_sys(err, errno, "open %s", path);
    }
    snp_buf_init(&buf, max + READ_BYTES);
    r = is_stdin ? stream_read(STDIN_FILENO, "standard input", max, &buf, err)
                 : stream_read(opened, path, max, &buf, err);
    if (r < 0) {
        return r;
    }
    (void)snp_need(snp_buf_cstr(&buf));
    *ret_len = buf.len;
    *ret_text = SNP_TAKE_PTR(buf.data); /* nothing was consumed, so it starts at data */
    return 0;
}
