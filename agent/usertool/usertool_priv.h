/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNP_USERTOOL_USERTOOL_PRIV_H
#define SNP_USERTOOL_USERTOOL_PRIV_H

/* Shared declarations of the parts of a toolbox. */

#include "usertool/toolbox.h"

enum {
    SNP_TOOLBOX_ARGS_MAX = 256,
    SNP_TOOLBOX_ENV_MAX = 128,
    SNP_TOOLBOX_HEADERS_MAX = 32,
};

/* Texts for a program or a server; NULL-terminated, all owned. */
struct snp_toolbox_texts {
    char **items;
    size_t n;
};
void snp_toolbox_texts_done(struct snp_toolbox_texts *texts);

/* Count a running program or server until it is gone. */
void snp_toolbox_hold(struct snp_toolbox *box);
void snp_toolbox_release(struct snp_toolbox *box);
uv_loop_t *snp_toolbox_loop(const struct snp_toolbox *box);

/* Count a further command. SNP_E_LIMIT. */
int snp_toolbox_commands_count(struct snp_toolbox *box, struct snp_err *err) SNP_NODISCARD;
/* Room for one more server. */
bool snp_toolbox_has_room(const struct snp_toolbox *box);

/* Commands ------------------------------------------------------------------------------------ */

struct snp_toolbox_command {
    const char *name;
    const char *description;
    const json_t *schema;
    struct snp_toolbox_texts argv; /* consumed */
    struct snp_toolbox_texts env;  /* consumed; "NAME=value" */
    char *cwd;                     /* consumed; NULL = this process's */
    uint64_t timeout_ms;           /* 0 = the usual */
    bool is_ours;                  /* as in struct snp_usertool */
};

/* Add a command as a tool. Its members are consumed, also on failure. */
int snp_toolbox_command_add(struct snp_toolbox *box,
                            struct snp_toolbox_command *spec,
                            struct snp_err *err) SNP_NODISCARD;

/* Servers ------------------------------------------------------------------------------------- */

struct snp_toolbox_server {
    const char *name;
    struct snp_toolbox_texts argv; /* consumed; none: url is there */
    struct snp_toolbox_texts env;
    char *cwd;                        /* consumed; NULL = this process's */
    char *url;                        /* consumed */
    struct snp_toolbox_texts headers; /* "Name: value" */
    const json_t *wanted;             /* names of its tools; NULL = all. Borrowed */
    json_t *pins;                     /* consumed; NULL = none */
    uint64_t timeout_ms;              /* of a call; 0 = the usual */
};

struct snp_usertool_server;

/* Begin to open it, and keep it until the end. Consumed as above. */
int snp_toolbox_server_start(struct snp_toolbox *box,
                             struct snp_toolbox_server *spec,
                             struct snp_err *err) SNP_NODISCARD;

/*
 * The same for toolbox.c: the tools are added when it has listed them. *ret: to be closed, also on
 * failure, if it is not NULL.
 */
int snp_toolbox_server_add(struct snp_toolbox *box,
                           struct snp_toolbox_server *spec,
                           struct snp_usertool_server **ret,
                           struct snp_err *err) SNP_NODISCARD;
void snp_toolbox_server_close(struct snp_usertool_server *server);

/* A server has listed its tools, or cannot be used. */
void snp_toolbox_server_opened(struct snp_toolbox *box, const struct snp_err *err);
/* A note on a tool that was left out; cleaned here. */
void snp_toolbox_note(struct snp_toolbox *box, const char *server, const char *text);

#endif
