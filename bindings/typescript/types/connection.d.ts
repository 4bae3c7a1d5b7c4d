import { SandboxError } from "./errors.js";
import type { Socket } from "node:net";
import type { Events, Methods } from "../types/wire.d.ts";
export type Answer<M extends keyof Methods> = {
    answer: Methods[M]["answer"];
    raw: Buffer;
};
export type Call = {
    method: string;
    request: object;
    raw: Uint8Array;
    onEvent: ((name: keyof Events, event: any, raw: Buffer) => void) | undefined;
    resolve: (answer: Answer<any>) => void;
    reject: (why: unknown) => void;
    /**
     * null: the call waits for one
     */
    connection: Connection | null;
    id: number;
    /**
     * sent to the next daemon, once, if this one ends before reading it
     */
    mayRepeat: boolean;
};
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
export declare class Connection {
    #private;
    socket: Socket;
    lost: () => SandboxError;
    onRoom: () => void;
    isClosed: boolean;
    /** The peer has closed the connection. */
    isGone: boolean;
    /**
     * @param {Socket} socket
     * @param {() => void} onRoom called when a call or the connection has ended
     * @param {() => SandboxError} [lost] the error of open calls if the peer disconnects
     */
    constructor(socket: Socket, onRoom: () => void, lost?: () => SandboxError);
    /** Number of open calls. */
    get nOpen(): number;
    /** @param {Call} call */
    begin(call: Call): void;
    /**
     * Send a request on this connection, before calls that wait for one.
     * @template {keyof Methods} M
     * @param {M} method
     * @param {Methods[M]["request"]} request
     * @param {Uint8Array} [raw]
     */
    ask<M extends keyof Methods>(method: M, request: Methods[M]["request"], raw?: Uint8Array): Promise<Answer<M>>;
    /** @param {unknown} why the error of open calls */
    close(why: unknown): void;
}
/**
 * A pending request, which can be interrupted.
 * @template {keyof Methods} M
 */
export declare class Pending<M extends keyof Methods> {
    /** @type {Promise<Answer<M>>} */
    answer: Promise<Answer<M>>;
    call: Call;
    /**
     * @param {M} method
     * @param {Methods[M]["request"]} request
     * @param {Uint8Array} [raw]
     * @param {Call["onEvent"]} [onEvent]
     * @param {Connection} [connection] connection to use; any one to the daemon if not given
     */
    constructor(method: M, request: Methods[M]["request"], raw?: Uint8Array, onEvent?: Call["onEvent"], connection?: Connection);
    /** Interrupt the cell; one that waits for a connection is not started. @param {unknown} [why] the error in that case */
    interrupt(why?: unknown): void;
    /** Answer a call by the code or the model. @param {number} number @param {boolean} ok @param {string} text */
    answerCall(number: number, ok: boolean, text: string): void;
}
/**
 * Send the daemon a request of docs/wire.md with its bytes. A daemon is started if none runs.
 * @template {keyof Methods} M
 * @param {M} method
 * @param {Methods[M]["request"]} members
 * @param {Uint8Array} [raw]
 * @returns {Promise<Answer<M>>}
 */
export declare function request<M extends keyof Methods>(method: M, members: Methods[M]["request"], raw?: Uint8Array): Promise<Answer<M>>;
/**
 * Send a request of this package itself: if the daemon does not know the method or a member, it has an older version.
 * @template {keyof Methods} M
 * @param {M} method
 * @param {Methods[M]["request"]} members
 * @returns {Promise<Answer<M>>}
 */
export declare function ask<M extends keyof Methods>(method: M, members: Methods[M]["request"]): Promise<Answer<M>>;
