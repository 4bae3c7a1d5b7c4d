/* SPDX-License-Identifier: Apache-2.0 */
#include "text/hint.h"

#include <string.h>

static const struct row {
    const char *cause;
    const char *words[2]; /* by reader; NULL: what the result says itself */
} rows[] = {
    {"no such file",
     {"Only files of the session are in the sandbox. Show a folder as /workspace with "
      "--project DIR, or copy a file: snipara-sandbox put FILE SESSION:",
      "Only files below /workspace and /tmp are here, no others of the user's machine. List "
      "/workspace and use a path from there; ask the user for a file that is missing."}      },
    {"no such program",
     {"This program is not in the sandbox: only those of /usr and of the template are.",
      "This program is not installed here. Use another one, or Python."}                     },
    {"no such module",
     {NULL,
      "The package is not installed here, and without a network it cannot be. Use what is "
      "installed, or ask the user for a template that has it."}                              },
    {"no network",
     {"The sandbox has no network. Copy files in with snipara-sandbox put or --project DIR. "
      "Install packages into a template: snipara-sandbox template add NAME --requirements FILE",
      "There is no network here: downloads, pip and APIs cannot work. Use the packages and the "
      "files in /workspace that are here, or ask the user for what is missing."}             },
    {"read-only",
     {"Only /workspace and /tmp can be written.", "Only /workspace and /tmp can be written."}},
    {"no permission",
     {"This path is not open to the sandbox. Only /workspace and /tmp can be written.",
      "This path is not open here. Only /workspace and /tmp can be written."}                },
    {"not permitted",
     {"Do without this call: the sandbox does not permit it.",
      "Do without this call: it is not permitted here."}                                     },
    {"disk space",
     {"Delete files, or open the session with a larger --workspace-size (--workspace-files; "
      "--tmp-size for /tmp).",
      "Delete files that are not needed, or write less."}                                    },
    {"file size",
     {"Write smaller files, or open the session with a larger --file-size.",
      "Write smaller files."}                                                                },
    {"open files",
     {"Close files when done, or open the session with more --open-files.",
      "Close files when done."}                                                              },
    {"memory",
     {"Use less at a time, or open the session with more --memory.",
      "Use less at a time: read in parts, delete what is no longer needed."}                 },
    {"processes",
     {"Start fewer processes and threads at a time, or open the session with more --processes.",
      "Start fewer processes and threads at a time."}                                        },
    {"workspace_size",  {NULL, "Delete files that are not needed, or write less."}           },
    {"workspace_files", {NULL, "Delete files that are not needed, or make fewer."}           },
    {"tmp_size",        {NULL, "Delete files of /tmp that are not needed."}                  },
    {"no input",
     {"input() had nothing to read. Give the code standard input with --stdin FILE.",
      "Nobody can answer input() here. Put the value into the code, or ask the user for it."}},
    {"timeout",         {NULL, "Do less in one call; what earlier calls made stays."}        },
    {"notebook",
     {"These notebook commands work: %time, %timeit, %cd, %pwd, %%bash, %%writefile and lines "
      "with !. Plots show by themselves.",
      "These notebook commands work: %time, %timeit, %cd, %pwd, %%bash, %%writefile and lines "
      "with !. Plots show by themselves. Write plain Python for the rest."}                  },
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

const char *snp_hint_of(const json_t *object, enum snp_hint_reader reader)
{
    const char *cause = snp_json_str(object, "cause", snp_json_str(object, "rule", ""));
    const char *words = snp_hint(cause, reader);
    const char *own = snp_json_str(object, "hint", "");

    return words != NULL ? words : own[0] == '\0' ? NULL : own;
}
