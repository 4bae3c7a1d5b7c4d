import type { Result } from "./result.js";
/** Something that was asked for could not be done. Code that ran and failed is no such error: see Result.status. */
export declare class SandboxError extends Error {
    /** Kind of the error, as on the wire: "invalid", "not_found", "limit"... */
    code: string;
    /** What it is about: a session, a file, an option; "" if there is nothing to name. */
    object: string;
    /** The limit that was met: "memory"; "" if it was none. */
    limit: string;
    /** Its value, in the unit of that limit. */
    limitValue: number;
    /** What helps, a word of docs/wire.md: "raise_limit"; "" if nothing is known. */
    remedy: string;
    /** What that is about: the nearest name, the limit to raise. */
    remedyName: string;
    /** Its number: a limit that would do; -1 = none. */
    remedyValue: number;
}
/** An argument is wrong; the message says which. */
export declare class InvalidArgument extends SandboxError {
}
/** There is no such session, snapshot, file or template. */
export declare class NotFound extends SandboxError {
}
/** A limit was met: see .limit and .limitValue. */
export declare class LimitReached extends SandboxError {
}
/** Policy forbids it. */
export declare class Denied extends SandboxError {
}
/** This host or tier cannot do it. */
export declare class Unsupported extends SandboxError {
}
/** It took too long: a request, or a cell (CellTimeout). */
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
/** A cell did not end well; from Result.throwIfFailed(). code is its status. */
export declare class CellFailed extends SandboxError {
    /** What the cell returned all the same. */
    result: Result;
}
/** A cell met its time limit. It is an instanceof SandboxTimeout, too. */
export declare class CellTimeout extends CellFailed {
}
