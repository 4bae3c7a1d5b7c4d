// SPDX-License-Identifier: Apache-2.0
// Processes that run beside the cells of a session.

import { constants } from "node:os";
import { StringDecoder } from "node:string_decoder";
import { Pending, ask } from "./connection.js";
import { InvalidArgument } from "./errors.js";
import { bytesOf } from "./given.js";

/** @import {Output} from "./result.js" */
/** @import {Data, Sandbox} from "./sandbox.js" */

/** @typedef {{exitCode: number | null, signal: string | null}} Ended How a process ended; exitCode null: by a signal. */

const LENGTH = 1 << 20;
const WRITE_MOST = 64 << 10; // bytes of one request
const WAIT_MS = 5000; // of one request

/**
 * A command that runs beside the cells of its session, until it exits or the session's sandbox ends.
 * `for await (const {stream, text} of process)` reads its output until it ends.
 */
export class Process {
  #sandbox;
  #at = { stdout: 0, stderr: 0 };
  #decoders = { stdout: new StringDecoder(), stderr: new StringDecoder() };
  #isRead = false;
  /** Number of the cell that started it. */
  number;
  /** Its program and arguments. */
  argv;

  /** @param {Sandbox} sandbox @param {number} number @param {string[]} argv @internal */
  constructor(sandbox, number, argv) {
    this.#sandbox = sandbox;
    this.number = number;
    this.argv = argv;
  }

  get #name() {
    return { session: this.#sandbox.name, process: this.number };
  }

  /**
   * Return the output since the last read, oldest first. wait: seconds, if there is none yet. Of each stream the last
   * bytes are stored, at most 256 KiB.
   * @param {number} [wait]
   * @returns {Promise<Output[]>}
   */
  async read(wait = 0) {
    const end = Date.now() + wait * 1000;
    for (;;) {
      const pieces = await this.#readOnce(Math.max(end - Date.now(), 0));
      if (pieces.length > 0 || this.#isRead || Date.now() >= end) return pieces;
    }
  }

  /** @param {number} waitMs @returns {Promise<Output[]>} */
  async #readOnce(waitMs) {
    const { answer, raw } = await new Pending("process.read", {
      ...this.#name, ...this.#at, length: LENGTH, wait_ms: Math.min(Math.round(waitMs), WAIT_MS),
    }).answer;
    this.#isRead = answer.eof;
    return (/** @type {const} */ (["stdout", "stderr"])).flatMap((stream) => {
      const part = stream === "stdout" ? raw.subarray(0, answer.stdout_len) : raw.subarray(answer.stdout_len);
      this.#at[stream] = answer[stream] + part.length;
      const text = this.#decoders[stream].write(part) + (this.#isRead ? this.#decoders[stream].end() : "");
      return text === "" ? [] : [{ stream, text }];
    });
  }

  /** @returns {AsyncGenerator<Output, void, void>} */
  async *[Symbol.asyncIterator]() {
    while (!this.#isRead) yield* await this.read(WAIT_MS / 1000);
  }

  /**
   * Write to standard input; waits while the process does not read. It needs start(..., {openInput: true}).
   * NotFound: the process has ended, or has closed its standard input.
   * @param {Data} data
   * @param {{close?: boolean}} [options] close: then close standard input
   */
  async write(data, { close = false } = {}) {
    let rest = bytesOf(data, "the data");
    do {
      const part = rest.subarray(0, WRITE_MOST);
      const { answer } = await new Pending("process.write", {
        ...this.#name, close: close && part.length === rest.length, wait_ms: WAIT_MS,
      }, part).answer;
      rest = rest.subarray(answer.written);
    } while (rest.length > 0);
  }

  /** Close standard input. */
  close() {
    return this.write("", { close: true });
  }

  /**
   * Wait for its end. null: it still runs after timeout seconds.
   * @param {number} [timeout]
   * @returns {Promise<Ended | null>}
   */
  async wait(timeout = Infinity) {
    const end = Date.now() + timeout * 1000;
    for (;;) {
      const wait_ms = Math.min(Math.max(Math.round(end - Date.now()), 0), WAIT_MS);
      const { answer } = await ask("process.read", { ...this.#name, stdout: 0, stderr: 0, length: 0, wait_ms });
      if (answer.state === "ended") return { exitCode: answer.exit_code, signal: answer.signal };
      if (Date.now() >= end) return null;
    }
  }

  /**
   * Send a signal to its process group. False: it had ended.
   * @param {string | number} [name] "TERM" if not given
   */
  async signal(name = "TERM") {
    const named = typeof name === "number" ? name : constants.signals[/** @type {NodeJS.Signals} */ (`SIG${name.toUpperCase().replace(/^SIG/, "")}`)];
    if (named === undefined) throw new InvalidArgument(`there is no signal "${name}"`, { object: String(name) });
    return (await ask("process.signal", { ...this.#name, signal: named })).answer.sent;
  }
}
