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
} rows[] = {
    {"max_iterations", "--max-iterations",               NULL      },
    {"max_depth",      "--max-depth",                    NULL      },
    {"max_subcalls",   "--max-calls",                    NULL      },
    {"token_budget",   "--token-budget",                 "--budget"},
    {"cost_limit",     "--cost-limit",                   NULL      },
    {"timeout",        "--timeout",                      NULL      },
    {"sub_calls",      "--max-sub-calls",                NULL      },
    {"sub_cost",       "sub_calls_max_cost_per_session", NULL      },
};

static const char *option_of(const struct row *row, bool is_agent)
{
    return is_agent && row->of_agent != NULL ? row->of_agent : row->option;
}

/* NULL: no option raises a limit. */
static const char *raise_with(const struct snp_remedy *remedy, bool is_agent)
{
    for (size_t i = 0; remedy->kind == SNP_REMEDY_RAISE_LIMIT && remedy->value == 0 &&
                       i < SNP_ARRAY_LEN(rows);
         i++) {
        if (snp_streq(rows[i].limit, remedy->name)) {
            return option_of(&rows[i], is_agent);
        }
    }
    return NULL;
}

static json_t *resume_with(const json_t *limits, bool is_agent)
{
    snp_autobuf struct snp_buf text = {0};
    int r = 0;

    snp_buf_init(&text, OPTIONS_MAX);
    for (size_t i = 0; r == 0 && i < SNP_ARRAY_LEN(rows); i++) {
        const json_t *value = json_object_get(limits, rows[i].limit);

        if (value == NULL) {
            continue;
        }
        r = snp_buf_addf(&text, "%s%s ", text.len == 0 ? "" : " ",
                         option_of(&rows[i], is_agent));
        if (r == 0) {
            r = json_is_real(value) ? snp_buf_addf(&text, "%.2f", json_real_value(value))
                : json_is_null(value)
                    ? snp_buf_adds(&text, "none")
                    : snp_buf_addf(&text, "%lld", (long long)json_integer_value(value));
        }
    }
    return r < 0 || text.len == 0 ? json_null() : json_string(snp_buf_cstr(&text));
}

void snp_run_way_out(json_t *result, bool is_agent)
{
    const char *error = snp_json_str(result, "error", NULL);
    const char *option;
    struct snp_err err;

    (void)snp_fail(&err, SNP_E_LIMIT, "%s", error == NULL ? "" : error);
    snp_err_about(&err, snp_json_str(result, "session", ""));
    snp_json_to_remedy(json_object_get(result, "remedy"), &err.remedy);
    option = raise_with(&err.remedy, is_agent);
    if (error != NULL) {
        (void)json_object_set_new(
            result, "error",
            option == NULL ? snp_cli_remedy_text(&err)
                           : json_sprintf("%s; %s raises the limit", err.msg, option));
    }
    (void)json_object_set_new(result, "raise_with",
                              option == NULL ? json_null() : json_string(option));
    (void)json_object_set_new(result, "resume_with",
                              resume_with(json_object_get(result, "resume_with"), is_agent));
}
