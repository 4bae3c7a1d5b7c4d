// SPDX-License-Identifier: Apache-2.0
// The result of a cell.

import { ask } from "./connection.js";
import { CellFailed, CellTimeout, InvalidArgument, NotFound, wayOut } from "./errors.js";
import { fillHints } from "./hints.js";

/** @import {RawResult} from "../types/wire.d.ts" */

/** @typedef {Record<string, string | Uint8Array>} Display An object displayed by a cell: its forms by MIME type, text as string. */
/** @typedef {{stream: "stdout" | "stderr", text: string}} Output A piece of a cell's output. */
/** @typedef {Output | {stream: "value", text: string}} Piece A piece of a cell's output, or its value, which comes last. */

const CHUNK = 1 << 20;
const DENIALS_SHOWN = 4;

/** @param {string} mime whether this type is text (docs/result.md) */
const isText = (mime) => mime.startsWith("text/") || ["image/svg+xml", "application/json", "application/javascript"].includes(mime);

/**
 * One display, from its event.
 * @param {unknown[]} mime
 * @param {Buffer} raw
 */
function displayFrom(mime, raw) {
  /** @type {Display} */
  const display = Object.create(null);
  let at = 0;
  for (const row of mime) {
    if (!Array.isArray(row) || typeof row[0] !== "string" || !(row[1] >= 0) || at + row[1] > raw.length) break;
    const bytes = raw.subarray(at, at + row[1]);
    display[row[0]] = isText(row[0]) ? bytes.toString("utf8") : Uint8Array.from(bytes);
    at += row[1];
  }
  return display;
}

/** @param {RawResult} raw @returns {string[]} refused operations, as lines for people */
function denialLines({ denials, denials_dropped, limit, error }) {
  const refused = denials.filter(({ source }) => !limit || source !== "limit"); // else the limit already has a line
  const told = new Set([error?.hint, null]);
  const lines = refused.slice(0, DENIALS_SHOWN).flatMap(({ control, operation, object, rule, count, source, hint }) => {
    const what = `${operation}${object ? ` ${object}` : ""}${count > 1 ? ` (${count} times)` : ""}${rule ? `, ${rule}` : ""}`;
    const line = `denied: ${control}: ${what} [${source}]`;
    if (told.has(hint)) return [line];
    told.add(hint);
    return [line, `hint: ${hint}`];
  });
  const more = Math.max(refused.length - DENIALS_SHOWN, 0) + denials_dropped;
  return more > 0 ? [...lines, `denied: ${more} more`] : lines;
}

/** The events of a cell that are part of its result. @internal */
export class CellEvents {
  /** @type {Record<string, Buffer[]>} */
  #printed = { stdout: [], stderr: [] };
  /** @type {Display[]} */
  #displays = [];
  /** @type {Set<string>} */
  #cut = new Set();

  /** @param {string} name @param {any} event @param {Buffer} raw */
  take(name, event, raw) {
    if (name === "stdout" || name === "stderr") this.#printed[name].push(Buffer.from(raw));
    else if (name === "gap") this.#cut.add(event.stream);
    else if (name === "display" && Array.isArray(event.mime)) this.#displays.push(displayFrom(event.mime, raw));
  }

  /** @param {RawResult} raw */
  result(raw) {
    const [stdout, stderr] = [this.#printed.stdout, this.#printed.stderr].map((parts) => Buffer.concat(parts).toString("utf8"));
    return new Result(raw, stdout, stderr, this.#displays, this.#cut);
  }
}

/** The result of a cell: docs/result.md. */
export class Result {
  #cut;

  /**
   * @param {RawResult} raw
   * @param {string} stdout
   * @param {string} stderr
   * @param {Display[]} displays
   * @param {Set<string>} cut streams whose middle is left out
   * @internal
   */
  constructor(raw, stdout, stderr, displays, cut) {
    this.#cut = cut;
    /** The whole result, as in docs/result.md. */
    this.raw = raw;
    fillHints(raw);
    /** Standard output; only head and tail if it is longer than the limit `output`. */
    this.stdout = stdout;
    /** Standard error, as stdout. */
    this.stderr = stderr;
    /** Displayed objects, in order. */
    this.displays = displays;
  }

  /** repr of the last expression; null if there is none. For an object see Sandbox.get(). */
  get value() {
    return this.raw.value;
  }

  get status() {
    return this.raw.status;
  }

  /** State of the session after the cell: "kept", "rolled_back", "restored_from_checkpoint" or "lost". */
  get state() {
    return this.raw.state;
  }

  /** Whether the status is "ok". */
  get ok() {
    return this.raw.status === "ok";
  }

  /** Exit status of a command, or the argument of sys.exit(); null if there is none. */
  get exitCode() {
    return this.raw.exit_code;
  }

  /** Number of the cell in its session, from 1. */
  get cell() {
    return this.raw.cell;
  }

  /** The exception that ended the cell, or null. The code can forge all of it. */
  get error() {
    return this.raw.error;
  }

  /** The limit that ended or cut the cell; null if none did. */
  get limit() {
    return this.raw.limit;
  }

  /** Refused operations, each with its source: the first 32; raw.denials_dropped is the number of further ones. [] if none. */
  get denials() {
    return this.raw.denials;
  }

  /** "not saved since cell N: REASON" if the latest save of the session failed, else null. @returns {string | null} */
  get unsaved() {
    const row = /** @type {{text: string} | undefined} */ (this.raw.unsaved);
    return row ? row.text : null;
  }

  /** Resources used by the cell: microseconds and bytes; null: this host cannot measure it. */
  get usage() {
    return this.raw.usage;
  }

  /** Files changed by the cell, as paths below /workspace. */
  get files() {
    return this.raw.files;
  }

  /**
   * Read the full output of a stream, of which the property has at most head and tail. At most 64 MiB of a stream are
   * stored; a warning reports a longer one. NotFound: the full text is not stored, or no longer:
   * docs/result.md (output.handle).
   * @param {"stdout" | "stderr"} [stream]
   * @returns {Promise<string>}
   */
  async output(stream = "stdout") {
    if (stream !== "stdout" && stream !== "stderr") {
      throw new InvalidArgument(`"${stream}" is not a stream; use "stdout" or "stderr"`, { object: String(stream) });
    }
    if (!this.#cut.has(stream)) return this[stream];
    const { handle } = this.raw.output;
    if (handle === null) {
      throw new NotFound(`the full ${stream} of cell ${this.cell} is not stored`, { code: "not_found", object: String(this.cell) });
    }
    /** @type {Buffer[]} */
    const parts = [];
    for (let offset = 0; ;) {
      const { answer, raw } = await ask("output", { handle, stream, offset, length: CHUNK });
      parts.push(raw);
      offset += raw.length;
      if (!answer.eof && raw.length > 0) continue;
      if (answer.truncated) {
        process.emitWarning(`the rest of ${stream} was not stored (limit 64 MiB a stream, if the disk of the state folder has room)`, "SandboxWarning");
      }
      return Buffer.concat(parts).toString("utf8");
    }
  }

  /** Return this, or throw CellFailed if the status is not "ok"; CellTimeout if it is "timeout". */
  throwIfFailed() {
    if (!this.ok) throw this.status === "timeout" ? new CellTimeout(this) : new CellFailed(this);
    return this;
  }

  /** The cell's output and value, or its failure, refused operations and the limit that was reached. */
  toString() {
    const { limit } = this.raw;
    const way = limit ? `; ${wayOut({ kind: "raise_limit", name: limit.key })}` : "";
    return this.text(this.error?.hint ?? "", way, denialLines(this.raw));
  }

  /** The text for console.log(). @internal */
  [Symbol.for("nodejs.util.inspect.custom")]() {
    return this.toString() || `<Result: ${this.status}>`;
  }

  /** @param {string} hint @param {string} way remedy for the limit @param {string[]} denied @internal */
  text(hint, way, denied = []) {
    const { limit } = this.raw;
    const shown = this.displays.map((display) => String(display["text/plain"] ?? ""));
    let ending = this.value ?? "";
    if (this.error) ending = `${(this.error.traceback ?? `${this.error.type}: ${this.error.message}`).trimEnd()}\n${hint}`;
    else if (this.exitCode) ending = `exit status ${this.exitCode}`;
    else if (!this.ok && limit?.key !== this.status) ending = this.status;
    if (shown[shown.length - 1] === ending) shown.pop();
    const met = limit ? `${limit.key}: ${limit.text}${way}` : "";
    return [this.stdout, this.stderr, ...shown, ending, ...denied, met].map((part) => part.trimEnd()).filter(Boolean).join("\n");
  }
}
