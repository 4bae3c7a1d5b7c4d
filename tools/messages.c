/* SPDX-License-Identifier: Apache-2.0 */
/*
 * messages-print PART: the tables of docs/wire.md and docs/result.md as Markdown. PART is client,
 * tier, error, result, events, run or run_events; or typescript, the types of the client protocol,
 * limits or hints, for bindings/typescript. tools/messages writes them into the files.
 */
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "base/policy/limits.h"
#include "base/text/hint.h"
#include "base/wire/exec.h"
#include "base/wire/methods.h"
#include "base/wire/result.h"
#include "base/wire/run.h"
#include "wire/tier.h"

enum {
    MEMBER_MAX = 128,
    SHOWN_MAX = 64,
};

static const char *const source_text[SNP_SOURCES] = {
    "", [SNP_ATTESTED] = "attested; ", [SNP_CLAIMED] = "claimed; ", [SNP_BY_END] = ""};

/* Forms that have been printed: the second time their name will do. */
struct shown {
    const struct snp_record *forms[SHOWN_MAX];
    size_t n;
};

static bool shown_before(struct shown *shown, const struct snp_record *form)
{
    for (size_t i = 0; i < shown->n; i++) {
        if (shown->forms[i] == form) {
            return true;
        }
    }
    if (shown->n < SHOWN_MAX) {
        shown->forms[shown->n++] = form;
    }
    return false;
}

/* Its text has all of them already. */
static bool words_are_told(const struct snp_field *field)
{
    for (size_t i = 0; field->words != NULL && field->words[i] != NULL; i++) {
        char quoted[SHOWN_MAX];

        (void)snprintf(quoted, sizeof(quoted), "`%s`", field->words[i]);
        if (strstr(field->text, quoted) == NULL) {
            return false;
        }
    }
    return true;
}

static void type_print(FILE *out, const struct snp_field *field)
{
    static const struct {
        unsigned type;
        const char *text;
    } names[] = {
        {SNP_T_STR | SNP_T_TEXT, "string"},
        {SNP_T_REAL, "number"},
        {SNP_T_INT, "int"},
        {SNP_T_BOOL, "bool"},
        {SNP_T_OBJ, "object"},
    };
    const char *name = (field->types & SNP_T_STRS) != 0  ? "[string]"
                       : (field->types & SNP_T_ARR) != 0 ? "array"
                                                         : NULL;

    for (size_t i = 0; name == NULL && i < SNP_ARRAY_LEN(names); i++) {
        name = (field->types & names[i].type) != 0 ? names[i].text : NULL;
    }
    (void)fprintf(out, "%s%s%s", name, (field->types & SNP_T_NULL) != 0 ? " or null" : "",
                  (field->types & SNP_T_OPT) == 0 ? ""
                  : field->held == SNP_HELD_YES   ? ", optional (true)"
                                                  : ", optional");
    if (field->max != 0) {
        (void)fprintf(out, ", at most %llu%s", (unsigned long long)field->max,
                      (field->types & (SNP_T_STR | SNP_T_TEXT)) != 0 ? " bytes" : "");
    }
}

static void rows_print(FILE *out,
                       const struct snp_record *form,
                       const char *before,
                       struct shown *shown)
{
    for (size_t i = 0; i < form->n_fields; i++) {
        const struct snp_field *field = &form->fields[i];
        bool is_known = field->of != NULL && shown_before(shown, field->of);
        char inside[MEMBER_MAX];

        (void)fprintf(out, "| %s`%s` | ", before, field->name);
        type_print(out, field);
        (void)fprintf(out, " | %s%s", source_text[field->source], field->text);
        for (size_t j = 0; !words_are_told(field) && field->words[j] != NULL; j++) {
            (void)fprintf(out, "%s`%s`", j == 0 ? (field->text[0] == '\0' ? "" : ": ") : ", ",
                          field->words[j]);
        }
        (void)fprintf(out, "%s |\n", is_known ? "; members as above" : "");
        if (field->of != NULL && !is_known) {
            (void)snprintf(inside, sizeof(inside), "%s`%s%s` ", before, field->name,
                           (field->types & SNP_T_ARR) != 0 ? "[]" : "");
            rows_print(out, field->of, inside, shown);
        }
    }
}

static void head_print(FILE *out)
{
    (void)fputs("| member | type | meaning |\n|---|---|---|\n", out);
}

static void method_print(FILE *out, const struct snp_method_form *method, struct shown *shown)
{
    size_t n_answer = method->answer == NULL ? 0 : method->answer->n_fields;

    (void)fprintf(out, "\n#### %s\n\n%s\n", method->request->what, method->text);
    if (method->request->n_fields + n_answer == 0) {
        return;
    }
    (void)fputc('\n', out);
    head_print(out);
    rows_print(out, method->request, "", shown);
    if (n_answer > 0) {
        rows_print(out, method->answer, "answer ", shown);
    }
}

/* `taken` and `gone` come from tiers only. */
static const struct snp_record *const exec_events[] = {
    &snp_event_waiting_form, &snp_event_stdout_form,  &snp_event_stderr_form,
    &snp_event_gap_form,     &snp_event_display_form, &snp_event_call_form,
    &snp_event_taken_form,   &snp_event_gone_form,    NULL};
static const struct snp_record *const run_events[] = {&snp_event_begun_form,
                                                      &snp_event_record_form,
                                                      &snp_event_text_form,
                                                      &snp_event_note_form,
                                                      &snp_event_tool_form,
                                                      &snp_event_result_form,
                                                      NULL};

static void events_print(FILE *out, const struct snp_record *const *events)
{
    struct shown shown = {.n = 0};

    head_print(out);
    for (size_t i = 0; events[i] != NULL; i++) {
        char before[MEMBER_MAX];

        if (events[i]->n_fields == 0) {
            (void)fprintf(out, "| %s | | |\n", events[i]->what);
        }
        (void)snprintf(before, sizeof(before), "%s ", events[i]->what);
        rows_print(out, events[i], before, &shown);
    }
}

/* TypeScript ------------------------------------------------------------------------------ */

enum {
    INDENT = 2,
};

static void members_type(FILE *out, const struct snp_record *form, int indent);

static const char *plain_type(unsigned types)
{
    static const struct {
        unsigned all; /* no other types than these */
        const char *text;
    } names[] = {
        {SNP_T_STR | SNP_T_TEXT, "string"},
        {SNP_T_INT | SNP_T_NEG | SNP_T_REAL, "number"},
        {SNP_T_BOOL, "boolean"},
        {SNP_T_OBJ, "Record<string, unknown>"},
        {SNP_T_ARR, "unknown[]"},
    };

    if ((types & SNP_T_STRS) != 0) {
        return "string[]";
    }
    for (size_t i = 0; i < SNP_ARRAY_LEN(names); i++) {
        if ((types & SNP_T_ANY & ~names[i].all) == 0) {
            return names[i].text;
        }
    }
    return "unknown";
}

/* What a field holds, without null. */
static void value_type(FILE *out, const struct snp_field *field, int indent)
{
    if (field->of != NULL) {
        (void)fputs("{\n", out);
        members_type(out, field->of, indent + INDENT);
        (void)fprintf(out, "%*s}%s", indent, "", (field->types & SNP_T_ARR) != 0 ? "[]" : "");
    } else if (field->words == NULL) {
        (void)fputs(plain_type(field->types), out);
    }
    for (size_t i = 0; field->words != NULL && field->words[i] != NULL; i++) {
        (void)fprintf(out, "%s\"%s\"", i == 0 ? "" : " | ", field->words[i]);
    }
}

static void members_type(FILE *out, const struct snp_record *form, int indent)
{
    for (size_t i = 0; i < form->n_fields; i++) {
        const struct snp_field *field = &form->fields[i];

        if (field->text[0] != '\0') {
            (void)fprintf(out, "%*s/** %s%s */\n", indent, "", source_text[field->source],
                          field->text);
        }
        (void)fprintf(out, "%*s%s%s: ", indent, "", field->name,
                      (field->types & SNP_T_OPT) != 0 ? "?" : "");
        value_type(out, field, indent);
        (void)fprintf(out, "%s;\n", (field->types & SNP_T_NULL) != 0 ? " | null" : "");
    }
    if (form->allow_more) {
        (void)fprintf(out, "%*s[more: string]: unknown;\n", indent, "");
    }
}

/* A member `name` whose type is a form; NULL = one without members. */
static void form_type(FILE *out, const char *name, const struct snp_record *form, int indent)
{
    if (form == NULL || form->n_fields == 0) {
        (void)fprintf(out, "%*s%s: Record<string, never>;\n", indent, "", name);
        return;
    }
    (void)fprintf(out, "%*s%s: {\n", indent, "", name);
    members_type(out, form, indent + INDENT);
    (void)fprintf(out, "%*s};\n", indent, "");
}

static void method_type(FILE *out, const struct snp_method_form *method)
{
    (void)fprintf(out, "%*s/** %s */\n%*s\"%s\": {\n", INDENT, "", method->text, INDENT, "",
                  method->request->what);
    form_type(out, "request", method->request, 2 * INDENT);
    if (method == &snp_methods[SNP_METHOD_EXEC]) {
        (void)fprintf(out, "%*sanswer: RawResult;\n", 2 * INDENT, "");
    } else {
        form_type(out, "answer", method->answer, 2 * INDENT);
    }
    (void)fprintf(out, "%*s};\n", INDENT, "");
}

static void typescript_print(FILE *out)
{
    static const struct snp_record *const *const events[] = {exec_events, run_events};

    (void)fputs("/** Requests by method, and what they answer. */\nexport interface Methods {\n",
                out);
    for (size_t i = 0; i < SNP_METHODS_N; i++) {
        method_type(out, &snp_methods[i]);
    }
    for (size_t i = 0; snp_run_methods[i].text != NULL; i++) {
        method_type(out, &snp_run_methods[i]);
    }
    (void)fputs("}\n\n/** The result of a cell: docs/result.md. */\n"
                "export interface RawResult {\n",
                out);
    members_type(out, &snp_result_form, INDENT);
    members_type(out, &snp_result_added_form, INDENT);
    (void)fputs("}\n\n/** Events before the answer, by name. */\nexport interface Events {\n", out);
    for (size_t i = 0; i < SNP_ARRAY_LEN(events); i++) {
        for (size_t k = 0; events[i][k] != NULL; k++) {
            form_type(out, events[i][k]->what, events[i][k], INDENT);
        }
    }
    (void)fputs("}\n\n/** Why a request failed. */\nexport interface Failure {\n", out);
    members_type(out, &snp_error_form, INDENT);
    (void)fputs("}\n", out);
}

static void limits_print(FILE *out)
{
    static const char *const units[] = {[SNP_UNIT_COUNT] = "",
                                        [SNP_UNIT_MS] = "_ms",
                                        [SNP_UNIT_MILLI] = "_milli",
                                        [SNP_UNIT_BYTES] = "_bytes"};

    for (int i = 0; i < SNP_LIMIT_N; i++) {
        const struct snp_limit_info *limit = snp_limit_info((enum snp_limit)i);

        (void)fprintf(out, "  %s: \"%s\", // %s\n", limit->key, units[limit->unit], limit->help);
    }
}

/* Words for programs and for models; none of the texts needs escapes. */
static void hints_print(FILE *out)
{
    for (size_t i = 0; snp_hint_cause(i) != NULL; i++) {
        const char *cause = snp_hint_cause(i);
        const char *words = snp_hint(cause, SNP_HINT_LIBRARY);

        (void)fprintf(out, "  \"%s\": [\"%s\",\n    \"%s\"],\n", cause, words == NULL ? "" : words,
                      snp_hint(cause, SNP_HINT_MODEL));
    }
}

static bool messages_print(FILE *out, const char *what)
{
    struct shown shown = {.n = 0};

    if (strcmp(what, "client") == 0) {
        for (size_t i = 0; i < SNP_METHODS_N; i++) {
            method_print(out, &snp_methods[i], &shown);
        }
    } else if (strcmp(what, "tier") == 0) {
        for (size_t i = 0; i < SNP_TIER_METHODS_N; i++) {
            method_print(out, &snp_tier_methods[i], &shown);
        }
    } else if (strcmp(what, "result") == 0) {
        head_print(out);
        rows_print(out, &snp_result_form, "", &shown);
        rows_print(out, &snp_result_added_form, "", &shown);
    } else if (strcmp(what, "error") == 0) {
        head_print(out);
        rows_print(out, &snp_error_form, "", &shown);
    } else if (strcmp(what, "events") == 0) {
        events_print(out, exec_events);
    } else if (strcmp(what, "run") == 0) {
        for (size_t i = 0; snp_run_methods[i].text != NULL; i++) {
            method_print(out, &snp_run_methods[i], &shown);
        }
    } else if (strcmp(what, "run_events") == 0) {
        events_print(out, run_events);
    } else if (strcmp(what, "typescript") == 0) {
        typescript_print(out);
    } else if (strcmp(what, "limits") == 0) {
        limits_print(out);
    } else if (strcmp(what, "hints") == 0) {
        hints_print(out);
    } else {
        return false;
    }
    return true;
}

int main(int argc, char **argv)
{
    return argc == 2 && messages_print(stdout, argv[1]) ? 0 : 2;
}
