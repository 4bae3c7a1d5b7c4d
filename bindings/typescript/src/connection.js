// SPDX-License-Identifier: Apache-2.0
// Requests to the daemon over a few connections, which are made when they are needed.

import { connect } from "node:net";
import { SandboxError, SandboxLost, SandboxTimeout, Unsupported, errorFrom } from "./errors.js";
import { ERROR, EVENT, FrameReader, REQUEST, RESPONSE, encodeFrame } from "./frame.js";
import { checkOwner, socketPath, startDaemon } from "./daemon.js";

/** @import {Socket} from "node:net" */
/** @import {Events, Methods} from "../types/wire.d.ts" */
/** @import {Frame} from "./frame.js" */

const VERSION = 1;
const OPEN_MOST = 32; // requests of one connection, as the daemon allows
const CALLS_MOST = 24; // of them; the rest is for interrupting and answering
const CONNECTIONS_MOST = 8; // beyond them calls wait
const HELLO_MS = 20_000;
const CONNECT_MS = 40_000;
const RETRY_MS = 20;
/** @type {Set<string | undefined>} */
const NOBODY = new Set(["ENOENT", "ECONNREFUSED", "ECONNRESET", "EPIPE", "EAGAIN"]); // or one that is exiting
/** @type {Set<string | undefined>} */
const UNREAD = new Set(["ECONNRESET", "EPIPE"]); // the kernel: the peer closed before it read all that was sent
const NOTHING = new Uint8Array(0);

/**
 * @template {keyof Methods} M
 * @typedef {{answer: Methods[M]["answer"], raw: Buffer}} Answer
 */
/**
 * @typedef {object} Call
 * @property {string} method
 * @property {object} request
 * @property {Uint8Array} raw
 * @property {((name: keyof Events, event: any, raw: Buffer) => void) | undefined} onEvent
 * @property {(answer: Answer<any>) => void} resolve
 * @property {(why: unknown) => void} reject
 * @property {Connection | null} connection null: it waits for one
 * @property {number} id
 * @property {boolean} mayRepeat it is sent to the next daemon, once, if this one ends before it reads it
 */

/** A stream to a peer that speaks the protocol. */
export class Connection {
  #reader = new FrameReader();
  #last = 0;
  /** @type {Map<number, Call>} */
  #calls = new Map();
  isClosed = false;
  /** The peer has closed it. */
  isGone = false;
  /** @type {[Call, Buffer][]} have no room yet */
  #late = [];
  /** @type {Call | null} the last that was sent */
  #newest = null;

  /**
   * @param {Socket} socket
   * @param {() => void} onRoom called when a call has ended, or the connection has
   * @param {() => SandboxError} [lost] what calls fail with if the peer goes away
   */
  constructor(socket, onRoom, lost = () => new SandboxLost("the daemon went away")) {
    this.socket = socket;
    this.lost = lost;
    this.onRoom = onRoom;
    socket.on("data", (bytes) => this.#take(bytes));
    for (const end of ["error", "end", "close"]) socket.on(end, (/** @type {any} */ why) => this.#gone(why?.code));
    socket.unref(); // while nothing is asked
  }

  /** @param {string} [code] of the system's error */
  #gone(code) {
    const call = this.#newest;
    this.isGone ||= !this.isClosed;
    if (!this.isClosed && call?.mayRepeat && UNREAD.has(code)) {
      this.#calls.delete(call.id);
      call.mayRepeat = false;
      call.connection = null; // it waits again
      waiting.unshift(call);
    }
    this.close(this.lost());
  }

  /** @param {Buffer} bytes */
  #take(bytes) {
    try {
      for (const frame of this.#reader.take(bytes)) this.#handle(frame);
    } catch (error) {
      this.close(error);
    }
  }

  /** @param {Frame} frame */
  #handle(frame) {
    const call = this.#calls.get(frame.id);
    if (frame.type === ERROR && frame.id === 0) throw errorFrom(frame.head); // about the connection
    if (frame.type !== EVENT && frame.type !== RESPONSE && frame.type !== ERROR) {
      throw new SandboxLost(`the daemon sent a frame of type ${frame.type}`);
    }
    if (!call) return;
    if (frame.type === EVENT) {
      call.onEvent?.(frame.head.event, frame.head, frame.raw);
      return;
    }
    this.#calls.delete(frame.id);
    if (this.#newest === call) this.#newest = null;
    if (this.#calls.size === 0) this.socket.unref(); // a program with nothing to wait for may end
    if (frame.type === ERROR) call.reject(errorFrom(frame.head));
    else call.resolve({ answer: frame.head, raw: frame.raw });
    const next = this.#late.shift();
    if (next) this.#send(...next);
    this.onRoom();
  }

  /** How many of its calls are open. */
  get nOpen() {
    return this.#calls.size + this.#late.length;
  }

  /** @param {Call} call @param {Buffer} frame */
  #send(call, frame) {
    this.#calls.set(call.id, call);
    this.#newest = call;
    this.socket.ref();
    this.socket.write(frame);
  }

  /** @param {Call} call */
  begin(call) {
    if (this.isClosed) throw this.lost();
    const id = this.#last + 1;
    const frame = encodeFrame(REQUEST, id, { method: call.method, ...call.request }, call.raw);
    this.#last = id;
    call.connection = this;
    call.id = id;
    if (this.#calls.size < OPEN_MOST) this.#send(call, frame);
    else this.#late.push([call, frame]);
  }

  /**
   * Ask beside all others, before what waits for a connection.
   * @template {keyof Methods} M
   * @param {M} method
   * @param {Methods[M]["request"]} request
   * @param {Uint8Array} [raw]
   */
  async ask(method, request, raw) {
    return new Pending(method, request, raw, undefined, this).answer;
  }

  /** @param {unknown} why what open calls fail with */
  close(why) {
    if (this.isClosed) return;
    this.isClosed = true;
    this.socket.destroy();
    const calls = [...this.#calls.values(), ...this.#late.map(([call]) => call)];
    this.#calls.clear();
    this.#late = [];
    for (const call of calls) call.reject(why);
    this.onRoom();
  }
}

// Connecting ---------------------------------------------------------------------------------

/** @param {string} path @returns {Promise<Socket | null>} null: nobody is there */
function connectOnce(path) {
  return new Promise((resolve, reject) => {
    const socket = connect({ path });
    socket.once("connect", () => resolve(socket.removeAllListeners("error")));
    socket.once("error", (/** @type {NodeJS.ErrnoException} */ error) => {
      if (NOBODY.has(error.code)) resolve(null);
      else reject(new SandboxError(`connect to ${path}: ${error.message}`, { code: "system" }));
    });
  });
}

/** @param {string} path @param {() => void} onRoom @returns {Promise<Connection | null>} null: a new daemon would help */
async function greet(path, onRoom) {
  const socket = checkOwner(path) ? await connectOnce(path) : null;
  if (!socket) return null;
  const connection = new Connection(socket, onRoom);
  const timer = setTimeout(() => connection.close(new SandboxTimeout("the daemon does not answer", { code: "timeout" })), HELLO_MS);
  try {
    await connection.ask("hello", { version: VERSION });
    return connection;
  } catch (error) {
    connection.close(error);
    if (error instanceof Unsupported) throw new Unsupported(`daemon and client do not match; stop the daemon and try again: ${error.message}`, { code: "unsupported" });
    if (connection.isGone) return null; // it was about to end
    throw error;
  } finally {
    clearTimeout(timer);
  }
}

/** @type {Promise<void> | null} one for all connections that are made meanwhile */
let starting = null;

/** @param {() => void} onRoom */
async function connectToDaemon(onRoom) {
  const path = socketPath();
  const end = Date.now() + CONNECT_MS;
  let connection = await greet(path, onRoom);
  while (!connection) {
    starting ??= startDaemon().finally(() => { starting = null; });
    await starting;
    connection = await greet(path, onRoom);
    if (!connection && Date.now() > end) throw new SandboxLost(`the daemon does not answer at ${path}`, { remedy: { kind: "doctor" } });
    if (!connection) await new Promise((resolve) => setTimeout(resolve, RETRY_MS));
  }
  return connection;
}

// Asking -------------------------------------------------------------------------------------

/** @type {{connection: Connection | null}[]} null: it is being made */
let places = [];
/** @type {Call[]} */
let waiting = [];

function fill() {
  const isDead = places.some((place) => place.connection?.isGone);
  for (const { connection } of places) {
    if (isDead && connection?.nOpen === 0) connection.close(null); // the others just do not know yet
  }
  places = places.filter((place) => !place.connection || !(isDead || place.connection.isClosed));
  while (waiting.length > 0) {
    const place = places.find((one) => one.connection && one.connection.nOpen < CALLS_MOST);
    if (!place?.connection) break;
    const call = /** @type {Call} */ (waiting.shift());
    try {
      place.connection.begin(call);
    } catch (error) {
      call.reject(error);
    }
  }
  const coming = places.filter((place) => !place.connection).length;
  if (waiting.length > coming * CALLS_MOST && places.length < CONNECTIONS_MOST) open();
}

function open() {
  /** @type {typeof places[0]} */
  const place = { connection: null };
  places.push(place);
  connectToDaemon(fill).then((connection) => {
    place.connection = connection;
    fill();
  }, (error) => {
    places = places.filter((one) => one !== place);
    const failed = places.length === 0 ? waiting : []; // else another connection has room some time
    if (failed.length > 0) waiting = [];
    for (const call of failed) call.reject(error);
  });
}

/**
 * What was asked, and how to take it back.
 * @template {keyof Methods} M
 */
export class Pending {
  /**
   * @param {M} method
   * @param {Methods[M]["request"]} request
   * @param {Uint8Array} [raw]
   * @param {Call["onEvent"]} [onEvent]
   * @param {Connection} [connection] to ask over; else one to the daemon
   */
  constructor(method, request, raw = NOTHING, onEvent, connection) {
    /** @type {Partial<Call>} */
    const call = { method, request, raw, onEvent, connection: null, id: 0, mayRepeat: connection === undefined };
    /** @type {Promise<Answer<M>>} */
    this.answer = new Promise((resolve, reject) => {
      Object.assign(call, { resolve, reject });
    });
    this.call = /** @type {Call} */ (call);
    if (connection) {
      connection.begin(this.call);
    } else {
      waiting.push(this.call);
      fill();
    }
  }

  /** Interrupt the cell; one that waits for a connection is not begun. @param {unknown} [why] what a cell not begun fails with */
  interrupt(why) {
    const { connection, id } = this.call;
    if (connection) {
      connection.ask("interrupt", { request: id }).catch(() => {}); // its own end says what happened
    } else {
      waiting = waiting.filter((call) => call !== this.call);
      this.call.reject(why);
    }
  }

  /** Answer a call of the code, or of the model. @param {number} number @param {boolean} ok @param {string} text */
  answerCall(number, ok, text) {
    const { connection, id } = this.call;
    connection?.ask("answer", { request: id, call: number, ok }, Buffer.from(text)).catch(() => {}); // no recipient
  }
}

/**
 * Ask the daemon, which is started if none runs: a request of docs/wire.md, and the bytes that go with it.
 * @template {keyof Methods} M
 * @param {M} method
 * @param {Methods[M]["request"]} members
 * @param {Uint8Array} [raw]
 * @returns {Promise<Answer<M>>}
 */
export function request(method, members, raw) {
  return new Pending(method, members, raw).answer;
}

/**
 * Ask what this package asks by itself: a daemon that does not know the method, or a member, has an older version.
 * @template {keyof Methods} M
 * @param {M} method
 * @param {Methods[M]["request"]} members
 * @returns {Promise<Answer<M>>}
 */
export async function ask(method, members) {
  try {
    return await request(method, members);
  } catch (error) {
    const message = error instanceof SandboxError ? error.message : "";
    if (!["unknown method ", `${method}: unknown member `].some((words) => message.startsWith(words))) throw error;
    throw new Unsupported(`the running daemon is older than this program (${message.split(";")[0]}); restart it with: snipara-sandbox daemon stop`,
      { code: "unsupported" });
  }
}
