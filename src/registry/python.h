/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNP_REGISTRY_PYTHON_H
#define SNP_REGISTRY_PYTHON_H

/*
 * Which interpreter a template runs and what of it is shown inside. Found by looking at
 * files only: nothing that a project or a record names is run here.
 */

#include <stdbool.h>

#include "base/err.h"
#include "base/json.h"

#define SNP_PYTHON_SITE         "/run/venv"        /* where a template's packages are inside */
#define SNP_PYTHON_PROJECT_SITE "/workspace/.venv" /* where a project's are */

enum {
    SNP_PYTHON_MINOR_MIN = 8 /* 3.8 is the oldest that can be a template */
};

/* All texts are owned; NULL = none. */
struct snp_python {
    char *name;    /* of the template: as asked for, or "venv" for a project's own */
    char *exe;     /* the program, on the host and inside */
    char *prefix;  /* shown read-only at the same path; NULL: it is below /usr */
    char *venv;    /* folder of packages, shown read-only at SNP_PYTHON_SITE */
    char *site;    /* the virtual environment as a path inside */
    char *alias;   /* path that is a link to site inside, for scripts that begin with it */
    char *hash;    /* what venv must contain, and ... */
    bool is_ours;  /* ... whether bytecode counts: we made it, so nobody else writes it */
    char *preload; /* modules, with commas */
    char *rootfs;  /* folder seen instead of the host's files; exe is then a path in it */
    char *id;      /* of the folder rootfs: another one at the same path has another */
    char *note;    /* the project has a .venv that is not used: why */
};

void snp_python_done(struct snp_python *python);

/* Into *ret, which is overwritten; -1 without memory, then it is empty. */
int snp_python_copy(const struct snp_python *python, struct snp_python *ret) SNP_NODISCARD;

/* Whether a template of a serves b; the note says nothing of it. */
bool snp_python_equal(const struct snp_python *a, const struct snp_python *b);

/*
 * Resolve a program's path: *ret_exe without links, *ret_prefix the folder it was installed
 * into, NULL below /usr; *ret_minor of 3.x. home: of the user, resolved, or NULL.
 * SNP_E_UNSUPPORTED: no CPython of 3.8 or later; SNP_E_DENIED: its folder may not be shown.
 */
int snp_python_locate(const char *path,
                      const char *home,
                      char **ret_exe,
                      char **ret_prefix,
                      int *ret_minor,
                      struct snp_err *err) SNP_NODISCARD;

/* One who asks for a template. */
struct snp_python_query {
    const char *name;           /* NULL: the project's own, else base */
    const char *project;        /* NULL = none */
    const char *rootfs;         /* NULL = the host's files */
    const char *state_dir;      /* with the records */
    const char *default_python; /* program of the built-in templates */
    const char *home;           /* resolved; NULL = none */
};

/*
 * Fill ret. A project's .venv that cannot be used is no error: ret is base then, with a
 * note. SNP_E_NOT_FOUND: no such template; SNP_E_INVALID, SNP_E_UNSUPPORTED, SNP_E_DENIED as above.
 */
int snp_python_find(const struct snp_python_query *query,
                    struct snp_python *ret,
                    struct snp_err *err) SNP_NODISCARD;

#endif
