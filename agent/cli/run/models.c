/* SPDX-License-Identifier: Apache-2.0 */

/* `models`: available models, their keys and prices; and whether one answers. */

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cli/human.h"
#include "base/cli/term.h"
#include "base/clock.h"
#include "base/str.h"
#include "main/verbs.h"
#include "model/model.h"

enum {
    PROVIDERS_MAX = 32,
    PRICE_LEN = 48,
    CHECK_SECONDS = 60,
    CHECK_TOKENS = 256, /* reasoning may precede the answer */
    US_PER_S = 1000000,
    US_PER_MS = 1000,
};

static const struct snp_opt options[] = {
    {"check", 0, SNP_OPT_FLAG, NULL, "send the model a short test prompt", 0},
    {"all", 'a', SNP_OPT_FLAG, NULL, "show providers without a key too", 0},
    {"backend", 'b', SNP_OPT_STRING, "NAME",
     "litellm (by the model's name), openai, anthropic, gemini or replay", SNP_KEY_BACKEND},
    {"base-url", 0, SNP_OPT_STRING, "URL", "address of the model's API", SNP_KEY_BASE_URL},
    SNP_CLI_OPT_CONFIG,
    SNP_CLI_OPT_JSON,
};

static const struct snp_opt_arg args[] = {
    {"MODEL", "the model to show (default: the configured one)", 0, 1},
};

/* The state of one provider. */
struct provider_state {
    struct snp_model_choice choice;
    struct snp_err err; /* code SNP_OK = it can be asked */
};

/* A check under way. */
struct provider_check {
    uv_loop_t loop;
    bool is_ok;
    json_t *answer; /* owned */
    struct snp_err err;
};

static const char *price_text(const struct snp_model_choice *choice, char out[PRICE_LEN])
{
    if (choice->is_priced) {
        (void)snprintf(out, PRICE_LEN, "$%g / $%g", choice->input_usd, choice->output_usd);
    } else {
        (void)snprintf(out, PRICE_LEN, "unknown");
    }
    return out;
}

/* JSON ------------------------------------------------------------------------------------ */

static json_t *choice_to_json(const struct provider_state *known)
{
    const struct snp_model_choice *choice = &known->choice;
    bool is_ready = known->err.code == SNP_OK;

    return json_pack("{s:s, s:s, s:s, s:o, s:b, s:o, s:o, s:o}", "provider", choice->provider,
                     "model", choice->model, "base_url", choice->base_url, "key_from",
                     choice->key_from[0] == '\0' ? json_null() : json_string(choice->key_from),
                     "ready", is_ready, "input_usd_per_million",
                     choice->is_priced ? json_real(choice->input_usd) : json_null(),
                     "output_usd_per_million",
                     choice->is_priced ? json_real(choice->output_usd) : json_null(), "problem",
                     is_ready ? json_null() : json_string(known->err.msg));
}

static int print_json(const struct snp_models *models,
                      const struct provider_state *configured,
                      const struct provider_state *all,
                      size_t n,
                      json_t *check)
{
    snp_autojson json_t *list = json_array();

    for (size_t i = 0; i < n; i++) {
        (void)json_array_append_new(list, choice_to_json(&all[i]));
    }
    snp_autojson json_t *root =
        json_pack("{s:o, s:O, s:s, s:O*}", "model", choice_to_json(configured), "providers", list,
                  "prices_of", snp_model_price_date(models), "check", check);
    return snp_cli_print_json(root);
}

/* Text ------------------------------------------------------------------------------------ */

static void print_configured(const struct provider_state *known)
{
    const struct snp_model_choice *choice = &known->choice;
    char price[PRICE_LEN];

    snp_term_printf(stdout, "Model     %s\n", choice->model);
    snp_term_printf(stdout, "Provider  %s%s%s\n", choice->provider,
                    choice->base_url[0] == '\0' ? "" : " at ", choice->base_url);
    snp_term_printf(stdout, "Key       %s\n",
                    choice->key_from[0] != '\0' ? choice->key_from : "none");
    printf("Price     %s%s\n", price_text(choice, price),
           choice->is_priced ? " per million tokens in / out" : "");
    if (known->err.code != SNP_OK) {
        snp_term_printf(stdout, "Missing   %s\n", known->err.msg);
    }
}

static void print_providers(const struct provider_state *all, size_t n, bool want_all)
{
    static const char *const heads[] = {"Provider", "Default model", "Key", "In / out per M",
                                        "Ready"};
    struct snp_table table = SNP_TABLE(heads);
    char price[PRICE_LEN];

    for (size_t i = 0; i < n; i++) {
        const struct snp_model_choice *choice = &all[i].choice;
        bool has_key = choice->key_from[0] != '\0';

        if (want_all || has_key) {
            snp_table_add(&table, choice->provider);
            snp_table_add(&table, choice->model[0] == '\0' ? "-" : choice->model);
            snp_table_add(&table, has_key ? choice->key_from : "-");
            snp_table_add(&table, price_text(choice, price));
            snp_table_add(&table, all[i].err.code == SNP_OK ? "yes" : "no");
        }
    }
    if (table.n_cells > 0) {
        printf("\n");
        snp_table_print(stdout, &table, "");
    }
}

/* Asking ---------------------------------------------------------------------------------- */

static void on_done(void *ctx, const struct snp_model_answer *answer)
{
    struct provider_check *check = ctx;

    check->is_ok = answer->is_ok;
    check->err = answer->err;
    check->answer = snp_model_answer_to_json(answer);
}

static int ask(struct provider_check *check,
               struct snp_models *models,
               const char *model,
               struct snp_err *err)
{
    snp_autojson json_t *messages =
        json_pack("[{s:s, s:s}]", "role", "user", "content", "Reply with the single word: ok");
    struct snp_model_request request = {
        .model = model,
        .messages = messages,
        .temperature = -1,
        .max_tokens = CHECK_TOKENS,
        .deadline_us = snp_now_us() + (uint64_t)CHECK_SECONDS * US_PER_S,
        .max_tries = 1,
        .label = "check",
        .on_done = on_done,
        .ctx = check,
    };
    struct snp_model_call *call = NULL;

    int r = snp_model_ask(models, &request, &call, err);
    while (r == 0 && check->answer == NULL) {
        (void)uv_run(&check->loop, UV_RUN_ONCE);
    }
    return r;
}

static void print_check(const struct provider_check *check)
{
    const json_t *usage = json_object_get(check->answer, "usage");
    const json_t *cost = json_object_get(check->answer, "cost_usd");

    if (!check->is_ok) {
        return;
    }
    printf("\nAnswered in %s: %" PRId64 " tokens in, %" PRId64 " out",
           snp_human_span((uint64_t)snp_json_int(check->answer, "duration_ms", 0) * US_PER_MS).text,
           snp_json_int(usage, "input", 0), snp_json_int(usage, "output", 0));
    if (json_is_number(cost)) {
        printf(", $%.6f", json_number_value(cost));
    }
    printf("\n");
}

/* ----------------------------------------------------------------------------------------- */

static size_t list_all(struct snp_models *models, struct provider_state *all)
{
    size_t n = 0;

    while (n < PROVIDERS_MAX && snp_model_list(models, n, &all[n].choice, &all[n].err)) {
        n++;
    }
    return n;
}

/* An unavailable model is a valid result, not a usage error. */
static int check_fail(struct snp_cli *cli, const struct snp_err *err)
{
    (void)snp_cli_fail(cli, err);
    return SNP_EXIT_FAILED;
}

static int show(struct snp_cli *cli,
                const struct snp_opts *opts,
                struct provider_check *check,
                struct snp_models *models)
{
    static struct provider_state all[PROVIDERS_MAX];
    const char *model = snp_opts_arg(opts, 0);
    bool want_check = snp_opts_flag(opts, "check", false);
    struct provider_state configured = {0};
    struct snp_err err;
    int r = snp_model_choose(models, model, &configured.choice, &configured.err);
    size_t n = list_all(models, all);

    configured.err.code = r == 0 ? SNP_OK : configured.err.code;
    if (want_check && r == 0 && ask(check, models, model, &err) < 0) {
        return check_fail(cli, &err);
    }
    if (cli->is_json) {
        int status = print_json(models, &configured, all, n, check->answer);
        return status != 0 || !want_check || check->is_ok ? status : SNP_EXIT_FAILED;
    }
    print_configured(&configured);
    print_providers(all, n, snp_opts_flag(opts, "all", false));
    if (want_check) {
        print_check(check);
    }
    if (want_check && !check->is_ok) {
        return check_fail(cli, r == 0 ? &check->err : &configured.err);
    }
    return SNP_EXIT_OK;
}

static int run(struct snp_cli *cli, const struct snp_opts *opts)
{
    const struct snp_config *config = NULL;
    struct snp_models *models = NULL;
    struct provider_check check = {0};
    struct snp_err err;
    int r = snp_cli_config(cli, opts, &config, &err);

    if (r < 0) {
        return snp_cli_fail(cli, &err);
    }
    if (uv_loop_init(&check.loop) < 0) {
        (void)snp_fail(&err, SNP_E_SYS, "no event loop");
        return snp_cli_fail(cli, &err);
    }
    r = snp_models_new(&check.loop, config, &models, &err);
    int status = r < 0 ? snp_cli_fail(cli, &err) : show(cli, opts, &check, models);
    snp_models_free(models);
    (void)uv_run(&check.loop, UV_RUN_DEFAULT);
    (void)uv_loop_close(&check.loop);
    json_decref(check.answer);
    return status;
}

const struct snp_verb snp_verb_models = {
    .name = "models",
    .summary = "list models that can be used, and their prices",
    .description = "Show the configured model: its provider, address, key and price, and missing "
                   "settings. Below it are the providers that have a key. Keys are never shown.",
    .spec = SNP_SPEC(options, args),
    .asks_models = true,
    .examples = "models\n"
                "models --check\n"
                "models claude-sonnet-4-5 --check\n"
                "models --all --json",
    .exit_codes = "0  shown; with --check: it answered\n"
                  "1  with --check: it did not answer, or something is missing\n"
                  "2  usage error",
    .run = run,
};
