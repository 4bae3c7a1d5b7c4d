/* SPDX-License-Identifier: Apache-2.0 */
#include "base/text/hint.h"

#include <stdio.h>
#include <string.h>

#include "base/str.h"

static const struct hint_row {
    const char *cause;
    const char *words[3]; /* by reader; NULL: use the hint of the result */
} rows[] = {
    {"no such file",
     {"Only files of the session are in the sandbox. Show a folder as /workspace with "
      "--project DIR, or copy a file: snipara-sandbox put FILE SESSION:",
      "Only files of the session are in the sandbox. Show a folder as /workspace with the "
      "option "
      "project, or write the file into the session.",
      "Only files below /workspace and /tmp are here, no others of the user's machine. List "
      "/workspace and use a path from there; ask the user for a file that is missing."}},
    {"no such program",
     {"This program is not in the sandbox: only those of /usr and of the template are.",
      "This program is not in the sandbox: only those of /usr and of the template are.",
      "This program is not installed here. Use another one, or Python."}},
    {"no such module",
     {NULL, NULL,
      "The package is not installed here, and without a network it cannot be. Use the installed "
      "packages, or ask the user for a template that has it."}},
    {"no network",
     {"The sandbox has no network. Copy files in with snipara-sandbox put or --project DIR. "
      "Install packages into a template: snipara-sandbox template add NAME --requirements FILE",
      "The sandbox has no network. Write files into the session, or show a folder with the "
      "option "
      "project. Install packages into a template: snipara-sandbox template add NAME "
      "--requirements FILE, then the option template",
      "There is no network here: downloads, pip and APIs cannot work. Use the packages and files "
      "that are here, or ask the user for the missing ones."}},
    {"no packages",
     {"pip cannot install packages in the sandbox, whatever it suggests: there is no network. "
      "Install them into a template: snipara-sandbox template add NAME --requirements FILE, then "
      "--template NAME",
      "pip cannot install packages in the sandbox, whatever it suggests: there is no network. "
      "Install them into a template: snipara-sandbox template add NAME --requirements FILE, then "
      "the option template",
      "pip cannot install packages here, whatever it suggests: there is no network. Use the "
      "installed packages, or ask the user for a template that has the package."}},
    {"read-only",
     {"Only /workspace and /tmp can be written.", "Only /workspace and /tmp can be written.",
      "Only /workspace and /tmp can be written."}},
    {"no permission",
     {"This path is not open to the sandbox. Only /workspace and /tmp can be written.",
      "This path is not open to the sandbox. Only /workspace and /tmp can be written.",
      "This path is not open here. Only /workspace and /tmp can be written."}},
    {"not permitted",
     {"Do without this call: the sandbox does not permit it.",
      "Do without this call: the sandbox does not permit it.",
      "This call is not permitted here. Do without it."}},
    {"disk space",
     {"Delete files, or raise --workspace-size (--workspace-files; --tmp-size for /tmp).",
      "Delete files, or raise the limit workspace_size (workspace_files; tmp_size for /tmp).",
      "Delete files that are not needed, or write less."}},
    {"file size",
     {"Write smaller files, or raise --file-size.",
      "Write smaller files, or raise the limit file_size.", "Write smaller files."}},
    {"open files",
     {"Close files when done, or raise --open-files.",
      "Close files when done, or raise the limit open_files.", "Close files when done."}},
    {"memory",
     {"Use less at a time, or raise --memory.", "Use less at a time, or raise the limit memory.",
      "Use less at a time: read in parts, delete variables that are no longer needed."}},
    {"processes",
     {"Start fewer processes and threads at a time, or raise --processes.",
      "Start fewer processes and threads at a time, or raise the limit processes.",
      "Start fewer processes and threads at a time."}},
    {"files in memory",
     {"Delete files, or raise --memory.", "Delete files, or raise the limit memory.",
      "Delete files that are not needed, or write less."}},
    {"workspace_size",
     {"Delete files, or raise --workspace-size.",
      "Delete files, or raise the limit workspace_size.",
      "Delete files that are not needed, or write less."}},
    {"workspace_files",
     {"Delete files, or raise --workspace-files.",
      "Delete files, or raise the limit workspace_files.",
      "Delete files that are not needed, or make fewer."}},
    {"tmp_size",
     {"Delete files, or raise --tmp-size.", "Delete files, or raise the limit tmp_size.",
      "Delete files of /tmp that are not needed."}},
    {"file_size",
     {"Write smaller files, or raise --file-size.",
      "Write smaller files, or raise the limit file_size.", "Write smaller files."}},
    {"no input",
     {"input() had nothing to read. Give the code standard input with --stdin FILE.",
      "input() had nothing to read. Give the code standard input with the option input.",
      "input() gets no answer here. Put the value into the code, or ask the user for it."}},
    {"shell line",
     {"This is a shell line, and CODE is Python. Run it with exec --sh, or begin it with !.",
      "This is a shell line, and the code is Python. Run it as a command, or begin it with !.",
      "This is a shell line, and the code is Python. Begin it with !, or use Python."}},
    {"timeout", {NULL, NULL, "Do less in one call; results of earlier calls stay."}},
    {"notebook",
     {"These notebook commands work: %time, %timeit, %cd, %pwd, %%bash, %%writefile and lines "
      "with !. Plots show by themselves.",
      "These notebook commands work: %time, %timeit, %cd, %pwd, %%bash, %%writefile and lines "
      "with !. Plots show by themselves.",
      "These notebook commands work: %time, %timeit, %cd, %pwd, %%bash, %%writefile and lines "
      "with !. Plots show by themselves. Write plain Python for the rest."}},
};

/* The options for limits behind some of these mistakes. */
static const struct {
    const char *cause;
    const char *key;
    const char *option;
} limits[] = {
    {"disk space", "workspace_size", "--workspace-size SIZE"},
    {"file size", "file_size", "--file-size SIZE"},
    {"open files", "open_files", "--open-files N"},
    {"memory", "memory", "--memory SIZE"},
    {"processes", "processes", "--processes N"},
    {"files in memory", "memory", "--memory SIZE"},
    {"workspace_size", "workspace_size", "--workspace-size SIZE"},
    {"workspace_files", "workspace_files", "--workspace-files N"},
    {"tmp_size", "tmp_size", "--tmp-size SIZE"},
    {"file_size", "file_size", "--file-size SIZE"},
};

static const struct hint_row *row_of(const char *cause)
{
    for (size_t i = 0; i < SNP_ARRAY_LEN(rows); i++) {
        size_t n = strlen(rows[i].cause);

        if (strncmp(cause, rows[i].cause, n) == 0 && (cause[n] == '\0' || cause[n] == ' ')) {
            return &rows[i];
        }
    }
    return NULL;
}

const char *snp_hint(const char *cause, enum snp_hint_reader reader)
{
    const struct hint_row *row = row_of(cause);

    return row == NULL ? NULL : row->words[reader];
}

const char *snp_hint_cause(size_t i)
{
    return i < SNP_ARRAY_LEN(rows) ? rows[i].cause : NULL;
}

/* The package is already present for code inside; no hint suggests installing it. */
static const char own_module[] = "snipara_sandbox";
static const char own_words[] =
    "This code runs in a sandbox already. Import snipara_sandbox in your own program, outside.";
static const char own_words_model[] =
    "This code runs in a sandbox already. Write the code itself, without snipara_sandbox.";

static const char *module_name(const json_t *object)
{
    return snp_json_str(json_object_get(object, "module"), "name", "");
}

const char *snp_hint_of(const json_t *object, enum snp_hint_reader reader)
{
    const char *cause = snp_json_str(object, "cause", snp_json_str(object, "rule", ""));
    const char *words = snp_hint(cause, reader);
    const char *own = snp_json_str(object, "hint", "");

    if (strcmp(module_name(object), own_module) == 0) {
        return reader == SNP_HINT_MODEL ? own_words_model : own_words;
    }
    return words != NULL ? words : own[0] == '\0' ? NULL : own;
}

/* The template that has the module, or the command that makes one. */
static json_t *module_words(const json_t *module, bool is_person)
{
    const char *name = snp_json_str(module, "name", "");
    const char *first = json_string_value(json_array_get(json_object_get(module, "templates"), 0));

    if (first == NULL) {
        return json_sprintf("'%s' is not in the template of this session, and the sandbox has no "
                            "network to install it. A template with it: %s; %s",
                            name, snp_json_str(module, "command", ""),
                            is_person ? "or put its folder into the workspace"
                                      : "then open the session with the option template");
    }
    return json_sprintf(is_person ? "%s comes with template %s: open the session with --template %s"
                                  : "%s comes with template %s: open the session with the option "
                                    "template \"%s\"",
                        name, first, first);
}

static bool is_of_file(const json_t *denial)
{
    const char *operation = snp_json_str(denial, "operation", "");

    return strcmp(operation, "write") == 0 || strcmp(operation, "create") == 0;
}

/* The limit in a denial as a mistake of the table, where it begins the rule; NULL = no limit. */
static const char *limit_of(const json_t *denial)
{
    const char *rule = snp_json_str(denial, "rule", "");
    const struct hint_row *row = row_of(rule);

    if (row == NULL || strcmp(snp_json_str(denial, "source", ""), "limit") != 0) {
        return NULL;
    }
    return strcmp(row->cause, "memory") == 0 && is_of_file(denial) ? "files in memory" : row->cause;
}

/* The limit that made a write or create fail; NULL = no denial names one. */
static const char *full_find(const json_t *denials)
{
    size_t i;
    json_t *denial;

    json_array_foreach((json_t *)(uintptr_t)denials, i, denial)
    {
        if (is_of_file(denial) && limit_of(denial) != NULL) {
            return limit_of(denial);
        }
    }
    return NULL;
}

bool snp_hint_is_at_wake(const json_t *result, const char *key)
{
    size_t i;
    json_t *one;

    json_array_foreach(json_object_get(result, "at_wake"), i, one)
    {
        if (snp_streq(json_string_value(one), key)) {
            return true;
        }
    }
    return false;
}

/*
 * An option applies to a new session; an open one has a command that raises its limits, and one
 * that makes a raised limit apply. NULL: the mistake is about no limit, or the words of the table
 * are right.
 */
static json_t *session_words(const char *cause, const json_t *result, enum snp_hint_reader reader)
{
    const char *session = snp_json_str(result, "name", NULL);
    const struct hint_row *row = row_of(cause);

    for (size_t i = 0; i < SNP_ARRAY_LEN(limits) && row != NULL && session != NULL; i++) {
        const char *words = row->words[SNP_HINT_LIBRARY];

        if (strcmp(limits[i].cause, row->cause) != 0) {
            continue;
        }
        if (snp_hint_is_at_wake(result, limits[i].key)) {
            return json_sprintf("The new limit %s applies at the next wake: %s%s", limits[i].key,
                                reader == SNP_HINT_PERSON ? "snipara-sandbox hibernate "
                                                          : "hibernate the session.",
                                reader == SNP_HINT_PERSON ? session : "");
        }
        return reader != SNP_HINT_PERSON
                   ? NULL
                   : json_sprintf("%.*s: snipara-sandbox sessions set %s %s",
                                  (int)strlen(words) - 1, words, session, limits[i].option);
    }
    return NULL;
}

/* object: a part of the result. full: the limit that files reached, or NULL. */
static void fill(json_t *object,
                 const json_t *result,
                 enum snp_hint_reader reader,
                 const char *full)
{
    const json_t *module = json_object_get(object, "module");
    const char *cause = snp_json_str(object, "cause", snp_json_str(object, "rule", ""));
    const char *limit = strcmp(cause, "disk space") == 0 ? full : limit_of(object);
    const char *words = limit != NULL ? snp_hint(limit, reader) : snp_hint_of(object, reader);
    json_t *hint = NULL;

    if (json_is_object(module) && reader != SNP_HINT_MODEL &&
        strcmp(module_name(object), own_module) != 0) {
        hint = module_words(module, reader == SNP_HINT_PERSON);
    } else if (reader != SNP_HINT_MODEL) {
        hint = session_words(limit != NULL ? limit : cause, result, reader);
    }
    if (hint == NULL && words != NULL) {
        hint = json_string(words);
    }
    if (hint != NULL) {
        (void)json_object_set_new(object, "hint", hint);
    }
}

void snp_hints_fill(json_t *result, enum snp_hint_reader reader)
{
    json_t *error = json_object_get(result, "error");
    json_t *denials = json_object_get(result, "denials");
    const char *full = full_find(denials);
    size_t i;
    json_t *denial;

    if (json_is_object(error)) {
        fill(error, result, reader, full);
    }
    json_array_foreach(denials, i, denial)
    {
        fill(denial, result, reader, full);
    }
}
