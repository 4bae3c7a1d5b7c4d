/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNP_STANDARD_STANDARD_H
#define SNP_STANDARD_STANDARD_H

/*
 * A team's standards for code: Markdown files of a project (.snipara/standards, AGENTS.md and the
 * like). They are untrusted text of a project: rules are judged by bounded searches, or are
 * commands for a sandbox.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "base/project/ignore.h"
#include "schema/regex.h"

enum {
    SNP_STANDARD_FILE_MAX = 256 << 10, /* bytes; a larger file is left out */
    SNP_STANDARD_FILES_MAX = 200,      /* of all folders; what follows is left out */
    SNP_STANDARD_RULES_MAX = 16,       /* of one file */
    SNP_STANDARD_TAGS_MAX = 16,
    SNP_STANDARD_TITLE_MAX = 200, /* bytes; so is a tag's */
    SNP_STANDARD_RULE_MAX = 500,
};

/* The most binding first. */
enum snp_standard_class {
    SNP_STANDARD_MANDATORY = 0,
    SNP_STANDARD_BEST_PRACTICES,
    SNP_STANDARD_GUIDELINES,
    SNP_STANDARD_REFERENCE,
    SNP_STANDARD_CLASSES,
};

enum snp_rule_kind {
    SNP_RULE_FORBID = 0, /* no line matches */
    SNP_RULE_REQUIRE,    /* a line of each changed file matches, regardless of its old content */
    SNP_RULE_CHECK,      /* a command ends with 0 */
};

struct snp_rule {
    enum snp_rule_kind kind;
    char *text;              /* owned: as written */
    struct snp_regex *regex; /* owned; NULL: of a check, or there is a problem */
    char *problem;           /* owned: why it cannot be judged; NULL = it can */
};

struct snp_standard {
    char *path;       /* owned: from the project; of a collection NAME:FILE */
    char *collection; /* owned: its name; NULL = the project's own */
    char *title;
    enum snp_standard_class class;
    char *tags[SNP_STANDARD_TAGS_MAX]; /* owned */
    size_t n_tags;
    struct snp_ignore *files; /* owned: patterns as in .gitignore; NULL = all files */
    struct snp_rule rules[SNP_STANDARD_RULES_MAX];
    size_t n_rules;
    char *problem; /* owned: the error in its front matter; NULL = none */
    char *text;    /* owned: UTF-8 without the front matter, NUL-terminated */
    uint32_t lines[2];
};

struct snp_standards {
    struct snp_standard *items; /* owned; the most binding first, then as found */
    size_t n;
    size_t n_collections;
    size_t left_out; /* too large, too many, or unreadable */
};

void snp_standards_done(struct snp_standards *standards);
#define snp_autostandards snp_cleanup(snp_standards_done)

/*
 * Read the standards in a project's folder, where links are not followed, and in the user's
 * collections: folders, or links to folders, in shared (NULL = none;
 * snp_users_folder("standards")). SNP_E_NOMEM. SNP_E_DENIED: others may write to shared.
 */
int snp_standards_read(int project_fd,
                       const char *shared,
                       struct snp_standards *ret,
                       struct snp_err *err) SNP_NODISCARD;

/* Whether a path from the project is read as a standard. */
bool snp_standard_is(const char *path);

bool snp_standard_covers(const struct snp_standard *standard, const char *path);

/* Parse one file; fallback: its class if it has none. For the functions above and for fuzzing. */
int snp_standard_parse(const char *text,
                       size_t n,
                       const char *path,
                       enum snp_standard_class fallback,
                       struct snp_standard *ret) SNP_NODISCARD;
void snp_standard_done(struct snp_standard *standard);

/* "MANDATORY"; and back, ignoring case: SNP_STANDARD_CLASSES = none. */
const char *snp_standard_class_name(enum snp_standard_class class);
enum snp_standard_class snp_standard_class_of(const char *text, size_t n);
/* Name of a kind, such as "forbid". */
const char *snp_rule_kind_name(enum snp_rule_kind kind);

/* Judging --------------------------------------------------------------------------------- */

enum {
    SNP_RULE_LINES_MAX = 1000, /* that are compared; a file with more has new ones */
};

enum snp_rule_judged {
    SNP_RULE_HELD = 0,
    SNP_RULE_BROKEN,
    SNP_RULE_BROKEN_BEFORE, /* and not by the change */
    SNP_RULE_UNJUDGED,      /* out of steps */
};

struct snp_rule_text {
    const char *bytes; /* NULL = no such file */
    size_t n;
};

/*
 * Judge a forbid or require rule on a file before and after a change. *ret_line: the first line
 * that breaks it, 0 = the whole file does. steps: as in snp_regex_search(). SNP_E_NOMEM.
 */
int snp_rule_judge(const struct snp_rule *rule,
                   const struct snp_rule_text *before,
                   const struct snp_rule_text *after,
                   uint64_t *steps,
                   enum snp_rule_judged *ret,
                   uint32_t *ret_line) SNP_NODISCARD;

#endif
