/* SPDX-License-Identifier: Apache-2.0 */
/* The socket never blocks here: callers poll. */
#include "client/socket.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>

#include "base/fd.h"
#include "client/start.h"
#include "wire/frame.h"
#include "wire/rpc.h"

enum {
    WORDS_MAX = 256,
};

int snp_socket_queue(struct snp_buf *out,
                     const struct snp_socket_request *request,
                     struct snp_err *err)
{
    snp_autofree char *text = request->head == NULL ? NULL : snp_json_text(request->head);
    struct snp_frame frame = {.type = SNP_RPC_REQUEST,
                              .id = request->id,
                              .raw = request->raw,
                              .raw_len = request->raw_len};
    int r;

    if (text == NULL) {
        return snp_fail(err, SNP_E_NOMEM, "out of memory");
    }
    frame.head = text;
    frame.head_len = strlen(text);
    r = snp_frame_write(out, &frame);
    if (r < 0 && out->len > 0) {
        return snp_fail(err, (enum snp_code)r, "too many bytes wait to be sent to the daemon");
    }
    return r < 0 ? snp_fail(err, (enum snp_code)r,
                            "a request can have at most %d MiB; send large data as files",
                            SNP_FRAME_BODY_MAX >> 20)
                 : 0;
}

int snp_socket_send(int fd, struct snp_buf *out, struct snp_err *err)
{
    while (out->len > 0) {
        ssize_t n = SNP_RETRY(send(fd, snp_buf_bytes(out), out->len, MSG_NOSIGNAL | MSG_DONTWAIT));

        if (n < 0 && errno == EAGAIN) {
            return 0;
        }
        if (n < 0 && (errno == EPIPE || errno == ECONNRESET)) {
            snp_buf_clear(out); /* frames sent before it closed may still be read */
            return 1;
        }
        if (n < 0) {
            return snp_fail(err, SNP_E_PEER, "the daemon disconnected (errno %d)", errno);
        }
        snp_buf_consume(out, (size_t)n);
    }
    return 0;
}

int snp_socket_receive(int fd, struct snp_buf *in, bool *ret_is_unread, struct snp_err *err)
{
    char *space = NULL;
    ssize_t n;
    int r = snp_buf_reserve(in, SNP_SOCKET_READ, &space);

    if (r < 0) {
        return snp_fail(err, (enum snp_code)r, "no room for more of a frame");
    }
    n = SNP_RETRY(recv(fd, space, SNP_SOCKET_READ, MSG_DONTWAIT));
    if (n < 0 && errno == EAGAIN) {
        return 0;
    }
    if (n <= 0) {
        char words[WORDS_MAX];

        *ret_is_unread |= n < 0 && errno == ECONNRESET;
        return snp_fail(err, SNP_E_PEER, "the daemon disconnected%s",
                        snp_daemon_last_words(words, sizeof(words)));
    }
    snp_buf_commit(in, (size_t)n);
    return 0;
}
