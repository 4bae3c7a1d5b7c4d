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
     * null: it waits for one
     */
    connection: Connection | null;
    id: number;
    /**
     * it is sent to the next daemon, once, if this one ends before it reads it
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
 * @property {Connection | null} connection null: it waits for one
 * @property {number} id
 * @property {boolean} mayRepeat it is sent to the next daemon, once, if this one ends before it reads it
 */
/** A stream to a peer that speaks the protocol. */
export declare class Connection {
    #private;
    socket: Socket;
    lost: () => SandboxError;
    onRoom: () => void;
    isClosed: boolean;
    /** The peer has closed it. */
    isGone: boolean;
    /**
     * @param {Socket} socket
     * @param {() => void} onRoom called when a call has ended, or the connection has
     * @param {() => SandboxError} [lost] what calls fail with if the peer goes away
     */
    constructor(socket: Socket, onRoom: () => void, lost?: () => SandboxError);
    /** How many of its calls are open. */
    get nOpen(): number;
    /** @param {Call} call */
    begin(call: Call): void;
    /**
     * Ask beside all others, before what waits for a connection.
     * @template {keyof Methods} M
     * @param {M} method
     * @param {Methods[M]["request"]} request
     * @param {Uint8Array} [raw]
     */
    ask<M extends keyof Methods>(method: M, request: Methods[M]["request"], raw?: Uint8Array): Promise<Answer<M>>;
    /** @param {unknown} why what open calls fail with */
    close(why: unknown): void;
}
/**
 * What was asked, and how to take it back.
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
     * @param {Connection} [connection] to ask over; else one to the daemon
     */
    constructor(method: M, request: Methods[M]["request"], raw?: Uint8Array, onEvent?: Call["onEvent"], connection?: Connection);
    /** Interrupt the cell; one that waits for a connection is not begun. @param {unknown} [why] what a cell not begun fails with */
    interrupt(why?: unknown): void;
    /** Answer a call of the code, or of the model. @param {number} number @param {boolean} ok @param {string} text */
    answerCall(number: number, ok: boolean, text: string): void;
}
/**
 * Ask the daemon, which is started if none runs: a request of docs/wire.md, and the bytes that go with it.
 * @template {keyof Methods} M
 * @param {M} method
 * @param {Methods[M]["request"]} members
 * @param {Uint8Array} [raw]
 * @returns {Promise<Answer<M>>}
 */
export declare function request<M extends keyof Methods>(method: M, members: Methods[M]["request"], raw?: Uint8Array): Promise<Answer<M>>;
/**
 * Ask what this package asks by itself: a daemon that does not know the method, or a member, has an older version.
 * @template {keyof Methods} M
 * @param {M} method
 * @param {Methods[M]["request"]} members
 * @returns {Promise<Answer<M>>}
 */
export declare function ask<M extends keyof Methods>(method: M, members: Methods[M]["request"]): Promise<Answer<M>>;
