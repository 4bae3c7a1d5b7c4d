// SPDX-License-Identifier: Apache-2.0
// Sessions and their methods.

import { spawnSync } from "node:child_process";
import { randomBytes } from "node:crypto";
import { setMaxListeners } from "node:events";
import { realpathSync } from "node:fs";
import { resolve as absolute } from "node:path";
import { StringDecoder } from "node:string_decoder";
import { runCommand } from "./commands.js";
import { Pending, ask } from "./connection.js";
import { findProgram } from "./daemon.js";
import { InvalidArgument, LimitReached, NotFound } from "./errors.js";
import { bytesOf, checkOptions } from "./given.js";
import { limitsFor } from "./limits.js";
import { Process } from "./process.js";
import { CellEvents } from "./result.js";
import { Stream } from "./stream.js";
import { checkCell, getter, jsonOf, setter, valueOf } from "./values.js";

/** @import {Methods, RawResult} from "../types/wire.d.ts" */
/** @import {Connection} from "./connection.js" */
/** @import {Limits} from "./limits.js" */
/** @import {Applied, ApplyOptions, Diff, Exported, ImportOptions, ProjectDiff} from "./commands.js" */
/** @import {Output, Piece, Result} from "./result.js" */

/** @typedef {Methods["exec"]["request"]} ExecRequest */
/** @typedef {Methods["history"]["answer"]["cells"][number]} Cell A cell of a session's history. */
/** @typedef {Methods["ls"]["answer"]["entries"][number]} Entry An entry of a folder. */
/** @typedef {Methods["sessions.list"]["answer"]["sessions"][number]} Session A row of Sandbox.list(). */
/** @typedef {{name: string, id: string, cell: number}} Snapshot A snapshot of a session: its state after that cell. */
/** @typedef {string | Uint8Array} Data Bytes, or text as UTF-8. */

/**
 * Options of a new session.
 * @typedef {object} SandboxOptions
 * @property {string} [name] 1 to 64 characters of A-Z a-z 0-9 . _ -; opens or makes the session of that name, which stays afterwards. Without a name: a new session, destroyed by close(), or when this object or the program ends.
 * @property {number} [timeout] seconds of one cell: 0.05 to 600, 30 if not given
 * @property {string | number} [memory] "512m", or bytes
 * @property {string} [template] "base", "data", "plot", or an added one
 * @property {string} [project] a folder shown at /workspace, never written to
 * @property {Record<string, string>} [env] variables for the code
 * @property {string} [tier] "native", "local", "auto"; the strongest of this host if not given
 * @property {Limits} [limits] other limits by name, as in {cpus: 2, workspace_size: "2g"}
 * @property {boolean} [allowDegraded] run without a control that this host lacks
 * @property {boolean} [requireExact] refuse if a control is approximate
 */

/**
 * N sandboxes: a tuple for a number up to 4.
 * @template {number} N
 * @typedef {N extends 1 ? [Sandbox] : N extends 2 ? [Sandbox, Sandbox] : N extends 3 ? [Sandbox, Sandbox, Sandbox] :
 *   N extends 4 ? [Sandbox, Sandbox, Sandbox, Sandbox] : Sandbox[]} Forks
 */

/**
 * @typedef {object} Query
 * @property {string | null} system instructions given by the code
 * @property {number | null} maxTokens most tokens of the answer
 */

/**
 * @typedef {object} StreamOptions
 * @property {number} [timeout] seconds of this cell; the session's limit if not given
 * @property {Data} [input] standard input
 * @property {boolean} [atomic] undo the cell's effects if it fails
 * @property {"replay" | "skip" | "checkpoint"} [recover] how to handle cells lost in a crash; if not given, the call fails with Denied and names them
 * @property {AbortSignal} [signal] ends the cell; the call fails with the signal's reason, and the session continues
 * @property {(prompt: string, query: Query) => string | Promise<string>} [query] answers llm_query() and llm_query_batched() in the code
 */

/** @typedef {StreamOptions & {onOutput?: (piece: Output) => void}} RunOptions onOutput: called with each piece of output; if it throws, the cell ends. */

const FILE_MOST = 1 << 30;
const CHUNK = 1 << 20;
const PROMPTS_MOST = 100; // of one call; the functions inside have the same limit
const ANSWER_MOST = (4 << 20) - 64;

const IMPORT_OPTIONS = ["name", "tier", "limits", "allowDegraded", "requireExact"];
const APPLY_OPTIONS = ["paths", "allow", "unverified", "reviewed", "projectMoved"];
const OPTIONS = ["name", "timeout", "memory", "template", "project", "env", "tier", "limits", "allowDegraded", "requireExact"];
const RUN_OPTIONS = ["timeout", "input", "atomic", "recover", "signal", "query", "onOutput"];

// Sessions that end with this program --------------------------------------------------------

/** @type {Set<string>} */
const own = new Set();
const collected = new FinalizationRegistry((/** @type {string} */ name) => {
  if (own.delete(name)) ask("sessions.destroy", { session: name }).catch(() => {});
});
process.on("beforeExit", () => {
  for (const name of own) ask("sessions.destroy", { session: name }).catch(() => {});
  own.clear();
});
process.on("exit", () => { // asynchronous calls are no longer possible
  for (const name of own) {
    try {
      spawnSync(findProgram(), ["sessions", "destroy", name], { stdio: "ignore", cwd: "/" });
    } catch {
      return; // the daemon has ended
    }
  }
});

// Cells --------------------------------------------------------------------------------------

/**
 * Run a cell.
 * @param {ExecRequest} request
 * @param {Uint8Array} code
 * @param {RunOptions} options
 * @returns {Promise<Result>}
 */
function runCell(request, code, { input, signal, query, onOutput, timeout, atomic, recover }) {
  const events = new CellEvents();
  const decoders = { stdout: new StringDecoder(), stderr: new StringDecoder() };
  return new Promise((resolve, reject) => {
    /** @param {unknown} why */
    const stop = (why) => {
      pending.interrupt(why);
      reject(why);
    };
    /** @param {() => void} told */
    const tell = (told) => {
      try {
        told();
      } catch (error) {
        stop(error);
      }
    };
    signal?.throwIfAborted();
    const pending = new Pending("exec", {
      ...request,
      code_len: code.length,
      stdin: input !== undefined,
      stream: onOutput !== undefined,
      atomic: Boolean(atomic),
      calls: query !== undefined,
      recover: recover ?? null,
      limits: { ...request.limits, ...(timeout === undefined ? {} : limitsFor({ timeout })) },
    }, input === undefined ? code : Buffer.concat([code, bytesOf(input, "input")]), (name, event, raw) => {
      events.take(name, event, raw);
      if (onOutput && (name === "stdout" || name === "stderr")) {
        const text = decoders[name].write(raw);
        if (text) tell(() => onOutput({ stream: name, text }));
      } else if (name === "call" && query) {
        void answerQuery(raw, query).then((answer) => pending.answerCall(event.call, !("error" in answer), JSON.stringify(answer)));
      }
    });
    const onAbort = () => stop(signal?.reason);
    if (signal) setMaxListeners(0, signal); // many cells may share one signal
    signal?.addEventListener("abort", onAbort, { once: true });
    pending.answer.then(({ answer }) => resolve(events.result(answer))).catch(reject).finally(() => signal?.removeEventListener("abort", onAbort));
  });
}

/**
 * @param {Buffer} raw
 * @param {NonNullable<StreamOptions["query"]>} query
 * @returns {Promise<object>}
 */
async function answerQuery(raw, query) {
  try {
    const { prompts, system, max_tokens } = JSON.parse(raw.toString("utf8"));
    const isText = [...prompts, system ?? ""].every((one) => typeof one === "string");
    if (prompts.length > PROMPTS_MOST || !isText || !Number.isInteger(max_tokens ?? 1)) throw new TypeError("not of llm_query");
    const results = await Promise.all(prompts.map(async (/** @type {string} */ prompt) => {
      try {
        return { response: String(await query(prompt, { system, maxTokens: max_tokens })), cut_off: false };
      } catch (error) {
        return { error: error instanceof Error ? error.message : String(error) };
      }
    }));
    if (Buffer.byteLength(JSON.stringify(results)) > ANSWER_MOST) return { error: "the answer has more than 4 MiB" };
    return { results };
  } catch {
    return { error: "the call is not one of llm_query" }; // the call was not made by llm_query
  }
}

// Sessions -----------------------------------------------------------------------------------

/** Files of a session. Paths are below /workspace: "data/a.csv". */
export class Files {
  #sandbox;

  /** @param {Sandbox} sandbox @internal */
  constructor(sandbox) {
    this.#sandbox = sandbox;
  }

  /**
   * Read a whole file. most: bytes, 1 GiB if not given. NotFound: no such file; LimitReached: it is larger.
   * @param {string} path
   * @param {{most?: number}} [options]
   * @returns {Promise<Uint8Array>}
   */
  async read(path, { most = FILE_MOST } = {}) {
    await this.#sandbox.open();
    /** @type {Buffer[]} */
    const parts = [];
    /** @type {Connection | undefined} used for earlier parts: another daemon may have another file */
    let connection;
    for (let offset = 0; ;) {
      const part = new Pending("get", { session: this.#sandbox.name, path, offset, length: CHUNK }, undefined, undefined, connection);
      const { answer, raw } = await part.answer;
      connection = part.call.connection ?? undefined;
      if (answer.size > most) {
        throw new LimitReached(`${path} has ${answer.size} bytes, more than the ${most} asked for`, {
          code: "limit", object: path, limit: { name: "most", value: most }, remedy: { kind: "raise_limit", name: "most", value: answer.size },
        });
      }
      parts.push(raw);
      offset += raw.length;
      if (answer.eof || raw.length === 0) return Buffer.concat(parts);
    }
  }

  /**
   * Read a file as UTF-8. TypeError: it is not UTF-8.
   * @param {string} path
   * @param {{most?: number}} [options]
   */
  async readText(path, options) {
    return new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(await this.read(path, options));
  }

  /**
   * Write a whole file. A path that ends in "/" makes a folder. LimitReached: no room.
   * @param {string} path
   * @param {Data} data
   * @param {{mode?: number}} [options] mode: permissions, 0o644 if not given
   */
  async write(path, data, { mode = 0o644 } = {}) {
    const bytes = bytesOf(data, "the data of a file");
    await this.#sandbox.open();
    let offset = 0;
    let part;
    /** @type {Connection | undefined} used for earlier parts: another daemon may not have them */
    let connection;
    do { // a part shorter than CHUNK is the last; it may be empty
      part = bytes.subarray(offset, offset + CHUNK);
      const put = new Pending("put", { session: this.#sandbox.name, path, offset, truncate: true, mode }, part, undefined, connection);
      this.#sandbox.warn((await put.answer).answer);
      connection = put.call.connection ?? undefined;
      offset += CHUNK;
    } while (part.length === CHUNK);
  }

  /**
   * List a folder. NotFound: no such folder.
   * @param {string} [path]
   * @returns {Promise<Entry[]>}
   */
  async list(path = ".") {
    await this.#sandbox.open();
    return (await ask("ls", { session: this.#sandbox.name, path })).answer.entries;
  }
}

/**
 * A session, in which code runs contained.
 *
 *     await using s = await Sandbox.create();
 *     (await s.run("6 * 7")).value    // "42"
 *
 * Cells of a session run one after the other. Every method may fail with a SandboxError. SandboxLost: the daemon ended;
 * the next call restores the session.
 */
export class Sandbox {
  /** Name of the session. */
  name;
  /** Whether the session stays when this object is closed. */
  isKept;
  /** Its files. */
  files = new Files(this);
  /** @type {Promise<void> | null} */
  #open = null;
  #mayExist;
  #isClosed = false;
  /** Warnings already emitted. @type {Set<string>} */
  #warned = new Set();
  /** @type {Partial<ExecRequest>} */
  #policy = {};

  /** A session, opened at its first use; the constructor sends no request to the daemon. @param {SandboxOptions} [options] */
  constructor(options = {}) {
    const { name, timeout, memory, template, project, env, tier, limits, allowDegraded, requireExact } = options;
    checkOptions(options, OPTIONS, "a sandbox");
    if (name !== undefined && !/^[A-Za-z0-9_][A-Za-z0-9._-]{0,63}$/.test(name)) {
      throw new InvalidArgument(`"${name}" is not a valid session name: 1 to 64 characters of A-Z a-z 0-9 . _ -, not beginning with . or -`, { object: name });
    }
    this.name = name ?? `js-${randomBytes(6).toString("hex")}`;
    this.isKept = name !== undefined;
    this.#mayExist = this.isKept;
    const engine = tier === "docker" ? process.env.DOCKER_HOST : ""; // for this program, not for the daemon
    this.#policy = {
      ...(engine ? { defaults: { rootfs: `##${engine.replace(/^(unix|tcp):\/\//, "").replace(/^localhost:/, "127.0.0.1:")}` } } : {}),
      tier: tier ?? null, template: template ?? null, project: project === undefined ? null : realFolder(project),
      env: env && Object.keys(env).length > 0 ? env : null, limits: limitsFor({ ...limits, timeout: timeout ?? limits?.timeout, memory: memory ?? limits?.memory }),
      allow_degraded: Boolean(allowDegraded), require_exact: Boolean(requireExact), attached: !this.isKept, temporary: !this.isKept,
    };
  }

  /**
   * Make a session, or open the one of that name, and make it ready.
   * @param {SandboxOptions} [options]
   */
  static async create(options) {
    const made = new Sandbox(options);
    await made.open();
    return made;
  }

  /** List all sessions of this user. @returns {Promise<Session[]>} */
  static async list() {
    return (await ask("sessions.list", {})).answer.sessions;
  }

  #checkOpen() {
    if (this.#isClosed) throw new InvalidArgument("this sandbox was closed; make another one", { object: this.name });
  }

  /** Make the session ready; other methods do so automatically. */
  async open() {
    this.#checkOpen();
    this.#open ??= this.#doOpen().catch((error) => {
      this.#open = null;
      throw error;
    });
    await this.#open;
  }

  async #doOpen() {
    if (this.#mayExist) {
      try {
        await ask("sessions.show", { session: this.name });
        return;
      } catch (error) {
        if (!(error instanceof NotFound)) throw error;
      }
    }
    (await this.#run("", "python", {})).throwIfFailed();
  }

  /**
   * @param {Data} code
   * @param {"python" | "command" | "process"} kind
   * @param {RunOptions} options
   * @param {boolean} [internal] code of this package
   * @param {Partial<ExecRequest>} [line] the command
   */
  async #run(code, kind, options, internal, line = kind === "command" ? { argv: ["/bin/sh", "-c", String(code)] } : {}) {
    this.#checkOpen();
    const bytes = bytesOf(code, "the code");
    checkOptions(options, RUN_OPTIONS, "a cell");
    this.#begun();
    /** @param {Partial<ExecRequest>} more */
    const cell = (more) => runCell({ ...this.#policy, session: this.name, kind, ...line, ...more }, kind === "command" ? Buffer.alloc(0) : bytes, options);
    const result = await (internal ? cell({ internal }) : cell({})).catch((error) => {
      if (!internal || !String(error).includes("exec: unknown member ")) throw error;
      return cell({}); // an older daemon; its history() lists the cell
    });
    this.#open ??= Promise.resolve();
    this.warn(result.raw, ...(result.raw.not_applied ?? []).map(({ setting, session, asked }) =>
      `session ${this.name} keeps its ${setting} ${session}; DOCKER_HOST (${asked}) applies to new sessions`));
    return result;
  }

  /**
   * Emit warnings, each once; the first is about an answer of a session that is not saved.
   * @param {object} answer @param {string[]} warnings @internal
   */
  warn(answer, ...warnings) {
    const { unsaved } = /** @type {{unsaved?: {text: string}}} */ (answer);
    if (unsaved) warnings.push(`session ${this.name}: ${unsaved.text}`);
    for (const warning of warnings) {
      if (!this.#warned.has(warning)) process.emitWarning(warning, "SandboxWarning");
      this.#warned.add(warning);
    }
  }

  /** From now on the session may exist, so make sure that it is destroyed. */
  #begun() {
    this.#mayExist = true;
    if (!this.isKept && !own.has(this.name)) {
      own.add(this.name);
      collected.register(this, this.name, this);
    }
  }

  /**
   * Run Python code. Failing code does not throw: see Result.ok and Result.throwIfFailed().
   * @param {Data} code
   * @param {RunOptions} [options]
   * @returns {Promise<Result>}
   */
  run(code, options = {}) {
    return this.#run(code, "python", options);
  }

  /**
   * Run a /bin/sh line.
   * @param {string} line
   * @param {RunOptions} [options]
   * @returns {Promise<Result>}
   */
  sh(line, options = {}) {
    return this.#run(line, "command", options);
  }

  /**
   * Run Python code, and read its output as it arrives, then its value if it has one:
   * `for await (const {stream, text} of s.stream(code))`. The cell starts with the first read.
   * @param {Data} code
   * @param {StreamOptions} [options]
   * @returns {Stream<Piece, Result>}
   */
  stream(code, options = {}) {
    return new Stream(async (take, signal) => {
      const result = await this.#run(code, "python", { ...options, onOutput: take, signal });
      if (result.value !== null) take({ stream: "value", text: result.value });
      return result;
    }, options.signal);
  }

  /**
   * Start a command that runs beside the cells: a /bin/sh line, or a list of words. It has no time limit, and ends with
   * the session's sandbox.
   * @param {string | string[]} command
   * @param {{openInput?: boolean}} [options] openInput: for Process.write(); without it standard input is empty
   */
  async start(command, options = {}) {
    checkOptions(options, ["openInput"], "a process");
    const argv = typeof command === "string" ? ["/bin/sh", "-c", command] : command;
    const result = await this.#run("", "process", {}, false, { argv, open_stdin: Boolean(options.openInput) });
    return new Process(this, result.throwIfFailed().cell, argv);
  }

  /** List the session's processes, running and ended; none if its sandbox has ended. */
  async processes() {
    this.#checkOpen();
    const rows = this.#mayExist ? (await ask("process.list", { session: this.name })).answer.processes : [];
    return rows.map((row) => new Process(this, row.process, row.argv));
  }

  /**
   * Get a variable, or any Python expression, by JSON; integers beyond 2**53 are bigint. CellFailed: there is no such
   * variable, JSON has no form for it, or it has more than 8 MiB as JSON.
   * @template [T=any]
   * @param {string} expression
   * @returns {Promise<T>}
   */
  async get(expression) {
    const mark = randomBytes(8).toString("hex");
    return valueOf(await this.#run(getter(expression, mark), "python", {}, true), expression, mark);
  }

  /**
   * Set a variable by value, by JSON: bigint becomes int. TypeError: JSON has no form for it; LimitReached: it has more
   * than 8 MiB as JSON.
   * @param {string} name
   * @param {unknown} value
   */
  async set(name, value) {
    const code = setter(name);
    checkCell(await this.#run(code, "python", { input: jsonOf(value) }, true), null);
  }

  /**
   * Take a snapshot of variables and files. name: s1, s2... if not given.
   * @param {string} [name]
   * @returns {Promise<Snapshot>}
   */
  async snapshot(name) {
    await this.open();
    const { answer } = await ask("snapshot", { session: this.name, name: name ?? null });
    return { name: answer.name, id: answer.snapshot, cell: answer.cell };
  }

  /**
   * Roll variables and files back to a snapshot of this session.
   * @param {string | Snapshot} snapshot
   */
  async rollback(snapshot) {
    await this.open();
    await ask("rollback", { snapshot: this.#snapshotName(snapshot), session: this.name });
  }

  /** @param {string | Snapshot} snapshot */
  #snapshotName(snapshot) {
    if (typeof snapshot !== "string") return snapshot.id;
    return snapshot.includes("@") ? snapshot : `${this.name}@${snapshot}`;
  }

  /** @param {string | Snapshot | Sandbox} moment */
  #momentName(moment) {
    return moment instanceof Sandbox ? moment.name : this.#snapshotName(moment);
  }

  /**
   * Compare a with b: each is a snapshot, or a sandbox in its current state; b: this sandbox if not given. Without
   * arguments: the changes that apply() would make in the session's project.
   * @overload
   * @returns {Promise<ProjectDiff>}
   */
  /**
   * @overload
   * @param {string | Snapshot | Sandbox} a
   * @param {string | Snapshot | Sandbox} [b]
   * @returns {Promise<Diff>}
   */
  /** @param {string | Snapshot | Sandbox} [a] @param {string | Snapshot | Sandbox} [b] @returns {Promise<any>} */
  async diff(a, b = this) {
    await this.open();
    return runCommand(a === undefined ? ["diff", "--project", "--", this.name] : ["diff", "--", this.#momentName(a), this.#momentName(b)]);
  }

  /**
   * Write variables, files, limits and history of the session, or of a snapshot, into one file, for import() on another
   * machine. The file is not encrypted. Denied: the file exists, and force is not true.
   * @param {string} path
   * @param {{force?: boolean, snapshot?: string | Snapshot}} [options]
   * @returns {Promise<Exported>}
   */
  async export(path, options = {}) {
    checkOptions(options, ["force", "snapshot"], "export");
    const { force, snapshot } = options;
    await this.open();
    const from = snapshot === undefined ? this.name : this.#snapshotName(snapshot);
    return runCommand(["export", ...(force ? ["--force"] : []), "--", absolute(path), from]);
  }

  /**
   * Make a session from a file written by export(). It stays, like one with a name. Warnings list what differs from the
   * file and what could not be restored.
   * @param {string} path
   * @param {ImportOptions} [options]
   */
  static async import(path, options = {}) {
    checkOptions(options, IMPORT_OPTIONS, "import");
    const { name, tier, limits = {}, allowDegraded, requireExact } = options;
    limitsFor(limits); // checks the limits
    const words = Object.entries({ name, env: tier, ...limits }).filter(([, value]) => value !== undefined)
      .map(([key, value]) => `--${key.replaceAll("_", "-")}=${value}`);
    if (allowDegraded) words.push("--allow-degraded");
    if (requireExact) words.push("--require-exact");
    const made = await runCommand(["import", ...words, "--", absolute(path)]);
    /** @param {{name: string, reason: string}[]} rows @param {string} what */
    const lines = (rows, what) => rows.map((row) => `${row.name} ${what}: ${row.reason}`);
    for (const note of [...made.notes, ...lines(made.lost, "was not in the file"), ...lines(made.failed, "could not be restored")]) {
      process.emitWarning(note, "SandboxWarning");
    }
    return new Sandbox({ name: made.name });
  }

  /**
   * Apply the session's changes to its project, like `snipara-sandbox apply --yes`: see docs/reference/cli.md.
   * Denied: a check failed, and nothing was applied.
   * @param {ApplyOptions} [options]
   * @returns {Promise<Applied>}
   */
  async apply(options = {}) {
    checkOptions(options, APPLY_OPTIONS, "apply");
    const { paths = [], allow = [], unverified, reviewed, projectMoved } = options;
    await this.open();
    const flags = Object.entries({ unverified, reviewed, "project-moved": projectMoved }).filter(([, given]) => given).map(([name]) => `--${name}`);
    return runCommand(["apply", "--yes", ...flags, ...[allow].flat().map((file) => `--allow=${file}`), "--", this.name, ...[paths].flat()]);
  }

  /**
   * Make n (1 to 64) sessions that continue from this one. name: prefix of their names; then they stay.
   * @template {number} [N=1]
   * @param {N} [n]
   * @param {{name?: string}} [options]
   * @returns {Promise<Forks<N>>}
   */
  async fork(n, { name } = {}) {
    await this.open();
    const { answer } = await ask("fork", { from: this.name, n: n ?? 1, name: name ?? null, temporary: name === undefined });
    return /** @type {Forks<N>} */ (answer.sessions.map((row) => {
      const made = new Sandbox();
      made.name = row.name;
      made.isKept = name !== undefined;
      made.#policy = { attached: !made.isKept }; // else it would have its parent's
      made.#open = Promise.resolve();
      made.#begun();
      return made;
    }));
  }

  /**
   * List the session's cells, newest first.
   * @param {number} [limit] at most 1000
   * @returns {Promise<Cell[]>}
   */
  async history(limit = 50) {
    this.#checkOpen();
    return this.#mayExist ? (await ask("history", { session: this.name, limit })).answer.cells : [];
  }

  /**
   * Get the result of an earlier cell, with its output and displays. NotFound: it has no result.
   * @param {number} cell
   * @returns {Promise<Result>}
   */
  async result(cell) {
    await this.open();
    const events = new CellEvents();
    const { answer } = await new Pending("cell.show", { session: this.name, cell }, undefined, (...event) => events.take(...event)).answer;
    if (!answer.result) throw new NotFound(`cell ${cell} has no result: it is running, or the result was removed to save disk space`);
    return events.result(/** @type {RawResult} */ (/** @type {unknown} */ (answer.result)));
  }

  /** Interrupt the running cell. True: there was one; its status will be "interrupted". */
  async interrupt() {
    this.#checkOpen();
    return this.#mayExist && (await ask("interrupt", { session: this.name })).answer.interrupted;
  }

  /**
   * Change limits of the session permanently. Returns the names of limits that apply at the next wake; hibernate() ends
   * the sandbox.
   * @param {Limits} limits as in {memory: "1g", timeout: 60}
   * @returns {Promise<string[]>}
   */
  async setLimits(limits) {
    const wanted = limitsFor(limits);
    await this.open();
    const { answer } = await ask("sessions.set", { session: this.name, limits: wanted });
    for (const name of Object.keys(this.#policy.limits ?? {})) { // sent again with each cell
      if (this.#policy.limits && name in wanted) this.#policy.limits[name] = wanted[name];
    }
    return answer.at_wake;
  }

  /** Save the session and end its sandbox; the next cell wakes it. */
  async hibernate() {
    await this.open();
    await ask("hibernate", { session: this.name });
  }

  /** Destroy the session permanently, with its files and snapshots. */
  async destroy() {
    if (!this.#mayExist) return;
    own.delete(this.name);
    collected.unregister(this);
    await ask("sessions.destroy", { session: this.name });
    this.#open = null;
  }

  /** Destroy the session, unless a name was given. This object cannot be used afterwards. */
  async close() {
    this.#isClosed = true;
    if (!own.has(this.name)) return;
    await this.destroy().catch((error) => {
      if (!(error instanceof NotFound)) throw error;
    });
  }

  /** For `await using`; Node before 18.18 has no such symbol. */
  [Symbol.asyncDispose]() {
    return this.close();
  }
}

/** @param {string} folder @returns {string} */
function realFolder(folder) {
  try {
    return realpathSync(folder);
  } catch {
    throw new NotFound(`project: ${folder} is not a folder`, { code: "not_found", object: folder });
  }
}
