// SPDX-License-Identifier: Apache-2.0
// Hints for mistakes of code, for programs and for models; generated from src/base/text/hint.c.

/** @import {RawResult} from "../types/wire.d.ts" */

/** @type {Record<string, [string, string]>} */
const HINTS = {
// messages: hints
  "no such file": ["Only files of the session are in the sandbox. Show a folder as /workspace with the option project, or write the file into the session.",
    "Only files below /workspace and /tmp are here, no others of the user's machine. List /workspace and use a path from there; ask the user for a file that is missing."],
  "no such program": ["This program is not in the sandbox: only those of /usr and of the template are.",
    "This program is not installed here. Use another one, or Python."],
  "no such module": ["",
    "The package is not installed here, and without a network it cannot be. Use the installed packages, or ask the user for a template that has it."],
  "no network": ["The sandbox has no network. Write files into the session, or show a folder with the option project. Install packages into a template: snipara-sandbox template add NAME --requirements FILE, then the option template",
    "There is no network here: downloads, pip and APIs cannot work. Use the packages and files that are here, or ask the user for the missing ones."],
  "no packages": ["pip cannot install packages in the sandbox, whatever it suggests: there is no network. Install them into a template: snipara-sandbox template add NAME --requirements FILE, then the option template",
    "pip cannot install packages here, whatever it suggests: there is no network. Use the installed packages, or ask the user for a template that has the package."],
  "read-only": ["Only /workspace and /tmp can be written.",
    "Only /workspace and /tmp can be written."],
  "no permission": ["This path is not open to the sandbox. Only /workspace and /tmp can be written.",
    "This path is not open here. Only /workspace and /tmp can be written."],
  "not permitted": ["Do without this call: the sandbox does not permit it.",
    "This call is not permitted here. Do without it."],
  "disk space": ["Delete files, or raise the limit workspace_size (workspace_files; tmp_size for /tmp).",
    "Delete files that are not needed, or write less."],
  "file size": ["Write smaller files, or raise the limit file_size.",
    "Write smaller files."],
  "open files": ["Close files when done, or raise the limit open_files.",
    "Close files when done."],
  "memory": ["Use less at a time, or raise the limit memory.",
    "Use less at a time: read in parts, delete variables that are no longer needed."],
  "processes": ["Start fewer processes and threads at a time, or raise the limit processes.",
    "Start fewer processes and threads at a time."],
  "files in memory": ["Delete files, or raise the limit memory.",
    "Delete files that are not needed, or write less."],
  "workspace_size": ["Delete files, or raise the limit workspace_size.",
    "Delete files that are not needed, or write less."],
  "workspace_files": ["Delete files, or raise the limit workspace_files.",
    "Delete files that are not needed, or make fewer."],
  "tmp_size": ["Delete files, or raise the limit tmp_size.",
    "Delete files of /tmp that are not needed."],
  "file_size": ["Write smaller files, or raise the limit file_size.",
    "Write smaller files."],
  "no input": ["input() had nothing to read. Give the code standard input with the option input.",
    "input() gets no answer here. Put the value into the code, or ask the user for it."],
  "shell line": ["This is a shell line, and the code is Python. Run it as a command, or begin it with !.",
    "This is a shell line, and the code is Python. Begin it with !, or use Python."],
  "timeout": ["",
    "Do less in one call; results of earlier calls stay."],
  "notebook": ["These notebook commands work: %time, %timeit, %cd, %pwd, %%bash, %%writefile and lines with !. Plots show by themselves.",
    "These notebook commands work: %time, %timeit, %cd, %pwd, %%bash, %%writefile and lines with !. Plots show by themselves. Write plain Python for the rest."],
// end
};
const PROGRAM = 0;
const MODEL = 1;

/** @param {string | null | undefined} cause begins with the mistake's name @param {number} reader */
function words(cause, reader) {
  const found = Object.keys(HINTS).find((name) => cause === name || cause?.startsWith(`${name} `));
  return (found && HINTS[found][reader]) || null;
}

/** @param {Record<string, unknown>} module that was not found */
function moduleWords({ name, templates, command }) {
  const [template] = Array.isArray(templates) ? templates : [];
  return template === undefined ?
    `'${name}' is not in the template of this session, and the sandbox has no network to install it. A template with it: ${command}; then open the session with the option template` :
    `${name} comes with template ${template}: open the session with the option template "${template}"`;
}

/** The limit in a denial, as a mistake of the table. @param {RawResult["denials"][number]} denial */
function limitOf({ source, rule, operation }) {
  if (source !== "limit") return null;
  const isOfFile = ["write", "create"].includes(operation ?? "");
  return isOfFile && rule?.startsWith("memory ") ? "files in memory" : rule;
}

/** Keys of limits whose mistakes have other names. @type {Record<string, string>} */
const KEYS = {
  "disk space": "workspace_size", "file size": "file_size", "open files": "open_files", "files in memory": "memory",
};

/** Add the hints to a result, which has only the names of mistakes. @param {RawResult} raw */
export function fillHints(raw) {
  const { error, denials, at_wake } = raw;
  const met = denials.find((one) => ["write", "create"].includes(one.operation ?? "") && limitOf(one));
  /** @param {string | null | undefined} cause */
  const ofCause = (cause) => {
    const mistake = met && cause === "disk space" ? limitOf(met) : cause;
    const later = at_wake?.find((key) => key === KEYS[mistake ?? ""] || `${mistake} `.startsWith(`${key} `));
    return later ? `The new limit ${later} applies at the next wake: hibernate the session.` : words(mistake, PROGRAM);
  };
  if (error?.module) error.hint = moduleWords(error.module);
  else if (error) error.hint = ofCause(error.cause) ?? error.hint;
  for (const denial of denials) {
    denial.hint = ofCause(limitOf(denial) ?? denial.rule) ?? denial.hint;
  }
}

/** The hint of a result, for a model. @param {RawResult} raw */
export function hintForModel({ error }) {
  return error ? words(error.cause, MODEL) ?? error.hint : null;
}

/** The remedy for the limit of a result, for a model. @param {RawResult} raw */
export function wayForModel({ limit }) {
  const way = limit && words(limit.key, MODEL);
  return way ? `. ${way}` : "";
}
