/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNP_USERTOOL_TOOLBOX_H
#define SNP_USERTOOL_TOOLBOX_H

/*
 * A user's tools for runs: commands and MCP servers, from configuration. They run outside the
 * sandbox with the user's rights, so a toolbox may only be filled at the user's request, never
 * because of a file in some folder.
 */

#include <uv.h>

#include "base/err.h"
#include "base/json.h"
#include "run/tool/usertool.h"

enum {
    SNP_TOOLBOX_COMMANDS_MAX = 64,
    SNP_TOOLBOX_SERVERS_MAX = 16,
};

struct snp_toolbox;

/* *ret is the caller's: snp_toolbox_close(). loop: borrowed, outlives it. */
int snp_toolbox_new(uv_loop_t *loop, struct snp_toolbox **ret, struct snp_err *err) SNP_NODISCARD;

/*
 * {NAME: {"command", "description", "schema", ...}}, as docs/reference/tools.md has it; paths in it
 * are relative to file's folder.
 */
int snp_toolbox_add_commands(struct snp_toolbox *box,
                             const json_t *commands,
                             const char *file,
                             struct snp_err *err) SNP_NODISCARD;
/* {NAME: {"command", "args", "env"} or {"url", "headers"}}. Starts them. */
int snp_toolbox_add_servers(struct snp_toolbox *box,
                            const json_t *servers,
                            const char *file,
                            struct snp_err *err) SNP_NODISCARD;

/*
 * Tools that look things up in the index of a project: they change nothing, so they need no
 * permission. program: the path of this program.
 */
int snp_toolbox_add_context(struct snp_toolbox *box,
                            const char *program,
                            const char *project,
                            struct snp_err *err) SNP_NODISCARD;

/*
 * Wait until all servers have listed their tools. opened: called once, from the loop; err: one of
 * them, by name, cannot be used. Not after snp_toolbox_close.
 */
void snp_toolbox_open(struct snp_toolbox *box,
                      void (*opened)(void *ctx, const struct snp_err *err),
                      void *ctx);

/* Borrowed. */
struct snp_usertools *snp_toolbox_tools(const struct snp_toolbox *box);
/* Clean texts on tools of servers that were left out. Borrowed. */
const json_t *snp_toolbox_notes(const struct snp_toolbox *box);

/*
 * End all of them; no call may be open. closed (may be NULL) comes from the loop when nothing is
 * left, and the box is freed.
 */
void snp_toolbox_close(struct snp_toolbox *box, void (*closed)(void *ctx), void *ctx);

#endif
