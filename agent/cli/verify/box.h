/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNP_CLI_VERIFY_BOX_H
#define SNP_CLI_VERIFY_BOX_H

/* A fresh session of the clean project, for one run of a verdict. */

#include "base/buf.h"
#include "cli/cli.h"
#include "cli/session/changes.h"

enum {
    SNP_BOX_OUTPUT_MAX = 256 << 10, /* bytes of a command's output that are taken: the last ones */
    SNP_BOX_NONCE = 16,             /* digits */
};

/* What all boxes of a verdict share; borrowed. */
struct snp_box_spec {
    struct snp_cli *cli;
    const struct snp_session_changes *changes;
    json_t *limits;
    json_t *defaults; /* of what the changes and the limits do not say; NULL = none */
    int patch_fd;     /* the patch with its contents, as JSON */
};

struct snp_patch_session {
    const struct snp_box_spec *spec;
    char name[64];
    char nonce[33]; /* the folder /tmp/NONCE has our programs, the patch, and what they answer */
    /* gets standard output alone, and nothing beyond its room; NULL = none */
    struct snp_buf *printed;
    bool is_cut; /* there was more */
    bool is_open;
};
#define snp_autobox snp_cleanup(snp_box_close)

/*
 * Open it, with our programs and the patch in a folder of a random name. snp_box_close() in
 * any case.
 */
int snp_box_open(const struct snp_box_spec *spec,
                 struct snp_patch_session *ret,
                 struct snp_err *err) SNP_NODISCARD;
/* The same with nothing in its folder; code is run first. */
int snp_box_begin(const struct snp_box_spec *spec,
                  const char *code,
                  struct snp_patch_session *ret,
                  struct snp_err *err) SNP_NODISCARD;
void snp_box_close(struct snp_patch_session *box);

/* Which part of the patch. */
struct snp_box_part {
    const json_t *unexecuted; /* paths that stay as they are; NULL = none */
    const json_t *hunk;       /* that it is without; NULL = none */
    bool has_tests;           /* else they stay as the project has them */
};
int snp_box_apply(struct snp_patch_session *box,
                  const struct snp_box_part *part,
                  struct snp_err *err) SNP_NODISCARD;

/* One cell. argv NULL: Python code. *ret: its result, the caller's. */
int snp_box_exec(struct snp_patch_session *box,
                 json_t *argv,
                 const char *code,
                 struct snp_buf *out,
                 json_t **ret,
                 struct snp_err *err) SNP_NODISCARD;

/* Code of ours, which does not fail. */
int snp_box_python(struct snp_patch_session *box,
                   const char *code,
                   struct snp_err *err) SNP_NODISCARD;

/* A file of our folder. */
int snp_box_put(const struct snp_patch_session *box,
                const char *text,
                size_t n,
                const char *name,
                struct snp_err *err) SNP_NODISCARD;

/* A JSON object that our code left there; NULL in *ret: there is none, or it is none. */
int snp_box_get(const struct snp_patch_session *box,
                const char *name,
                json_t **ret,
                struct snp_err *err) SNP_NODISCARD;

#endif
