// SPDX-License-Identifier: Apache-2.0
// Requests to the daemon over a few connections, made as needed.

import { connect } from "node:net";
import { SandboxError, SandboxLost, SandboxTimeout, Unsupported, errorFrom } from "./errors.js";
import { ERROR, EVENT, FrameReader, REQUEST, RESPONSE, encodeFrame } from "./frame.js";
import { checkOwner, checkState, socketPath, startDaemon } from "./daemon.js";

/** @import {Socket} from "node:net" */
/** @import {Events, Methods} from "../types/wire.d.ts" */
/** @import {Frame} from "./frame.js" */

const VERSION = 1;
const OPEN_MOST = 32; // requests of one connection, as the daemon allows
const CALLS_MOST = 24; // calls of one connection; the remaining requests are for interrupts and answers
const CONNECTIONS_MOST = 8; // further calls wait
const HELLO_MS = 20_000;
const CONNECT_MS = 40_000;
const RETRY_MS = 20;
/** @type {Set<string | undefined>} */
const NOT_LISTENING = new Set(["ENOENT", "ECONNREFUSED", "ECONNRESET", "EPIPE", "EAGAIN"]); // or the daemon is exiting
/** @type {Set<string | undefined>} */
const UNREAD = new Set(["ECONNRESET", "EPIPE"]); // from the kernel: the peer closed before it read all data
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
 * @property {Connection | null} connection null: the call waits for one
 * @property {number} id
 * @property {boolean} mayRepeat sent to the next daemon, once, if this one ends before reading it
 */

/** A stream to a peer that speaks the protocol. */
export class Connection {
  #reader = new FrameReader();
  #last = 0;
  /** @type {Map<number, Call>} */
  #calls = new Map();
  isClosed = false;
  /** The peer has closed the connection. */
  isGone = false;
  /** @type {[Call, Buffer][]} calls without room on the connection */
  #late = [];
  /** @type {Call | null} the call sent last */
  #newest = null;

  /**
   * @param {Socket} socket
   * @param {() => void} onRoom called when a call or the connection has ended
   * @param {() => SandboxError} [lost] the error of open calls if the peer disconnects
   */
  constructor(socket, onRoom, lost = () => new SandboxLost("the daemon disconnected")) {
    this.socket = socket;
    this.lost = lost;
    this.onRoom = onRoom;
    socket.on("data", (bytes) => this.#take(bytes));
    for (const end of ["error", "end", "close"]) socket.on(end, (/** @type {any} */ why) => this.#gone(why?.code));
    socket.unref(); // the process may exit while no call is open
  }

  /** @param {string} [code] of the system's error */
  #gone(code) {
    const call = this.#newest;
    this.isGone ||= !this.isClosed;
    if (!this.isClosed && call?.mayRepeat && UNREAD.has(code)) {
      this.#calls.delete(call.id);
      call.mayRepeat = false;
      call.connection = null; // so that it waits again
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
    if (frame.type === ERROR && frame.id === 0) throw errorFrom(frame.head); // concerns the connection
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
    if (this.#calls.size === 0) this.socket.unref(); // the process may exit without open calls
    if (frame.type === ERROR) call.reject(errorFrom(frame.head));
    else call.resolve({ answer: frame.head, raw: frame.raw });
    const next = this.#late.shift();
    if (next) this.#send(...next);
    this.onRoom();
  }

  /** Number of open calls. */
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
   * Send a request on this connection, before calls that wait for one.
   * @template {keyof Methods} M
   * @param {M} method
   * @param {Methods[M]["request"]} request
   * @param {Uint8Array} [raw]
   */
  async ask(method, request, raw) {
    return new Pending(method, request, raw, undefined, this).answer;
  }

  /** @param {unknown} why the error of open calls */
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

/** @param {string} path @returns {Promise<Socket | null>} null: no daemon */
function connectOnce(path) {
  return new Promise((resolve, reject) => {
    const socket = connect({ path });
    socket.once("connect", () => resolve(socket.removeAllListeners("error")));
    socket.once("error", (/** @type {NodeJS.ErrnoException} */ error) => {
      if (NOT_LISTENING.has(error.code)) resolve(null);
      else reject(new SandboxError(`connect to ${path}: ${error.message}`, { code: "system" }));
    });
  });
}

/** @param {string} path @param {() => void} onRoom @returns {Promise<Connection | null>} null: start a daemon */
async function greet(path, onRoom) {
  const socket = checkOwner(path) ? await connectOnce(path) : null;
  if (!socket) return null;
  const connection = new Connection(socket, onRoom);
  const timer = setTimeout(() => connection.close(new SandboxTimeout("the daemon does not answer", { code: "timeout" })), HELLO_MS);
  try {
    checkState((await connection.ask("hello", { version: VERSION })).answer);
    return connection;
  } catch (error) {
    connection.close(error);
    if (error instanceof Unsupported) throw new Unsupported(`daemon and client do not match; stop the daemon and try again: ${error.message}`, { code: "unsupported" });
    if (connection.isGone) return null; // the daemon was exiting
    throw error;
  } finally {
    clearTimeout(timer);
  }
}

/** @type {Promise<void> | null} shared by all connections made at the same time */
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

/** @type {{connection: Connection | null}[]} null: connecting */
let places = [];
/** @type {Call[]} */
let waiting = [];

function fill() {
  const isDead = places.some((place) => place.connection?.isGone);
  for (const { connection } of places) {
    if (isDead && connection?.nOpen === 0) connection.close(null); // the others have not noticed yet
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
    const failed = places.length === 0 ? waiting : []; // else another connection will have room
    if (failed.length > 0) waiting = [];
    for (const call of failed) call.reject(error);
  });
}

/**
 * A pending request, which can be interrupted.
 * @template {keyof Methods} M
 */
export class Pending {
  /**
   * @param {M} method
   * @param {Methods[M]["request"]} request
   * @param {Uint8Array} [raw]
   * @param {Call["onEvent"]} [onEvent]
   * @param {Connection} [connection] connection to use; any one to the daemon if not given
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

  /** Interrupt the cell; one that waits for a connection is not started. @param {unknown} [why] the error in that case */
  interrupt(why) {
    const { connection, id } = this.call;
    if (connection) {
      connection.ask("interrupt", { request: id }).catch(() => {}); // the end of the cell has the outcome
    } else {
      waiting = waiting.filter((call) => call !== this.call);
      this.call.reject(why);
    }
  }

  /** Answer a call by the code or the model. @param {number} number @param {boolean} ok @param {string} text */
  answerCall(number, ok, text) {
    const { connection, id } = this.call;
    connection?.ask("answer", { request: id, call: number, ok }, Buffer.from(text)).catch(() => {}); // no recipient
  }
}

/**
 * Send the daemon a request of docs/wire.md with its bytes. A daemon is started if none runs.
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
 * Send a request of this package itself: if the daemon does not know the method or a member, it has an older version.
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
