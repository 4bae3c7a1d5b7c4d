// SPDX-License-Identifier: Apache-2.0
// Pieces that precede a result.

import { SandboxError } from "./errors.js";

/**
 * Pieces as they arrive, then the result: `for await (const piece of stream)`, `await stream.result`. Leaving the loop
 * ends the cell or run.
 * @template P, R
 */
export class Stream {
  #begin;
  #signal;
  /** @type {Promise<R> | null} */
  #result = null;
  /** @type {P[]} */
  #pieces = [];
  #wake = () => {};
  #stop = new AbortController();
  #isDone = false;

  /**
   * @param {(take: (piece: P) => void, signal: AbortSignal) => Promise<R>} begin
   * @param {AbortSignal} [signal]
   * @internal
   */
  constructor(begin, signal) {
    this.#begin = begin;
    this.#signal = signal;
  }

  /** The result. The cell or run starts when the result or a piece is first requested. */
  get result() {
    this.#result ??= this.#start();
    return this.#result;
  }

  #start() {
    const signal = this.#signal;
    const onAbort = () => this.#stop.abort(signal?.reason);
    if (signal?.aborted) onAbort();
    signal?.addEventListener("abort", onAbort);
    const result = this.#begin((piece) => {
      this.#pieces.push(piece);
      this.#wake();
    }, this.#stop.signal);
    const done = () => {
      signal?.removeEventListener("abort", onAbort);
      this.#isDone = true;
      this.#wake();
    };
    result.then(done, done);
    return result;
  }

  /** @returns {AsyncGenerator<P, void, void>} */
  async *[Symbol.asyncIterator]() {
    const result = this.result;
    try {
      for (;;) {
        const piece = this.#pieces.shift();
        if (piece !== undefined) yield piece;
        else if (this.#isDone) break;
        else await new Promise((resolve) => { this.#wake = () => resolve(undefined); });
      }
      await result;
    } finally {
      if (!this.#isDone) this.#stop.abort(new SandboxError("the stream was left before its end", { code: "interrupted" }));
    }
  }
}
