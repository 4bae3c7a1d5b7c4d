/* SPDX-License-Identifier: Apache-2.0 */
#include "base/text/hint.h"

#include <stdio.h>
#include <string.h>

enum {
    KEY_BYTES = 32, /* of a limit */
};

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
      "The package is not installed here, and without a network it cannot be. Use what is "
      "installed, or ask the user for a template that has it."}},
    {"no network",
     {"The sandbox has no network. Copy files in with snipara-sandbox put or --project DIR. "
      "Install packages into a template: snipara-sandbox template add NAME --requirements FILE",
      "The sandbox has no network. Write files into the session, or show a folder with the "
      "option "
      "project. Install packages into a template: snipara-sandbox template add NAME "
      "--requirements FILE, then the option template",
      "There is no network here: downloads, pip and APIs cannot work. Use the packages and the "
      "files in /workspace that are here, or ask the user for what is missing."}},
    {"no packages",
     {"pip cannot install packages in the sandbox, whatever it suggests: there is no network. "
      "Install them into a template: snipara-sandbox template add NAME --requirements FILE, then "
      "--template NAME",
      "pip cannot install packages in the sandbox, whatever it suggests: there is no network. "
      "Install them into a template: snipara-sandbox template add NAME --requirements FILE, then "
      "the option template",
      "pip cannot install packages here, whatever it suggests: there is no network. Use what is "
      "installed, or ask the user for a template that has the package."}},
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
     {"Delete files, or open the session with a larger --workspace-size (--workspace-files; "
      "--tmp-size for /tmp).",
      "Delete files, or open the session with a larger limit workspace_size (workspace_files; "
      "tmp_size for /tmp).",
      "Delete files that are not needed, or write less."}},
    {"file size",
     {"Write smaller files, or open the session with a larger --file-size.",
      "Write smaller files, or open the session with a larger limit file_size.",
      "Write smaller files."}},
    {"open files",
     {"Close files when done, or open the session with more --open-files.",
      "Close files when done, or open the session with a larger limit open_files.",
      "Close files when done."}},
    {"memory",
     {"Use less at a time, or raise --memory; for an open session: snipara-sandbox sessions "
      "set "
      "NAME --memory SIZE",
      "Use less at a time, or raise the limit memory.",
      "Use less at a time: read in parts, delete variables that are no longer needed."}},
    {"processes",
     {"Start fewer processes and threads at a time, or open the session with more --processes.",
      "Start fewer processes and threads at a time, or open the session with a larger limit "
      "processes.",
      "Start fewer processes and threads at a time."}},
    {"workspace_size", {NULL, NULL, "Delete files that are not needed, or write less."}},
    {"workspace_files", {NULL, NULL, "Delete files that are not needed, or make fewer."}},
    {"tmp_size", {NULL, NULL, "Delete files of /tmp that are not needed."}},
    {"file_size", {NULL, NULL, "Write smaller files."}},
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

const char *snp_hint(const char *cause, enum snp_hint_reader reader)
{
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        size_t n = strlen(rows[i].cause);

        if (strncmp(cause, rows[i].cause, n) == 0 && (cause[n] == '\0' || cause[n] == ' ')) {
            return rows[i].words[reader];
        }
    }
    return NULL;
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

/* The limit key of a denial, which begins its rule; for people as an option. */
static void limit_key(const json_t *denial, bool is_person, char key[KEY_BYTES])
{
    const char *rule = snp_json_str(denial, "rule", "");

    (void)snprintf(key, KEY_BYTES, "%.*s", (int)strcspn(rule, " "), rule);
    for (char *at = strchr(key, '_'); is_person && at != NULL; at = strchr(at, '_')) {
        *at = '-';
    }
}

static json_t *limit_words(const json_t *denial, bool is_person)
{
    char key[KEY_BYTES];

    limit_key(denial, is_person, key);
    return json_sprintf(is_person ? "--%s raises it" : "the limit %s raises it", key);
}

/* Find the limit that a write or create reached, if a denial names one; else key is "". */
static void full_find(const json_t *denials, bool is_person, char key[KEY_BYTES])
{
    key[0] = '\0';
    for (size_t i = 0; i < json_array_size(denials) && key[0] == '\0'; i++) {
        const json_t *denial = json_array_get(denials, i);
        const char *operation = snp_json_str(denial, "operation", "");

        if (strcmp(snp_json_str(denial, "source", ""), "limit") == 0 &&
            (strcmp(operation, "write") == 0 || strcmp(operation, "create") == 0)) {
            limit_key(denial, is_person, key);
        }
    }
}

/* full: the limit that files reached; the hint names only that limit. */
static void fill(json_t *object, enum snp_hint_reader reader, const char *full)
{
    const json_t *module = json_object_get(object, "module");
    const char *words = snp_hint_of(object, reader);
    const char *cause = snp_json_str(object, "cause", snp_json_str(object, "rule", ""));

    if (json_is_object(module) && reader != SNP_HINT_MODEL &&
        strcmp(module_name(object), own_module) != 0) {
        (void)json_object_set_new(object, "hint", module_words(module, reader == SNP_HINT_PERSON));
    } else if (strcmp(snp_json_str(object, "source", ""), "limit") == 0 &&
               reader != SNP_HINT_MODEL) {
        (void)json_object_set_new(object, "hint", limit_words(object, reader == SNP_HINT_PERSON));
    } else if (full[0] != '\0' && strcmp(cause, "disk space") == 0 && reader != SNP_HINT_MODEL) {
        (void)json_object_set_new(
            object, "hint",
            json_sprintf("Delete files, or open the session with a larger %s%s.",
                         reader == SNP_HINT_PERSON ? "--" : "limit ", full));
    } else if (words != NULL) {
        (void)json_object_set_new(object, "hint", json_string(words));
    }
}

void snp_hints_fill(json_t *result, enum snp_hint_reader reader)
{
    json_t *error = json_object_get(result, "error");
    json_t *denials = json_object_get(result, "denials");
    char full[KEY_BYTES];
    size_t i;
    json_t *denial;

    full_find(denials, reader == SNP_HINT_PERSON, full);
    if (json_is_object(error)) {
        fill(error, reader, full);
    }
    json_array_foreach(denials, i, denial)
    {
        fill(denial, reader, full);
    }
}
