/* SPDX-License-Identifier: Apache-2.0 */
/* Invariant: a call is among the open ones from its begin until its answer or cancel. */
#include "usertool/program.h"

#include <stdlib.h>
#include <string.h>

#include "base/str.h"

struct program_tool {
    struct snp_program_tools *program;
    char name[SNP_USERTOOL_NAME_MAX + 1];
};

static int tool_begin(void *ctx,
                      struct snp_usercall *call,
                      const json_t *arguments,
                      struct snp_err *err)
{
    const struct program_tool *tool = ctx;
    struct snp_program_tools *program = tool->program;
    snp_autofree char *text = snp_json_text(arguments);
    size_t i = 0;

    while (i < SNP_ARRAY_LEN(program->open) && program->open[i].call != NULL) {
        i++;
    }
    if (text == NULL || i == SNP_ARRAY_LEN(program->open)) {
        return snp_fail(err, SNP_E_LIMIT, "too many calls are open");
    }
    program->open[i].number = ++program->last;
    program->open[i].call = call;
    program->call(program->ctx, program->last, tool->name, text, strlen(text));
    return 0;
}

static void tool_cancel(void *ctx, struct snp_usercall *call)
{
    struct snp_program_tools *program = ((struct program_tool *)ctx)->program;

    for (size_t i = 0; i < SNP_ARRAY_LEN(program->open); i++) {
        if (program->open[i].call == call) {
            program->open[i].call = NULL;
        }
    }
}

bool snp_program_answer(
    struct snp_program_tools *program, uint64_t number, bool ok, const char *bytes, size_t n)
{
    for (size_t i = 0; i < SNP_ARRAY_LEN(program->open); i++) {
        if (program->open[i].call != NULL && program->open[i].number == number) {
            snp_usercall_answer(SNP_TAKE_PTR(program->open[i].call), !ok, n == 0 ? "" : bytes, n);
            return true;
        }
    }
    return false;
}

static int tool_add(struct snp_toolbox *box,
                    const json_t *given,
                    struct snp_program_tools *program,
                    struct snp_err *err)
{
    snp_autojson json_t *nothing =
        json_pack("{s:s, s:{}, s:b}", "type", "object", "properties", "additionalProperties", 0);
    const json_t *parameters = json_object_get(given, "parameters");
    struct program_tool *tool = calloc(1, sizeof(*tool));
    const struct snp_usertool usertool = {
        .name = snp_json_str(given, "name", ""),
        .description = snp_json_str(given, "description", ""),
        .schema = parameters == NULL ? nothing : parameters,
        .manner = SNP_SCHEMA_LENIENT,
        .origin = "program",
        .timeout_ms = (uint64_t)snp_json_int(given, "timeout_ms", 0),
        .begin = tool_begin,
        .cancel = tool_cancel,
        .free = free,
        .ctx = tool,
    };
    int r;

    if (tool == NULL || nothing == NULL) {
        free(tool);
        return snp_fail(err, SNP_E_NOMEM, "out of memory");
    }
    tool->program = program;
    (void)snprintf(tool->name, sizeof(tool->name), "%s", usertool.name);
    r = snp_usertools_add(snp_toolbox_tools(box), &usertool, err);
    if (r < 0) {
        snp_err_about(err, usertool.name);
        free(tool);
    }
    return r;
}

int snp_toolbox_add_program(struct snp_toolbox *box,
                            const json_t *tools,
                            struct snp_program_tools *program,
                            struct snp_err *err)
{
    size_t i;
    json_t *tool;
    int r = 0;

    json_array_foreach((json_t *)(uintptr_t)tools, i, tool)
    {
        r = r < 0 ? r : tool_add(box, tool, program, err);
    }
    return r;
}
