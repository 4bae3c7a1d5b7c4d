/* SPDX-License-Identifier: Apache-2.0 */
/*
 * An image at rest, as items of a checkpoint: its tables first, then its pages, one item for each
 * window of addresses, so that unchanged parts keep their keys. Nothing of the interpreter is used
 * or changed.
 */
#include <stdio.h>
#include <string.h>
#include <unistd.h>
#include <sys/uio.h>

#include "base/err.h"
#include "guest/module/image_parts.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

#define WINDOW (UINT64_C(1) << 20)

enum {
    PARTS_MAX = 1 + (1 << 20) / 4096, /* of an item: its head, and at most one for each page */
    FRAME = 16,
    FRAME_ITEM = 80,
    HEAD_MAX = 200,
    KEY_MAX = 40,
};

struct items {
    int fd;
    const char *known;
    struct snp_image_view *view;
    uint32_t n;
    size_t n_parts;
    size_t len;
    struct iovec parts[PARTS_MAX];
};

static bool is_known(const char *known, const char *key)
{
    const size_t len = strlen(key);

    for (const char *at = known; (at = strstr(at, key)) != NULL; at += len) {
        if ((at == known || at[-1] == '\n') && (at[len] == '\n' || at[len] == '\0')) {
            return true;
        }
    }
    return false;
}

static void name_content(const struct items *items, char key[KEY_MAX])
{
    XXH3_state_t state;
    XXH128_hash_t hash;

    XXH3_INITSTATE(&state);
    (void)XXH3_128bits_reset(&state);
    for (size_t i = 1; i < items->n_parts; i++) {
        (void)XXH3_128bits_update(&state, items->parts[i].iov_base, items->parts[i].iov_len);
    }
    hash = XXH3_128bits_digest(&state);
    (void)snprintf(key, KEY_MAX, "i:%016llx%016llx", (unsigned long long)hash.high64,
                   (unsigned long long)hash.low64);
}

/* Write the collected parts in one frame. */
static int put_item(struct items *items)
{
    char key[KEY_MAX];
    char frame[FRAME + HEAD_MAX] = {0};
    uint32_t lens[3] = {0};
    bool is_same;
    int n;

    if (items->len == 0) {
        return 0;
    }
    name_content(items, key);
    is_same = is_known(items->known, key);
    n = snprintf(frame + FRAME, HEAD_MAX,
                 "{\"kind\":\"image\",\"name\":\"%u\",\"key\":\"%s\",\"size\":%zu,\"same\":%s,"
                 "\"meta\":{}}",
                 items->n, key, items->len, is_same ? "true" : "false");
    lens[0] = (uint32_t)n + (is_same ? 0 : (uint32_t)items->len);
    lens[2] = (uint32_t)n;
    memcpy(frame, lens, sizeof(lens));
    frame[sizeof(lens)] = FRAME_ITEM;
    items->parts[0] = (struct iovec){frame, FRAME + (size_t)n};
    n = snp_image_put(items->fd, items->parts, is_same ? 1 : items->n_parts);
    items->n++;
    items->n_parts = 1;
    items->len = 0;
    return n;
}

static int add(struct items *items, const void *bytes, size_t len)
{
    const char *at = bytes;

    while (len > 0) {
        const size_t room = WINDOW - items->len;
        const size_t n = len < room ? len : room;

        items->parts[items->n_parts++] = (struct iovec){(void *)(uintptr_t)at, n};
        items->len += n;
        at += n;
        len -= n;
        if ((items->len == WINDOW || items->n_parts == PARTS_MAX) && put_item(items) < 0) {
            return -1;
        }
    }
    return 0;
}

/* Add a run, ending items at window boundaries. */
static int add_run(struct items *items, const struct snp_image_run *run, uint64_t *window)
{
    for (uint64_t at = run->at; at < run->at + run->len;) {
        const uint64_t end = (at / WINDOW + 1) * WINDOW;
        const uint64_t stop = end < run->at + run->len ? end : run->at + run->len;
        const void *beside;

        if (*window != at / WINDOW && put_item(items) < 0) {
            return -1;
        }
        *window = at / WINDOW;
        beside = snp_image_beside(items->view, at, stop - at, items->len);
        SNP_TRY(add(items, beside != NULL ? beside : snp_maps_at(at), stop - at));
        at = stop;
    }
    return 0;
}

int snp_image_put_items(int fd, struct snp_image_room *room, const char *known, uint32_t *ret_items)
{
    struct snp_image *image = &room->image;
    struct items items = {.fd = fd, .known = known, .view = &room->view, .n_parts = 1};
    struct iovec parts[SNP_IMAGE_PARTS];
    uint64_t window = 0;

    (void)snp_image_parts(image, parts);
    for (size_t i = 0; i < SNP_ARRAY_LEN(parts); i++) {
        SNP_TRY(add(&items, parts[i].iov_base, parts[i].iov_len));
    }
    for (uint64_t i = 0; i < image->head.n_runs; i++) {
        SNP_TRY(add_run(&items, &image->runs[i], &window));
    }
    SNP_TRY(put_item(&items));
    *ret_items = items.n;
    return 0;
}
