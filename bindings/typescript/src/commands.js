// SPDX-License-Identifier: Apache-2.0
// Commands on files of this machine. Each runs in a separate process of the program, which does all checks.

import { Pending } from "./connection.js";
import { LimitReached, SandboxError, SandboxLost } from "./errors.js";
import { startProcess } from "./runs.js";

/** @import {Methods} from "../types/wire.d.ts" */
/** @import {Limits} from "./limits.js" */

/** @typedef {Methods["diff"]["answer"] & {files: {unified?: string | null}[]}} Diff What `snipara-sandbox diff A B --json` prints; unified: the differences of a text file. */
/** @typedef {Methods["export"]["answer"]} Exported What `snipara-sandbox export --json` prints. */

/**
 * A file of a ProjectDiff, on one side of it.
 * @typedef {object} ProjectSide
 * @property {"file" | "link" | "folder" | "other"} type
 * @property {boolean} [executable] of a file
 * @property {number} [size] bytes of a file
 * @property {string} [sha256] of a file
 * @property {string} [target] of a link
 */

/**
 * What `snipara-sandbox diff --project --json` prints.
 * @typedef {object} ProjectDiff
 * @property {string} session id
 * @property {string} project its folder
 * @property {string} sha256 of the patch
 * @property {number} left_out_caches number of cache files left out
 * @property {{path: string, base: ProjectSide | null, now: ProjectSide | null, unified?: string | null, refused?: string, must_be_named?: string}[]} files
 *   refused: why apply() does not write the file; must_be_named: why apply() writes it only with {allow: [path]}
 */

/**
 * @typedef {object} ApplyOptions
 * @property {string[]} [paths] only these files, or these folders with their contents
 * @property {string[]} [allow] files that are applied although tools run them automatically
 * @property {boolean} [unverified] apply without a verdict that the patch is ready; this is recorded
 * @property {boolean} [reviewed] a person has read the patch: apply it at high or critical risk; this is recorded
 * @property {boolean} [projectMoved] apply even if files changed in the project after the session began
 */

/**
 * @typedef {object} ImportOptions
 * @property {string} [name] the name in the file if not given
 * @property {string} [tier] as of a new session
 * @property {Limits} [limits] override those of the file, as in {memory: "1g"}; the others are lowered to the limits configured for new sessions
 * @property {boolean} [allowDegraded] make the session without a control that this host lacks
 * @property {boolean} [requireExact] refuse if a control is approximate
 */

/** @typedef {{session: string, project: string, sha256: string, applied: string[], verdict?: string, unverified: boolean, [more: string]: any}} Applied What `snipara-sandbox apply --json` prints; applied: paths. */

const ANSWER_MOST = 128 << 20; // bytes; a diff may be as large as a session's files

const lost = () => new SandboxLost("the process of the command ended", { remedy: { kind: "" } });

// Names of the command line, and names in this package.
const OUR_WORDS = Object.entries({
  "--allow PATH": "{allow: [PATH]}", "apply SESSION PATH...": "apply({paths: [PATH, ...]})", "exec --project DIR": "new Sandbox({project: DIR})",
  "run verify": "run `snipara-sandbox verify`", "--force": "{force: true}", "--unverified": "{unverified: true}",
  "--reviewed": "{reviewed: true}", "--project-moved": "{projectMoved: true}", "--allow-degraded": "{allowDegraded: true}",
});

/** @param {SandboxError} error of a command */
function inOurWords({ message, object }) {
  const text = OUR_WORDS.reduce((said, [theirs, ours]) => said.replaceAll(theirs, ours), message);
  return text.startsWith("nothing was applied") && object ? `${text} (the first is ${JSON.stringify(object)})` : text;
}

/**
 * Run a command, and return its output with --json.
 * @param {string[]} words
 * @returns {Promise<any>}
 * @internal
 */
export async function runCommand(words) {
  const connection = await startProcess(lost);
  /** @type {Buffer[]} */
  const parts = [];
  let size = 0;
  try {
    await new Pending("command", { words }, undefined, (name, _, raw) => {
      if (name === "result" && (size += raw.length) > ANSWER_MOST) {
        connection.close(new LimitReached(`the answer of ${words[0]} has more than 128 MiB; run it on the command line`, { code: "limit" }));
      } else if (name === "result") parts.push(Buffer.from(raw));
      else if (name === "note") process.emitWarning(raw.toString("utf8").trim(), "SandboxWarning");
    }, connection).answer;
    return JSON.parse(Buffer.concat(parts).toString("utf8"));
  } catch (error) {
    if (error instanceof SandboxError) error.message = inOurWords(error);
    throw error;
  } finally {
    connection.close(null);
  }
}
