/* SPDX-License-Identifier: Apache-2.0 */
#include "base/cli/suite.h"

#include <stdlib.h>
#include <string.h>

#include "base/cli/need.h"
#include "base/config/config.h"
#include "base/json.h"
#include "base/rundir.h"
#include "base/str.h"

static const struct snp_verb *const no_verbs[] = {NULL};

/* ---- writing ---- */

static json_t *options_json(const struct snp_opt_spec *spec)
{
    json_t *list = snp_need(json_array());

    for (size_t i = 0; i < spec->n_options; i++) {
        const struct snp_opt *opt = &spec->options[i];
        const char letter[] = {opt->short_name, '\0'};
        const char *key =
            opt->key == SNP_KEY_NONE ? NULL : snp_config_info((enum snp_config_key)opt->key)->name;

        (void)json_array_append_new(
            list, snp_need(json_pack("{s:s, s:s, s:i, s:s?, s:s, s:s?}", "name", opt->name,
                                     "short_name", letter, "type", (int)opt->type, "metavar",
                                     opt->metavar, "help", opt->help, "key", key)));
    }
    return list;
}

static json_t *args_json(const struct snp_opt_spec *spec)
{
    json_t *list = snp_need(json_array());

    for (size_t i = 0; i < spec->n_args; i++) {
        const struct snp_opt_arg *arg = &spec->args[i];

        (void)json_array_append_new(
            list, snp_need(json_pack("{s:s, s:s, s:i, s:i}", "name", arg->name, "help", arg->help,
                                     "min", (int)arg->min, "max", (int)arg->max)));
    }
    return list;
}

static json_t *verbs_json(const struct snp_verb *const *verbs)
{
    json_t *list = snp_need(json_array());

    for (; verbs != NULL && *verbs != NULL; verbs++) {
        const struct snp_verb *verb = *verbs;

        (void)json_array_append_new(
            list, snp_need(json_pack("{s:s, s:s, s:s?, s:s?, s:s?, s:s?, s:o, s:o, s:o}", "name",
                                     verb->name, "summary", verb->summary, "description",
                                     verb->description, "examples", verb->examples, "exit_codes",
                                     verb->exit_codes, "program", verb->program, "options",
                                     options_json(&verb->spec), "args", args_json(&verb->spec),
                                     "verbs", verbs_json(verb->verbs))));
    }
    return list;
}

int snp_suite_print(const struct snp_verb *const *verbs)
{
    snp_autojson json_t *tables =
        snp_need(json_pack("{s:s, s:o}", "version", SNP_VERSION, "verbs", verbs_json(verbs)));

    return json_dumpf(tables, stdout, JSON_COMPACT) < 0 ? SNP_EXIT_FAILED : SNP_EXIT_OK;
}

/* ---- reading; texts are borrowed from the JSON, which is never freed ---- */

static const char *text_of(const json_t *row, const char *name)
{
    return json_string_value(json_object_get(row, name));
}

static struct snp_opt_spec read_spec(const json_t *row)
{
    const json_t *options = json_object_get(row, "options");
    const json_t *args = json_object_get(row, "args");
    struct snp_opt *opts = snp_need(calloc(json_array_size(options) + 1, sizeof(*opts)));
    struct snp_opt_arg *words = snp_need(calloc(json_array_size(args) + 1, sizeof(*words)));
    size_t i;
    json_t *item;

    json_array_foreach(options, i, item)
    {
        const char *key = text_of(item, "key");

        opts[i] = (struct snp_opt){
            .name = snp_json_str(item, "name", ""),
            .short_name = snp_json_str(item, "short_name", "")[0],
            .type = (enum snp_opt_type)snp_json_int(item, "type", SNP_OPT_FLAG),
            .metavar = text_of(item, "metavar"),
            .help = snp_json_str(item, "help", ""),
            .key = key == NULL ? SNP_KEY_NONE : (int)snp_config_key_from_name(key),
        };
    }
    json_array_foreach(args, i, item)
    {
        words[i] = (struct snp_opt_arg){
            .name = snp_json_str(item, "name", ""),
            .help = snp_json_str(item, "help", ""),
            .min = (unsigned)snp_json_int(item, "min", 0),
            .max = (unsigned)snp_json_int(item, "max", 0),
        };
    }
    return (struct snp_opt_spec){
        .options = opts,
        .n_options = json_array_size(options),
        .args = words,
        .n_args = json_array_size(args),
    };
}

static const struct snp_verb *const *read_verbs(const json_t *list)
{
    size_t n = json_array_size(list);
    struct snp_verb *verbs = snp_need(calloc(n + 1, sizeof(*verbs)));
    const struct snp_verb **ret =
        snp_need(calloc(n + 1, sizeof(*ret))); /* NOLINT(bugprone-sizeof-expression) */
    size_t i;
    json_t *row;

    json_array_foreach(list, i, row)
    {
        const json_t *below = json_object_get(row, "verbs");

        verbs[i] = (struct snp_verb){
            .name = snp_json_str(row, "name", ""),
            .summary = snp_json_str(row, "summary", ""),
            .description = text_of(row, "description"),
            .examples = text_of(row, "examples"),
            .exit_codes = text_of(row, "exit_codes"),
            .program = snp_json_str(row, "program", "agent"),
            .spec = read_spec(row),
            .verbs = json_array_size(below) == 0 ? NULL : read_verbs(below),
        };
        ret[i] = &verbs[i];
    }
    return ret;
}

const struct snp_verb *const *snp_suite_verbs(void)
{
    static const struct snp_verb *const *verbs;
    static json_t *tables; /* the verbs borrow from it */
    snp_autofree char *program = NULL;
    struct snp_err ignored;

    if (verbs != NULL) {
        return verbs;
    }
    verbs = no_verbs;
    if (snp_own_program("agent", &program, &ignored) == 0) {
        snp_autofree char *path = snp_need_format("%s.json", program);

        tables = json_load_file(path, 0, NULL);
        if (snp_streq(snp_json_str(tables, "version", ""), SNP_VERSION)) {
            verbs = read_verbs(json_object_get(tables, "verbs"));
        }
    }
    return verbs;
}
