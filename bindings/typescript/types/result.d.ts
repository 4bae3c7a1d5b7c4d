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
/** What a cell returned: docs/result.md. */
export declare class Result {
    #private;
    /** The whole, as in docs/result.md. */
    raw: RawResult;
    /** Standard output; of more than the limit `output` head and tail. */
    stdout: string;
    /** Standard error, as stdout. */
    stderr: string;
    /** What the cell displayed, in that order. */
    displays: Display[];
    /** repr of the last expression; null if there is none. For an object see Sandbox.get(). */
    get value(): string | null;
    get status(): "error" | "interrupted" | "killed" | "limit" | "ok" | "oom" | "timeout";
    /** What became of the session: "kept", "rolled_back", "restored_from_checkpoint" or "lost". */
    get state(): "kept" | "lost" | "restored_from_checkpoint" | "rolled_back";
    /** Whether the status is "ok". */
    get ok(): boolean;
    /** Exit status of a command, or what the code gave to sys.exit(); null if there is none. */
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
    /** Operations that were refused, each with its source; [] if there are none: the first 32; raw.denials_dropped is the number of others. */
    get denials(): {
        source: string;
        control: string;
        operation: string;
        object: string | null;
        rule: string | null;
        hint: string | null;
        count: number;
    }[];
    /** What the cell used: microseconds and bytes; null: this host cannot measure it. */
    get usage(): {
        wall_us: number;
        cpu_us: number | null;
        memory_peak_bytes: number | null;
        stdout_bytes: number;
        stderr_bytes: number;
        written_bytes: number | null;
        setup_us: number;
    };
    /** Which files it changed, as paths below /workspace. */
    get files(): {
        created: string[];
        modified: string[];
        deleted: string[];
        truncated: boolean;
    };
    /**
     * Read all that the cell printed to a stream, of which that property has at most head and tail. At most 64 MiB of a
     * stream are stored; a warning says if there was more. NotFound: the full text is not stored, or no longer:
     * docs/result.md (output.handle).
     * @param {"stdout" | "stderr"} [stream]
     * @returns {Promise<string>}
     */
    output(stream?: "stdout" | "stderr"): Promise<string>;
    /** Return this, or throw CellFailed if the status is not "ok"; CellTimeout if it is "timeout". */
    throwIfFailed(): this;
    /** The cell's output and value, or how it failed, what was refused and the limit that was met. */
    toString(): string;
}
