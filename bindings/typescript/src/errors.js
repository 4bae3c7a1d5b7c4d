// SPDX-License-Identifier: Apache-2.0
// Errors, with remedies in names of this package.

/** @import {Failure} from "../types/wire.d.ts" */
/** @import {Result} from "./result.js" */

// Remedies by kind (docs/wire.md): {name} is filled in.
/** @type {Record<string, string>} */
const WAYS = {
  other_name: "choose another name",
  set_limit: "setLimits() changes it",
  clear_session: "to drop its variables and files, destroy() it",
  end_session: "destroy() a session that is not needed",
  no_session: "`snipara-sandbox doctor` says more",
  tier: 'pass {tier: "{name}"} to the Sandbox',
  weaker_tier: 'pass {tier: "{name}"} to the Sandbox; that tier contains less',
  allow_degraded: "pass {allowDegraded: true} to the Sandbox to run without it",
  allow_inexact: "leave out requireExact; `snipara-sandbox doctor` lists them",
  template: 'pass {template: "{name}"} to the Sandbox',
  add_template: "`snipara-sandbox template add` makes one",
  renew_template: "`snipara-sandbox template add {name} --replace` rebuilds it",
  allow_python: "`snipara-sandbox template add NAME --python {name}` allows it",
  state_dir: "or set SNIPARA_SANDBOX_STATE_DIR to a folder on another disk",
  list_sessions: "Sandbox.list() has all sessions",
  list_snapshots: "snapshots() has all of them",
  list_files: "files.list() has those of a folder",
  doctor: "`snipara-sandbox doctor` says more",
};
/** @type {Record<string, string>} */
const LIMIT_WAYS = {
  memory: "pass a higher memory to the Sandbox",
  timeout: "pass a higher timeout to run()",
  most: "pass {most: {value}} to files.read()",
  project_size: "pass {limits: {workspace_size: ...}} to the Sandbox, or choose a smaller folder",
  journal_budget: "remove snapshots, or raise it: snipara-sandbox gc --journal-budget SIZE",
};
/** @type {Record<string, string>} */
const RECOVER_WAYS = {
  replay: '{recover: "replay"} to run the missing cells again',
  skip: '{recover: "skip"} to run the others again',
  checkpoint: '{recover: "checkpoint"} to continue without them',
};

/** @param {Record<string, string>} words @param {string | undefined} key */
const find = (words, key) => key !== undefined && Object.hasOwn(words, key) ? words[key] : undefined;

/** @param {Failure["remedy"]} remedy @internal */
export function wayOut(remedy) {
  if (!remedy) return "";
  const ways = (remedy.ways ?? []).flatMap((way) => find(RECOVER_WAYS, way) ?? []);
  if (remedy.kind === "recover") return ways.length ? `pass to run() ${ways.join(", or ")}` : "";
  const isLimit = remedy.kind === "raise_limit";
  const words = isLimit ? find(LIMIT_WAYS, remedy.name) ?? "pass a higher limits.{name} to the Sandbox" : find(WAYS, remedy.kind) ?? "";
  return words.replace("{name}", remedy.name ?? "").replace("{value}", String(remedy.value));
}

/** A request failed. Failed code is not an error of this kind: see Result.status. */
export class SandboxError extends Error {
  /** Kind of the error, as on the wire: "invalid", "not_found", "limit"... */
  code = "internal";
  /** The subject: a session, a file, an option; "" if there is none. */
  object = "";
  /** The limit that was reached: "memory"; "" if none. */
  limit = "";
  /** Its value, in the unit of that limit. */
  limitValue = 0;
  /** The kind of remedy, a word of docs/wire.md: "raise_limit"; "" if there is none. */
  remedy = "";
  /** The object of the remedy: the nearest name, the limit to raise. */
  remedyName = "";
  /** The number of the remedy: a sufficient limit; -1 = none. */
  remedyValue = -1;

  /**
   * @param {string} message
   * @param {Partial<Failure>} [failure]
   * @internal
   */
  constructor(message, failure = {}) {
    const near = failure.remedy?.kind === "near_name" ? String(failure.remedy.name) : "";
    const way = near && !message.includes(near) ? `did you mean ${near}?` : wayOut(failure.remedy);
    super(way ? `${message}; ${way}` : message);
    this.code = failure.code ?? "internal";
    this.object = failure.object ?? "";
    this.limit = failure.limit?.name ?? "";
    this.limitValue = failure.limit?.value ?? 0;
    this.remedy = failure.remedy?.kind ?? "";
    this.remedyName = failure.remedy?.name ?? "";
    this.remedyValue = failure.remedy?.value ?? -1;
    this.name = new.target.name;
  }
}

/** An argument is wrong; the message says which. */
export class InvalidArgument extends SandboxError {
  /** @param {string} message @param {Partial<Failure>} [failure] @internal */
  constructor(message, failure) {
    super(message, { code: "invalid", ...failure });
  }
}

/** There is no such session, snapshot, file or template. */
export class NotFound extends SandboxError {}

/** A limit was reached: see .limit and .limitValue. */
export class LimitReached extends SandboxError {}

/** Policy forbids it. */
export class Denied extends SandboxError {}

/** This host or tier cannot do it. */
export class Unsupported extends SandboxError {}

/** A request, or a cell (CellTimeout), took too long. */
export class SandboxTimeout extends SandboxError {
  /** CellTimeout cannot extend this class, too. @param {unknown} error @returns {error is SandboxTimeout} */
  static [Symbol.hasInstance](error) {
    return (this === SandboxTimeout && error instanceof CellTimeout) || Function.prototype[Symbol.hasInstance].call(this, error);
  }
}

/**
 * The daemon ended during a call. The next call restores the session, or names the missing cells. history() shows
 * whether the interrupted call began.
 */
export class SandboxLost extends SandboxError {
  /** @param {string} message @param {Partial<Failure>} [failure] @internal */
  constructor(message, failure) {
    const way = failure?.remedy ? "" : "; the next call restores the session, or names the cells that are missing";
    super(message + way, { code: "peer", ...failure });
  }
}

/** A cell failed; from Result.throwIfFailed(). code is its status. */
export class CellFailed extends SandboxError {
  /** @param {Result} result @internal */
  constructor(result) {
    const { error, limit } = result.raw;
    const status = result.status;
    let text = status === "error" ? "the cell failed" : `the cell ended with status ${status}`;
    if (error && status === "error") {
      text = error.message ? `${error.type}: ${error.message}` : error.type;
      text += error.line === null ? "" : ` (line ${error.line} of the cell)`;
    } else if (status === "error" && result.exitCode) {
      text = `the command ended with exit status ${result.exitCode}`;
    }
    const isLater = limit && result.raw.at_wake?.includes(limit.key);
    text += limit ? ` (limit: ${limit.key} ${limit.text})` : "";
    super(isLater ? `${text}; the new limit applies at the next wake: hibernate()` : text, {
      code: status,
      limit: limit ? { name: limit.key, value: limit.value } : undefined,
      remedy: limit && !isLater ? { kind: "raise_limit", name: limit.key } : undefined,
    });
    if (error?.traceback) this.message += "\n\n" + error.traceback.trimEnd();
    /** The result of the cell. */
    this.result = result;
  }
}

/** A cell reached its time limit. It is an instanceof SandboxTimeout, too. */
export class CellTimeout extends CellFailed {}

/** @type {Record<string, typeof SandboxError>} */
const CLASSES = {
  invalid: InvalidArgument, not_found: NotFound, limit: LimitReached, denied: Denied, unsupported: Unsupported,
  timeout: SandboxTimeout, peer: SandboxLost,
};

/**
 * The exception for an ERROR of the protocol.
 * @param {Failure} failure
 * @internal
 */
export function errorFrom(failure) {
  const kind = Object.hasOwn(CLASSES, failure.code) ? CLASSES[failure.code] : SandboxError;
  return new kind(String(failure.message), failure);
}
