/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNP_BASE_REGISTRY_PYTHON_H
#define SNP_BASE_REGISTRY_PYTHON_H

/*
 * The interpreter of a template, and the parts of it shown inside. Found by reading files only: no
 * program named by a project or a record is run here.
 */

#include <stdbool.h>

#include "base/err.h"
#include "base/json.h"

#define SNP_PYTHON_SITE         "/run/venv"        /* a template's packages inside */
#define SNP_PYTHON_PROJECT_SITE "/workspace/.venv" /* a project's packages inside */

enum {
    SNP_PYTHON_MINOR_MIN = 8 /* 3.8 is the oldest for templates */
};

/* All texts are owned; NULL = none. */
struct snp_python {
    char *name;    /* of the template: as requested, or "venv" for a project's .venv */
    char *exe;     /* the program, on the host and inside */
    char *prefix;  /* shown read-only at the same path; NULL: it is below /usr */
    char *venv;    /* folder of packages, shown read-only at SNP_PYTHON_SITE */
    char *site;    /* the virtual environment as a path inside */
    char *alias;   /* path inside that links to site, for scripts that begin with it */
    char *hash;    /* of the content of venv, and ... */
    bool is_ours;  /* ... whether with bytecode: only our folders, which we alone write */
    char *preload; /* modules, with commas */
    char *rootfs;  /* folder used instead of the host's files; exe is then a path in it */
    char *id;      /* identity of the folder rootfs: differs for another one at the same path */
    char *note;    /* the project has a .venv that is not used: the reason */
};

void snp_python_done(struct snp_python *python);

/* Copy into *ret, which is overwritten; -1 when out of memory, then it is empty. */
int snp_python_copy(const struct snp_python *python, struct snp_python *ret) SNP_NODISCARD;

/* A template of a can serve b; the note is not compared. */
bool snp_python_equal(const struct snp_python *a, const struct snp_python *b);

/*
 * Resolve a program's path: *ret_exe without links, *ret_prefix its installation folder, NULL below
 * /usr; *ret_minor of 3.x. home: the user's, resolved, or NULL. SNP_E_UNSUPPORTED: no CPython of
 * 3.8 or later; SNP_E_DENIED: its folder may not be shown.
 */
int snp_python_locate(const char *path,
                      const char *home,
                      char **ret_exe,
                      char **ret_prefix,
                      int *ret_minor,
                      struct snp_err *err) SNP_NODISCARD;

/* A request for a template. */
struct snp_python_query {
    const char *name;           /* NULL: the project's .venv, else base */
    const char *project;        /* NULL = none */
    const char *rootfs;         /* NULL = the host's files */
    const char *state_dir;      /* with the records */
    const char *default_python; /* program of the built-in templates */
    const char *home;           /* resolved; NULL = none */
};

/*
 * Fill ret. A project's .venv that cannot be used is no error: then ret is base, with a note.
 * SNP_E_NOT_FOUND: no such template; SNP_E_INVALID, SNP_E_UNSUPPORTED, SNP_E_DENIED as above.
 */
int snp_python_find(const struct snp_python_query *query,
                    struct snp_python *ret,
                    struct snp_err *err) SNP_NODISCARD;

#endif
