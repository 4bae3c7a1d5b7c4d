/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNP_CLI_VERIFY_BOX_H
#define SNP_CLI_VERIFY_BOX_H

/* A fresh session of the clean project, for one run of a verdict. */

#include "base/buf.h"
#include "base/cli/cli.h"
#include "base/cli/session/changes.h"

enum {
    SNP_BOX_OUTPUT_MAX = 256 << 10, /* last bytes of a command's output that are kept */
    SNP_BOX_NONCE = 16,             /* digits */
};

/* Shared by all boxes of a verdict; borrowed. */
struct snp_box_spec {
    struct snp_cli *cli;
    const struct snp_session_changes *changes;
    json_t *limits;
    json_t *defaults;  /* for settings missing in the changes and the limits; NULL = none */
    const char *patch; /* with its contents, as JSON; NULL = boxes are not opened */
};

struct snp_patch_session {
    const struct snp_box_spec *spec;
    char name[64];
    char nonce[33]; /* the folder /tmp/NONCE has our programs, the patch, and their answers */
    /* receives standard output alone, up to its room; NULL = none */
    struct snp_buf *printed;
    bool is_cut; /* output beyond the room was dropped */
    bool is_open;
};
#define snp_autobox snp_cleanup(snp_box_close)

/*
 * Open a box with our programs and the patch in a folder with a random name. Call snp_box_close()
 * even after a failure.
 */
int snp_box_open(const struct snp_box_spec *spec,
                 struct snp_patch_session *ret,
                 struct snp_err *err) SNP_NODISCARD;
/* The same with an empty folder; code is run first. */
int snp_box_begin(const struct snp_box_spec *spec,
                  const char *code,
                  struct snp_patch_session *ret,
                  struct snp_err *err) SNP_NODISCARD;
void snp_box_close(struct snp_patch_session *box);

/* The part of the patch to apply. */
struct snp_box_part {
    const json_t *unexecuted; /* paths that are not written; NULL = none */
    const json_t *hunk;       /* hunk to leave out; NULL = none */
    bool has_tests;           /* else tests stay as in the project */
};
int snp_box_apply(struct snp_patch_session *box,
                  const struct snp_box_part *part,
                  struct snp_err *err) SNP_NODISCARD;

/* Run a shell line. *ret: its result, the caller's. */
int snp_box_exec(struct snp_patch_session *box,
                 const char *line,
                 struct snp_buf *out,
                 json_t **ret,
                 struct snp_err *err) SNP_NODISCARD;

/* Run trusted code, whose failure is an error. */
int snp_box_python(struct snp_patch_session *box,
                   const char *code,
                   struct snp_err *err) SNP_NODISCARD;

/* Write a file into the folder. */
int snp_box_put(const struct snp_patch_session *box,
                const char *text,
                size_t n,
                const char *name,
                struct snp_err *err) SNP_NODISCARD;

/* Read a JSON object that trusted code left there. New reference; NULL: missing, or no object. */
json_t *snp_box_get(const struct snp_patch_session *box, const char *name);

#endif
