/* SPDX-License-Identifier: Apache-2.0 */
#include "base/text/summary.h"

#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "base/str.h"
#include "base/text/say.h"
#include "base/text/text.h"

enum {
    LINE_BYTES = 16 << 10,
    NAME_BYTES = 1000,
    NAMES_SHOWN = 5,
    CELLS_SHOWN = 50,
    FILES_BYTES = 64 << 10,
};

/* part: of the member, NULL = the member as a whole. */
static void add(json_t *lines, const char *member, const char *part, struct snp_say *text)
{
    if (text->r == 0 && text->buf.len > 0) {
        (void)json_array_append_new(lines, json_pack("{s:s, s:s*, s:o}", "member", member, "part",
                                                     part, "text", snp_text_json(&text->buf)));
    }
    snp_say_done(text);
}

static void add_text(json_t *lines, const char *member, const char *part, const char *text)
{
    struct snp_say said = SNP_SAY(LINE_BYTES);

    snp_say(&said, "%s", text);
    add(lines, member, part, &said);
}

void snp_summary_labels(const json_t *line, const char **ret_people, const char **ret_models)
{
    static const struct {
        const char *member;
        const char *part; /* NULL = any */
        const char *people;
        const char *models;
    } rows[] = {
        {"denials", NULL, "denied", "denied"},
        {"transaction", "notes", "not undone", "session"},
        {"restored", "failed", "not restored", "session"},
        {"restored", "missing_puts", "not restored", "session"},
        {"restored", "no_image", "no image", "session"},
        {"checkpoint", "error", "not saved", "session"},
        {"files", NULL, NULL, "files"},
    };
    const char *member = snp_json_str(line, "member", "");
    const char *part = snp_json_str(line, "part", NULL);

    *ret_people = part == NULL ? member : part;
    *ret_models = "session";
    for (size_t i = 0; i < SNP_ARRAY_LEN(rows); i++) {
        if (strcmp(rows[i].member, member) == 0 &&
            (rows[i].part == NULL || snp_streq(rows[i].part, part))) {
            *ret_people = rows[i].people == NULL ? *ret_people : rows[i].people;
            *ret_models = rows[i].models;
        }
    }
}

/* The end of a cell ------------------------------------------------------------------------ */

char *snp_summary_end(const json_t *result, enum snp_hint_reader reader)
{
    static const struct {
        const char *status;
        const char *people;
        const char *models;
    } rows[] = {
        {"timeout", "the time limit was reached", "Execution timed out"},
        {"oom", "the memory limit was reached", "Out of memory"},
        {"killed", "ended by a signal", "Ended by a signal"},
        {"limit", "a limit was reached", "A limit was reached"},
        {"interrupted", "stopped before its end", "Interrupted before its end"},
    };
    const bool is_model = reader == SNP_HINT_MODEL;
    const char *status = snp_json_str(result, "status", "");
    const bool is_killed = strcmp(status, "killed") == 0;
    const char *name = snp_json_str(result, "signal", NULL);
    const int64_t ms = snp_json_int(json_object_get(result, "limit"), "value", 0);
    const char *text = NULL;

    for (size_t i = 0; i < SNP_ARRAY_LEN(rows); i++) {
        if (strcmp(rows[i].status, status) == 0) {
            text = is_model ? rows[i].models : rows[i].people;
        }
    }
    if (is_killed &&
        (name == NULL || (is_model && json_is_object(json_object_get(result, "error"))))) {
        return NULL; /* the error explains it */
    }
    if (text != NULL && is_model && strcmp(status, "timeout") == 0 && ms > 0) {
        return snp_format("%s after %g seconds", text, (double)ms / 1000);
    }
    if (name == NULL || (is_model && !is_killed)) {
        return text == NULL ? NULL : snp_format("%s", text);
    }
    return text == NULL ? NULL : snp_format("%s (%s)", text, name);
}

char *snp_summary_limit(const json_t *result, enum snp_hint_reader reader)
{
    const json_t *limit = json_object_get(result, "limit");
    const char *key = snp_json_str(limit, "key", "?");
    const char *text = snp_json_str(limit, "text", "?");
    const char *flag = snp_json_str(limit, "flag", "?");
    const char *session = snp_json_str(result, "name", NULL);

    if (!json_is_object(limit)) {
        return NULL;
    }
    if (reader == SNP_HINT_MODEL) {
        return snp_format("%s is %s", key, text);
    }
    if (session != NULL && snp_hint_is_at_wake(result, key)) {
        return snp_format("%s is %s; the new limit applies at the next wake: snipara-sandbox "
                          "hibernate %s",
                          key, text, session);
    }
    /* Each cell has its time limit, the session the others. */
    return session == NULL || strcmp(key, "timeout") == 0
               ? snp_format("%s is %s; %s raises it", key, text, flag)
               : snp_format("%s is %s; raise it with: snipara-sandbox sessions set %s %s %s", key,
                            text, session, flag, strchr(text, ' ') == NULL ? "N" : "SIZE");
}

/* Files ------------------------------------------------------------------------------------- */

const char *snp_summary_process(const char *state,
                                int64_t exit_code,
                                const char *signal_name,
                                char text[SNP_SUMMARY_PROCESS])
{
    if (signal_name != NULL) {
        (void)snprintf(text, SNP_SUMMARY_PROCESS, "ended by %s", signal_name);
    } else if (exit_code >= 0) {
        (void)snprintf(text, SNP_SUMMARY_PROCESS, "exited with %d", (int)exit_code);
    } else {
        (void)snprintf(text, SNP_SUMMARY_PROCESS, "%s%s", snp_streq(state, "unknown") ? "end " : "",
                       state);
    }
    return text;
}

bool snp_summary_is_cache(const char *path)
{
    static const char *const folders[] = {"__pycache__",       ".pytest_cache", ".mypy_cache",
                                          ".ruff_cache",       ".cache",        ".hypothesis",
                                          ".ipynb_checkpoints"};

    for (const char *at = path; *at != '\0'; at += *at == '/' ? 1 : 0) {
        size_t n = strcspn(at, "/");

        for (size_t i = 0; i < SNP_ARRAY_LEN(folders); i++) {
            if (strlen(folders[i]) == n && strncasecmp(folders[i], at, n) == 0) {
                return true;
            }
        }
        at += n;
    }
    return snp_has_suffix(path, ".pyc");
}

static void say_name(struct snp_say *text, json_t *names, const char *before, const char *name)
{
    snp_say(text, "%s%.*s", text->buf.len == 0 ? "" : before, NAME_BYTES, name);
    (void)json_array_append_new(names, json_string(name));
}

static void add_files(json_t *lines, const char *kind, const json_t *paths, size_t most)
{
    struct snp_say text = SNP_SAY(FILES_BYTES);
    json_t *names = json_array();
    size_t n_named = 0;
    size_t n_caches = 0;
    char rest[48];

    for (size_t i = 0; i < json_array_size(paths); i++) {
        const char *name = json_string_value(json_array_get(paths, i));

        if (name != NULL && snp_summary_is_cache(name)) {
            n_caches++;
        } else if (n_named++ < most) {
            say_name(&text, names, ", ", name == NULL ? "?" : name);
        }
    }
    if (n_named > most) {
        (void)snprintf(rest, sizeof(rest), "and %zu more", n_named - most);
        say_name(&text, names, " ", rest);
    }
    if (n_caches > 0) {
        (void)snprintf(rest, sizeof(rest), "%zu cache file%s", n_caches, n_caches == 1 ? "" : "s");
        say_name(&text, names, ", ", rest);
    }
    if (json_array_size(names) > 0) {
        (void)json_array_append_new(lines, json_pack("{s:s, s:s, s:o, s:O}", "member", "files",
                                                     "part", kind, "text", snp_text_json(&text.buf),
                                                     "names", names));
    }
    snp_say_done(&text);
    json_decref(names);
}

json_t *snp_summary_files(const json_t *result, size_t most)
{
    static const char *const kinds[] = {"created", "modified", "deleted"};
    json_t *lines = json_array();

    for (size_t i = 0; i < SNP_ARRAY_LEN(kinds); i++) {
        add_files(lines, kinds[i], json_object_get(json_object_get(result, "files"), kinds[i]),
                  most);
    }
    return lines;
}

/* The session ------------------------------------------------------------------------------- */

/*
 * Whether file changes are undone depends on the copy of the workspace made at the start of the
 * cell.
 */
static const char *state_text(const json_t *result)
{
    static const struct {
        const char *state;
        const char *copied;
        const char *kept;
    } rows[] = {
        {"rolled_back", "rolled back: variables and files are as before this cell",
         "rolled back: variables are as before this cell; files stay as the cell left them"},
        {"lost", "lost: variables are as at the session's start; files are as before this cell",
         "lost: variables are as at the session's start; files stay as the cell left them"},
        {"restored_from_checkpoint", "lost: the session returns to its latest checkpoint",
         "lost: the session returns to its latest checkpoint"},
    };
    const char *state = snp_json_str(result, "state", "kept");
    const char *workspace =
        snp_json_str(json_object_get(result, "transaction"), "workspace", "off");

    for (size_t i = 0; i < SNP_ARRAY_LEN(rows); i++) {
        if (strcmp(rows[i].state, state) == 0) {
            return strcmp(workspace, "copied") == 0 ? rows[i].copied : rows[i].kept;
        }
    }
    return NULL;
}

static void add_state(json_t *lines, const json_t *result)
{
    const json_t *notes = json_object_get(json_object_get(result, "transaction"), "notes");
    const char *text = state_text(result);

    if (snp_json_bool(result, "restarted", false)) {
        add_text(lines, "restarted", NULL, "variables of earlier cells are lost; files stay");
    }
    if (text == NULL) {
        return;
    }
    add_text(lines, "state", NULL, text);
    for (size_t i = 0; i < json_array_size(notes); i++) {
        const char *note = json_string_value(json_array_get(notes, i));

        add_text(lines, "transaction", "notes", note == NULL ? "?" : note);
    }
}

/* "cells 3, 4, 5 and 7 more" */
static void say_cells(struct snp_say *out, const char *before, const json_t *cells)
{
    const size_t n = json_array_size(cells);

    for (size_t i = 0; i < n && i < CELLS_SHOWN; i++) {
        snp_say(out, "%s%lld", i == 0 ? before : ", ",
                (long long)json_integer_value(json_array_get(cells, i)));
    }
    if (n > CELLS_SHOWN) {
        snp_say(out, " and %zu more", n - CELLS_SHOWN);
    }
}

static void add_puts(json_t *lines, const json_t *puts)
{
    const size_t n = json_array_size(puts);
    struct snp_say text = SNP_SAY(LINE_BYTES);

    for (size_t i = 0; i < n && i < NAMES_SHOWN; i++) {
        const char *name = json_string_value(json_array_get(puts, i));

        snp_say(&text, "%s%.*s", i == 0 ? "files that were put later: " : ", ", NAME_BYTES,
                name == NULL ? "?" : name);
    }
    if (n > NAMES_SHOWN) {
        snp_say(&text, " and %zu more", n - NAMES_SHOWN);
    }
    add(lines, "restored", "missing_puts", &text);
}

/* Add no line for a session that was restored completely. */
static void add_restored(json_t *lines, const json_t *restored, size_t most)
{
    const json_t *failed = json_object_get(restored, "failed");
    const json_t *missing = json_object_get(restored, "missing");
    const size_t n_failed = json_array_size(failed);
    const char *no_image = snp_json_str(restored, "no_image", NULL);
    const long long cell = snp_json_int(restored, "cell", 0);
    struct snp_say text = SNP_SAY(LINE_BYTES);

    say_cells(&text, "cells run again: ", json_object_get(restored, "replayed"));
    snp_say(&text, text.buf.len > 0 && json_array_size(missing) > 0 ? "; " : "");
    if (json_array_size(missing) > 0 && cell == 0) {
        snp_say(&text, "an empty session; missing: ");
    } else if (json_array_size(missing) > 0) {
        snp_say(&text, "the state after cell %lld; missing: ", cell);
    }
    say_cells(&text, "cells ", missing);
    add(lines, "restored", NULL, &text);
    add_puts(lines, json_object_get(restored, "missing_puts"));
    for (size_t i = 0; i < n_failed && i < most; i++) {
        const json_t *row = json_array_get(failed, i);
        struct snp_say each = SNP_SAY(LINE_BYTES);

        snp_say(&each, "%.*s: %.*s", NAME_BYTES, snp_json_str(row, "name", "?"), NAME_BYTES,
                snp_json_str(row, "reason", "?"));
        add(lines, "restored", "failed", &each);
    }
    if (n_failed > most) {
        struct snp_say rest = SNP_SAY(LINE_BYTES);

        snp_say(&rest, "%zu more", n_failed - most);
        add(lines, "restored", "failed", &rest);
    }
    if (n_failed > 0 && no_image != NULL) {
        add_text(lines, "restored", "no_image", no_image);
    }
}

json_t *snp_summary_session(const json_t *result, size_t most)
{
    const char *error = snp_json_str(json_object_get(result, "checkpoint"), "error", NULL);
    json_t *lines = json_array();

    if (lines == NULL) {
        return NULL;
    }
    add_state(lines, result);
    if (error != NULL) {
        struct snp_say text = SNP_SAY(LINE_BYTES);

        snp_say(&text, "this cell could not be saved: %.300s", error);
        add(lines, "checkpoint", "error", &text);
    }
    add_restored(lines, json_object_get(result, "restored"), most);
    return lines;
}

/* Denials --------------------------------------------------------------------------------- */

static void say_denial(struct snp_say *out, const json_t *denial)
{
    static const struct {
        const char *member;
        const char *before;
    } parts[] = {
        {"control", ""},
        {"operation", ": "},
        {"object", " "},
    };
    const char *rule = snp_json_str(denial, "rule", "");
    const long long count = snp_json_int(denial, "count", 1);

    for (size_t i = 0; i < SNP_ARRAY_LEN(parts); i++) {
        const char *part = snp_json_str(denial, parts[i].member, "");

        snp_say(out, "%s%.*s", part[0] == '\0' ? "" : parts[i].before, NAME_BYTES, part);
    }
    if (count > 1) {
        snp_say(out, " (%lld times)", count);
    }
    snp_say(out, "%s%.*s [%s]", rule[0] == '\0' ? "" : ", ", NAME_BYTES, rule,
            snp_json_str(denial, "source", "?"));
}

json_t *snp_summary_denials(const json_t *result,
                            enum snp_hint_reader reader,
                            const char *told,
                            size_t most)
{
    const bool has_limit = json_is_object(json_object_get(result, "limit"));
    const json_t *denials = json_object_get(result, "denials");
    uint64_t n_more = (uint64_t)snp_json_int(result, "denials_dropped", 0);
    json_t *list = json_array();

    for (size_t i = 0; i < json_array_size(denials); i++) {
        const json_t *denial = json_array_get(denials, i);
        const char *hint = reader == SNP_HINT_MODEL ? snp_hint_of(denial, reader)
                                                    : snp_json_str(denial, "hint", NULL);
        struct snp_say text = SNP_SAY(LINE_BYTES);

        if (has_limit && strcmp(snp_json_str(denial, "source", ""), "limit") == 0) {
            continue;
        }
        if (json_array_size(list) >= most) {
            n_more++;
            continue;
        }
        say_denial(&text, denial);
        add(list, "denials", NULL, &text);
        if (hint != NULL && !snp_streq(hint, told)) {
            (void)json_object_set_new(json_array_get(list, json_array_size(list) - 1), "hint",
                                      json_string(hint));
            told = hint;
        }
    }
    if (n_more > 0) {
        struct snp_say rest = SNP_SAY(LINE_BYTES);

        snp_say(&rest, "%llu more", (unsigned long long)n_more);
        add(list, "denials", NULL, &rest);
    }
    return list;
}
