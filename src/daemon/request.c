/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/request.h"

#include <stdlib.h>
#include <string.h>

#include "base/wire/frame.h"
#include "base/wire/rpc.h"
#include "daemon/server.h"

struct snp_request *snp_request_new(struct snp_peer *peer, uint32_t id, struct snp_err *err)
{
    struct snp_request *request;
    size_t slot = SNP_CAP_REQUESTS;

    for (size_t i = 0; i < SNP_CAP_REQUESTS; i++) {
        if (peer->open[i] == NULL) {
            slot = i < slot ? i : slot;
        } else if (peer->open[i]->id == id) {
            (void)snp_fail(err, SNP_E_PEER, "request %u is already open", id);
            return NULL;
        }
    }
    if (slot == SNP_CAP_REQUESTS) {
        (void)snp_fail(err, SNP_E_LIMIT, "%d requests are already open", SNP_CAP_REQUESTS);
        return NULL;
    }
    request = calloc(1, sizeof(*request));
    if (request == NULL) {
        (void)snp_fail(err, SNP_E_NOMEM, "out of memory");
        return NULL;
    }
    *request = (struct snp_request){.server = peer->server, .peer = peer, .id = id};
    peer->open[slot] = request;
    return request;
}

static void request_free(struct snp_request *request)
{
    struct snp_peer *peer = request->peer;

    for (size_t i = 0; peer != NULL && i < SNP_CAP_REQUESTS; i++) {
        if (peer->open[i] == request) {
            peer->open[i] = NULL;
        }
    }
    free(request);
}

void snp_peer_fail(struct snp_peer *peer, uint32_t id, const struct snp_err *err)
{
    snp_autojson json_t *head = snp_json_from_err(err);
    snp_autofree char *text = head == NULL ? NULL : snp_json_text(head);
    struct snp_frame frame = {.type = SNP_RPC_ERROR, .id = id, .head = text};

    if (text == NULL) {
        snp_conn_end(&peer->conn);
        return;
    }
    frame.head_len = strlen(text);
    if (snp_conn_send(&peer->conn, &frame) < 0) {
        snp_conn_end(&peer->conn); /* cannot happen: a message is short */
    }
}

void snp_request_fail(struct snp_request *request, const struct snp_err *err)
{
    if (request->peer != NULL) {
        snp_peer_fail(request->peer, request->id, err);
    }
    request_free(request);
}

void *snp_request_state(struct snp_request *request, size_t n)
{
    void *state = calloc(1, n);

    if (state == NULL) {
        snp_request_refuse(request, SNP_E_NOMEM, "out of memory");
    }
    return state;
}

/* Add `unsaved` to an answer about a session that could not be saved. NULL: nothing to add. */
static char *unsaved_add(const struct snp_request *request, const char *head, size_t head_len)
{
    snp_autojson json_t *row =
        request->session[0] == '\0'
            ? NULL
            : request->server->hooks->unsaved(request->server, request->session);
    snp_autojson json_t *whole = row == NULL ? NULL : json_loadb(head, head_len, 0, NULL);

    return whole == NULL || json_object_set(whole, "unsaved", row) < 0 ? NULL
                                                                       : snp_json_text(whole);
}

void snp_request_pass(
    struct snp_request *request, const char *head, size_t head_len, const void *raw, size_t raw_len)
{
    snp_autofree char *more = unsaved_add(request, head, head_len);
    struct snp_frame frame = {.type = SNP_RPC_RESPONSE,
                              .id = request->id,
                              .head = more == NULL ? head : more,
                              .head_len = more == NULL ? head_len : strlen(more),
                              .raw = raw,
                              .raw_len = raw_len};

    if (request->peer != NULL && snp_conn_send(&request->peer->conn, &frame) < 0) {
        snp_request_refuse(request, SNP_E_LIMIT, "the answer is larger than a frame");
        return;
    }
    request_free(request);
}

void snp_request_answer(struct snp_request *request, json_t *head)
{
    snp_autojson json_t *owned = head;
    snp_autofree char *text = owned == NULL ? NULL : snp_json_text(owned);

    if (text == NULL) {
        snp_request_refuse(request, SNP_E_NOMEM, "out of memory");
        return;
    }
    snp_request_pass(request, text, strlen(text), NULL, 0);
}

void snp_request_event(
    struct snp_request *request, const char *head, size_t head_len, const void *raw, size_t raw_len)
{
    struct snp_frame frame = {.type = SNP_RPC_EVENT,
                              .id = request->id,
                              .head = head,
                              .head_len = head_len,
                              .raw = raw,
                              .raw_len = raw_len};

    /* It arrived in one frame of the same size, so it fits one. */
    if (request->peer != NULL && snp_conn_send(&request->peer->conn, &frame) < 0) {
        snp_conn_end(&request->peer->conn);
    }
}
