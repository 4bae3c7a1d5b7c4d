import type { RawResult } from "../types/wire.d.ts";
export type Display = Record<string, string | Uint8Array>;
export type Output = {
    stream: "stdout" | "stderr";
    text: string;
};
/** What a cell returned: docs/result.md. */
export declare class Result {
    /** The whole, as in docs/result.md. */
    raw: RawResult;
    /** Standard output; of more than the limit `output` head and tail. */
    stdout: string;
    /** Standard error, likewise. */
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
    /** Return this, or throw CellFailed if the status is not "ok". */
    throwIfFailed(): this;
    /** The cell's output and value, or how it failed, what was refused and the limit that was met. */
    toString(): string;
}
