/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNP_GUEST_FILES_BUNDLE_H
#define SNP_GUEST_FILES_BUNDLE_H

/*
 * The bundle, the stream of a checkpoint (docs/wire.md): frames of items. Pid 1 writes and reads
 * its part "files". The input may come from a malicious archive: every head, name and size is
 * checked before use.
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
    SNP_BUNDLE_ITEMS = 200000, /* limit of one part */
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

/* Texts are borrowed and never NULL (except linked, which a writer may omit); "" = absent. */
struct snp_bundle_item {
    enum snp_bundle_kind kind;
    const char *name;   /* encoded */
    const char *key;    /* 32 hex digits of XXH3-128, or any key of the writer of vars */
    const char *target; /* of a link, encoded */
    const char *linked; /* of a file with several names: its first name */
    const char *type;   /* of a lost entry; only written */
    const char *reason; /* of a lost entry; only written */
    uint64_t size;      /* bytes of data */
    uint64_t length;    /* of a file with holes: its length */
    int64_t mtime_ns;
    uint32_t mode;
    bool is_same; /* no data follows: the reader has them */
    bool is_opaque;
    bool is_sparse; /* its data are runs, each after its offset and length */
};

/*
 * Paths as text. Bytes that are not UTF-8 become U+EF80 to U+EFFF, one for each of 0x80 to 0xff;
 * characters of that range are encoded as such bytes, too. So paths and texts correspond one to
 * one. from_path: -1 if it does not fit. to_path: -1 also if from_path cannot make the text.
 */
int snp_bundle_from_path(const char *path, char text[SNP_BUNDLE_NAME_LEN]) SNP_NODISCARD;
int snp_bundle_to_path(const char *text, char path[SNP_BUNDLE_PATH_LEN]) SNP_NODISCARD;

/* Is it a valid path of a file below a folder: no "..", no empty part, not too long or deep? */
bool snp_bundle_is_path(const char *path);

/* 32 digits and a NUL. */
void snp_bundle_key(const uint64_t key[2], char text[33]);

/* Writing --------------------------------------------------------------------------------- */

struct snp_bundle_out {
    int fd; /* borrowed; blocking, or polled */
    struct snp_buf buf;
    uint64_t items;
    int eno; /* the first failure; later writes are skipped */
};

void snp_bundle_out_init(struct snp_bundle_out *out, int fd);
void snp_bundle_out_done(struct snp_bundle_out *out);
/* Write an item's head, with n bytes of its data (at most SNP_BUNDLE_RAW_MAX). */
void snp_bundle_put(struct snp_bundle_out *out,
                    const struct snp_bundle_item *item,
                    const void *bytes,
                    size_t n);
void snp_bundle_put_data(struct snp_bundle_out *out, const void *bytes, size_t n);
/* Write the end of the part, and buffered bytes. 0 or errno. */
int snp_bundle_finish(struct snp_bundle_out *out, const char *part);

/* Reading --------------------------------------------------------------------------------- */

struct snp_bundle_in {
    int fd;        /* borrowed */
    char *body;    /* owned */
    json_t *head;  /* owned; of the last frame, NULL = none */
    uint64_t left; /* unread bytes of the current item */
    uint64_t items;
    bool is_at_end;
};

struct snp_bundle_frame {
    uint8_t type;                /* SNP_BUNDLE_ITEM, _DATA, or _END */
    struct snp_bundle_item item; /* for ITEM */
    const char *bytes;           /* n of them */
    size_t n;
};

int snp_bundle_in_init(struct snp_bundle_in *in, int fd) SNP_NODISCARD;
void snp_bundle_in_done(struct snp_bundle_in *in);
/*
 * Read the next frame of the part; borrowed until the next call. Reads no bytes beyond it. 0 or
 * errno: EBADMSG if a rule is broken, or the stream ends before END.
 */
int snp_bundle_next(struct snp_bundle_in *in,
                    const char *part,
                    struct snp_bundle_frame *ret) SNP_NODISCARD;

#endif
