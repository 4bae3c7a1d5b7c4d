// SPDX-License-Identifier: Apache-2.0
// Frames of the protocol (docs/wire.md): a header, a JSON object, bytes.

import { LimitReached, SandboxLost } from "./errors.js";

const HEADER = 16;
const HEAD_MOST = 4 << 20;
const BODY_MOST = 16 << 20;
export const REQUEST = 1;
export const RESPONSE = 2;
export const ERROR = 3;
export const EVENT = 4;

/** @typedef {{type: number, id: number, head: any, raw: Buffer}} Frame */

/**
 * @param {number} type
 * @param {number} id
 * @param {object} head
 * @param {Uint8Array} raw
 */
export function encodeFrame(type, id, head, raw) {
  const text = Buffer.from(JSON.stringify(head));
  if (text.length > HEAD_MOST || text.length + raw.length > BODY_MOST) {
    throw new LimitReached("the request has more than 16 MiB, or 4 MiB besides code and data", { code: "limit" });
  }
  const header = Buffer.alloc(HEADER);
  header.writeUInt32LE(text.length + raw.length, 0);
  header.writeUInt32LE(id, 4);
  header.writeUInt32LE(text.length, 8);
  header[12] = type;
  return Buffer.concat([header, text, raw]);
}

/** Collects received bytes and yields whole frames. */
export class FrameReader {
  /** @type {Buffer[]} */
  #parts = [];
  #size = 0;
  #needed = HEADER;

  /**
   * SandboxLost: the peer broke the protocol, and no later bytes can be read.
   * @param {Buffer} bytes
   * @returns {Generator<Frame>}
   */
  *take(bytes) {
    this.#parts.push(bytes);
    this.#size += bytes.length;
    if (this.#size < this.#needed) return;
    let rest = this.#parts.length === 1 ? bytes : Buffer.concat(this.#parts);
    this.#needed = HEADER;
    while (rest.length >= HEADER) {
      const body = rest.readUInt32LE(0);
      const head = rest.readUInt32LE(8);
      if (body > BODY_MOST || head > HEAD_MOST || head > body || rest.readUIntLE(13, 3) !== 0) {
        throw new SandboxLost("the daemon sent a frame that breaks the protocol");
      }
      this.#needed = HEADER + body;
      if (rest.length < this.#needed) break;
      const frame = rest.subarray(HEADER, this.#needed);
      yield { type: rest[12], id: rest.readUInt32LE(4), head: headOf(frame.subarray(0, head)), raw: frame.subarray(head) };
      rest = rest.subarray(this.#needed);
      this.#needed = HEADER;
    }
    this.#parts = rest.length > 0 ? [rest] : [];
    this.#size = rest.length;
  }
}

/** @param {Buffer} text */
function headOf(text) {
  try {
    const head = text.length === 0 ? {} : JSON.parse(text.toString("utf8"));
    if (typeof head === "object" && head !== null && !Array.isArray(head)) return head;
  } catch {
    // as below
  }
  throw new SandboxLost("the daemon sent a message that is not a JSON object");
}
