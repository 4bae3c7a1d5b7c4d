/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/run/continue.h"

#include "base/buf.h"
#include "base/str.h"
#include "cli/show/remedy.h"

enum {
    OPTIONS_MAX = 256,
};

static const struct row {
    const char *limit;
    const char *option;
    const char *of_agent; /* NULL = the same */
    const char *setting;  /* of a program; NULL = the limit's name */
} rows[] = {
    {"max_iterations", "--max-iterations",               NULL,       NULL                            },
    {"max_depth",      "--max-depth",                    NULL,       NULL                            },
    {"max_subcalls",   "--max-calls",                    NULL,       NULL                            },
    {"token_budget",   "--token-budget",                 "--budget", NULL                            },
    {"cost_limit",     "--cost-limit",                   NULL,       NULL                            },
    {"timeout",        "--timeout",                      NULL,       "timeout_seconds"               },
    {"sub_calls",      "--max-sub-calls",                NULL,       "sub_calls_max_per_turn"        },
    {"sub_cost",       "sub_calls_max_cost_per_session", NULL,       "sub_calls_max_cost_per_session"},
};

/* Who reads it. */
struct reader {
    bool is_agent;
    bool is_caller;
};

static const char *option_of(const struct row *row, const struct reader *reader)
{
    if (reader->is_caller) {
        return row->setting != NULL ? row->setting : row->limit;
    }
    return reader->is_agent && row->of_agent != NULL ? row->of_agent : row->option;
}

/* NULL: no option raises a limit. */
static const char *raise_with(const struct snp_remedy *remedy, const struct reader *reader)
{
    for (size_t i = 0; remedy->kind == SNP_REMEDY_RAISE_LIMIT && remedy->value == 0 &&
                       i < SNP_ARRAY_LEN(rows);
         i++) {
        if (snp_streq(rows[i].limit, remedy->name)) {
            return option_of(&rows[i], reader);
        }
    }
    return NULL;
}

static json_t *resume_with(const json_t *limits, const struct reader *reader)
{
    snp_autobuf struct snp_buf text = {0};
    int r = 0;

    snp_buf_init(&text, OPTIONS_MAX);
    for (size_t i = 0; r == 0 && i < SNP_ARRAY_LEN(rows); i++) {
        const json_t *value = json_object_get(limits, rows[i].limit);

        if (value == NULL) {
            continue;
        }
        r = snp_buf_addf(&text, "%s%s%s", text.len == 0 ? "" : " ", option_of(&rows[i], reader),
                         reader->is_caller ? "=" : " ");
        if (r == 0) {
            r = json_is_real(value) ? snp_buf_addf(&text, "%.2f", json_real_value(value))
                : json_is_null(value)
                    ? snp_buf_adds(&text, "none")
                    : snp_buf_addf(&text, "%lld", (long long)json_integer_value(value));
        }
    }
    return r < 0 || text.len == 0 ? json_null() : json_string(snp_buf_cstr(&text));
}

void snp_run_way_out(json_t *result, bool is_agent, bool is_caller)
{
    const struct reader reader = {is_agent, is_caller};
    const char *error = snp_json_str(result, "error", NULL);
    const char *option;
    struct snp_err err;

    (void)snp_fail(&err, SNP_E_LIMIT, "%s", error == NULL ? "" : error);
    snp_err_about(&err, snp_json_str(result, "session", ""));
    snp_json_to_remedy(json_object_get(result, "remedy"), &err.remedy);
    option = raise_with(&err.remedy, &reader);
    if (error != NULL && !is_caller) {
        (void)json_object_set_new(
            result, "error",
            option == NULL ? snp_cli_remedy_text(&err)
                           : json_sprintf("%s; %s raises the limit", err.msg, option));
    }
    (void)json_object_set_new(result, "raise_with",
                              option == NULL ? json_null() : json_string(option));
    (void)json_object_set_new(result, "resume_with",
                              resume_with(json_object_get(result, "resume_with"), &reader));
}
