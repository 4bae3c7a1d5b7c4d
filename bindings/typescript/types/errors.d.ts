import type { Result } from "./result.js";
/** A request failed. Failed code is not an error of this kind: see Result.status. */
export declare class SandboxError extends Error {
    /** Kind of the error, as on the wire: "invalid", "not_found", "limit"... */
    code: string;
    /** The subject: a session, a file, an option; "" if there is none. */
    object: string;
    /** The limit that was reached: "memory"; "" if none. */
    limit: string;
    /** Its value, in the unit of that limit. */
    limitValue: number;
    /** The kind of remedy, a word of docs/wire.md: "raise_limit"; "" if there is none. */
    remedy: string;
    /** The object of the remedy: the nearest name, the limit to raise. */
    remedyName: string;
    /** The number of the remedy: a sufficient limit; -1 = none. */
    remedyValue: number;
}
/** An argument is wrong; the message says which. */
export declare class InvalidArgument extends SandboxError {
}
/** There is no such session, snapshot, file or template. */
export declare class NotFound extends SandboxError {
}
/** A limit was reached: see .limit and .limitValue. */
export declare class LimitReached extends SandboxError {
}
/** Policy forbids it. */
export declare class Denied extends SandboxError {
}
/** This host or tier cannot do it. */
export declare class Unsupported extends SandboxError {
}
/** A request, or a cell (CellTimeout), took too long. */
export declare class SandboxTimeout extends SandboxError {
    /** CellTimeout cannot extend this class, too. @param {unknown} error @returns {error is SandboxTimeout} */
    static [Symbol.hasInstance](error: unknown): error is SandboxTimeout;
}
/**
 * The daemon ended during a call. The next call restores the session, or names the missing cells. history() shows
 * whether the interrupted call began.
 */
export declare class SandboxLost extends SandboxError {
}
/** A cell failed; from Result.throwIfFailed(). code is its status. */
export declare class CellFailed extends SandboxError {
    /** The result of the cell. */
    result: Result;
}
/** A cell reached its time limit. It is an instanceof SandboxTimeout, too. */
export declare class CellTimeout extends CellFailed {
}
