/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNP_GUEST_FILES_BUNDLE_H
#define SNP_GUEST_FILES_BUNDLE_H

/*
 * The bundle, the stream of a checkpoint (docs/wire.md): frames of items, as pid 1 writes and
 * reads its part "files". What is read may come from an archive that somebody made to do harm:
 * every head, name and size is checked before anything is done with it.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/json.h"

enum {
    SNP_BUNDLE_ITEM = 80, /* frame types */
    SNP_BUNDLE_DATA = 81,
    SNP_BUNDLE_END = 82,
    SNP_BUNDLE_HEAD_MAX = 64 << 10,
    SNP_BUNDLE_RAW_MAX = 1 << 20,
    SNP_BUNDLE_ITEMS = 200000, /* most of one part */
    SNP_BUNDLE_PATH_LEN = 4096,
    SNP_BUNDLE_NAME_LEN = 3 * SNP_BUNDLE_PATH_LEN,
    SNP_BUNDLE_KEY_LEN = 64,
};

enum snp_bundle_kind {
    SNP_BUNDLE_VARS = 0,
    SNP_BUNDLE_FILE,
    SNP_BUNDLE_DIR,
    SNP_BUNDLE_LINK,
    SNP_BUNDLE_WHITEOUT,
    SNP_BUNDLE_LOST,
    SNP_BUNDLE_KINDS,
};

/* Texts are borrowed and never NULL (but linked, which a writer need not say); "" = absent. */
struct snp_bundle_item {
    enum snp_bundle_kind kind;
    const char *name;   /* as it is sent */
    const char *key;    /* 32 hex digits of XXH3-128, or whatever the writer of vars uses */
    const char *target; /* of a link, as it is sent */
    const char *linked; /* of a file that has several names: the first of them */
    const char *type;   /* of what is lost; only written */
    const char *reason; /* likewise */
    uint64_t size;      /* bytes of data */
    uint64_t length;    /* of a file with holes: how long it is */
    int64_t mtime_ns;
    uint32_t mode;
    bool is_same; /* no data follows: the reader has it */
    bool is_opaque;
    bool is_sparse; /* its data are runs, each behind its offset and length */
};

/*
 * Paths as text. Bytes that are not UTF-8 become U+EF80 to U+EFFF, one for each of 0x80 to
 * 0xff; a character of that range is treated as such bytes itself. So each path has one text
 * and each text one path. from_path: -1 if it does not fit. to_path: -1 too if the text is not
 * one that from_path makes.
 */
int snp_bundle_from_path(const char *path, char text[SNP_BUNDLE_NAME_LEN]) SNP_NODISCARD;
int snp_bundle_to_path(const char *text, char path[SNP_BUNDLE_PATH_LEN]) SNP_NODISCARD;

/* May it be the path of a file below a folder: no "..", nothing empty, nothing too long or deep? */
bool snp_bundle_is_path(const char *path);

/* 32 digits and a NUL. */
void snp_bundle_key(const uint64_t key[2], char text[33]);

/* Writing --------------------------------------------------------------------------------- */

struct snp_bundle_out {
    int fd; /* borrowed; blocks, or is waited for */
    struct snp_buf buf;
    uint64_t items;
    int eno; /* of the first failure; nothing is written after it */
};

void snp_bundle_out_init(struct snp_bundle_out *out, int fd);
void snp_bundle_out_done(struct snp_bundle_out *out);
/* Head of an item, with n bytes of its data (at most SNP_BUNDLE_RAW_MAX). */
void snp_bundle_put(struct snp_bundle_out *out,
                    const struct snp_bundle_item *item,
                    const void *bytes,
                    size_t n);
void snp_bundle_put_data(struct snp_bundle_out *out, const void *bytes, size_t n);
/* The end of the part, and everything that is still in memory. 0 or errno. */
int snp_bundle_finish(struct snp_bundle_out *out, const char *part);

/* Reading --------------------------------------------------------------------------------- */

struct snp_bundle_in {
    int fd;        /* borrowed */
    char *body;    /* owned */
    json_t *head;  /* owned; of the last frame, NULL = it has none */
    uint64_t left; /* bytes of the current item still to come */
    uint64_t items;
    bool is_at_end;
};

struct snp_bundle_frame {
    uint8_t type;                /* SNP_BUNDLE_ITEM, _DATA, or _END */
    struct snp_bundle_item item; /* of ITEM */
    const char *bytes;           /* n of them */
    size_t n;
};

int snp_bundle_in_init(struct snp_bundle_in *in, int fd) SNP_NODISCARD;
void snp_bundle_in_done(struct snp_bundle_in *in);
/*
 * The next frame of the part named part; borrowed until the next call. Exactly its bytes are
 * read. 0 or errno: EBADMSG what breaks a rule, or an end before END.
 */
int snp_bundle_next(struct snp_bundle_in *in,
                    const char *part,
                    struct snp_bundle_frame *ret) SNP_NODISCARD;

#endif
