import type { RawResult } from "../types/wire.d.ts";
export type Display = Record<string, string | Uint8Array>;
export type Output = {
    stream: "stdout" | "stderr";
    text: string;
};
export type Piece = Output | {
    stream: "value";
    text: string;
};
/** The result of a cell: docs/result.md. */
export declare class Result {
    #private;
    /** The whole result, as in docs/result.md. */
    raw: RawResult;
    /** Standard output; only head and tail if it is longer than the limit `output`. */
    stdout: string;
    /** Standard error, as stdout. */
    stderr: string;
    /** Displayed objects, in order. */
    displays: Display[];
    /** repr of the last expression; null if there is none. For an object see Sandbox.get(). */
    get value(): string | null;
    get status(): "error" | "interrupted" | "killed" | "limit" | "ok" | "oom" | "timeout";
    /** State of the session after the cell: "kept", "rolled_back", "restored_from_checkpoint" or "lost". */
    get state(): "kept" | "lost" | "restored_from_checkpoint" | "rolled_back";
    /** Whether the status is "ok". */
    get ok(): boolean;
    /** Exit status of a command, or the argument of sys.exit(); null if there is none. */
    get exitCode(): number | null;
    /** Number of the cell in its session, from 1. */
    get cell(): number;
    /** The exception that ended the cell, or null. The code can forge all of it. */
    get error(): {
        type: string;
        message: string;
        traceback: string | null;
        line: number | null;
        hint: string | null;
        cause?: string | null;
        path?: string | null;
        module?: Record<string, unknown> | null;
    } | null;
    /** The limit that ended or cut the cell; null if none did. */
    get limit(): {
        key: string;
        value: number;
        text: string;
        flag: string;
    } | null;
    /** Refused operations, each with its source: the first 32; raw.denials_dropped is the number of further ones. [] if none. */
    get denials(): {
        source: string;
        control: string;
        operation: string;
        object: string | null;
        rule: string | null;
        hint: string | null;
        count: number;
    }[];
    /** "not saved since cell N: REASON" if the latest save of the session failed, else null. @returns {string | null} */
    get unsaved(): string | null;
    /** Resources used by the cell: microseconds and bytes; null: this host cannot measure it. */
    get usage(): {
        wall_us: number;
        cpu_us: number | null;
        memory_peak_bytes: number | null;
        stdout_bytes: number;
        stderr_bytes: number;
        written_bytes: number | null;
        setup_us: number;
    };
    /** Files changed by the cell, as paths below /workspace. */
    get files(): {
        created: string[];
        modified: string[];
        deleted: string[];
        truncated: boolean;
        hashes?: Record<string, unknown>;
    };
    /**
     * Read the full output of a stream, of which the property has at most head and tail. At most 64 MiB of a stream are
     * stored; a warning reports a longer one. NotFound: the full text is not stored, or no longer:
     * docs/result.md (output.handle).
     * @param {"stdout" | "stderr"} [stream]
     * @returns {Promise<string>}
     */
    output(stream?: "stdout" | "stderr"): Promise<string>;
    /** Return this, or throw CellFailed if the status is not "ok"; CellTimeout if it is "timeout". */
    throwIfFailed(): this;
    /** The cell's output and value, or its failure, refused operations and the limit that was reached. */
    toString(): string;
}
