import { Process } from "./process.js";
import { Stream } from "./stream.js";
import type { Methods } from "../types/wire.d.ts";
import type { Limits } from "./limits.js";
import type { Applied, ApplyOptions, Diff, Exported, ImportOptions, ProjectDiff } from "./commands.js";
import type { Output, Piece, Result } from "./result.js";
export type ExecRequest = Methods["exec"]["request"];
export type Cell = Methods["history"]["answer"]["cells"][number];
export type Entry = Methods["ls"]["answer"]["entries"][number];
export type Session = Methods["sessions.list"]["answer"]["sessions"][number];
export type Snapshot = {
    name: string;
    id: string;
    cell: number;
};
export type Data = string | Uint8Array;
export type SandboxOptions = {
    /**
     * 1 to 64 characters of A-Z a-z 0-9 . _ -; opens or makes the session of that name, which stays afterwards. Without a name: a new session, destroyed by close(), or when this object or the program ends.
     */
    name?: string;
    /**
     * seconds of one cell: 0.05 to 600, 30 if not given
     */
    timeout?: number;
    /**
     * "512m", or bytes
     */
    memory?: string | number;
    /**
     * "base", "data", "plot", or an added one
     */
    template?: string;
    /**
     * a folder shown at /workspace, never written to
     */
    project?: string;
    /**
     * variables for the code
     */
    env?: Record<string, string>;
    /**
     * "native", "local", "auto"; the strongest of this host if not given
     */
    tier?: string;
    /**
     * other limits by name, as in {cpus: 2, workspace_size: "2g"}
     */
    limits?: Limits;
    /**
     * run without a control that this host lacks
     */
    allowDegraded?: boolean;
    /**
     * refuse if a control is approximate
     */
    requireExact?: boolean;
};
export type Forks<N extends number> = N extends 1 ? [Sandbox] : N extends 2 ? [Sandbox, Sandbox] : N extends 3 ? [Sandbox, Sandbox, Sandbox] : N extends 4 ? [Sandbox, Sandbox, Sandbox, Sandbox] : Sandbox[];
export type Query = {
    /**
     * instructions given by the code
     */
    system: string | null;
    /**
     * most tokens of the answer
     */
    maxTokens: number | null;
};
export type StreamOptions = {
    /**
     * seconds of this cell; the session's limit if not given
     */
    timeout?: number;
    /**
     * standard input
     */
    input?: Data;
    /**
     * undo the cell's effects if it fails
     */
    atomic?: boolean;
    /**
     * how to handle cells lost in a crash; if not given, the call fails with Denied and names them
     */
    recover?: "replay" | "skip" | "checkpoint";
    /**
     * ends the cell; the call fails with the signal's reason, and the session continues
     */
    signal?: AbortSignal;
    /**
     * answers llm_query() and llm_query_batched() in the code
     */
    query?: (prompt: string, query: Query) => string | Promise<string>;
};
export type RunOptions = StreamOptions & {
    onOutput?: (piece: Output) => void;
};
/** Files of a session. Paths are below /workspace: "data/a.csv". */
export declare class Files {
    #private;
    /**
     * Read a whole file. most: bytes, 1 GiB if not given. NotFound: no such file; LimitReached: it is larger.
     * @param {string} path
     * @param {{most?: number}} [options]
     * @returns {Promise<Uint8Array>}
     */
    read(path: string, { most }?: {
        most?: number;
    }): Promise<Uint8Array>;
    /**
     * Read a file as UTF-8. TypeError: it is not UTF-8.
     * @param {string} path
     * @param {{most?: number}} [options]
     */
    readText(path: string, options?: {
        most?: number;
    }): Promise<string>;
    /**
     * Write a whole file. A path that ends in "/" makes a folder. LimitReached: no room.
     * @param {string} path
     * @param {Data} data
     * @param {{mode?: number}} [options] mode: permissions, 0o644 if not given
     */
    write(path: string, data: Data, { mode }?: {
        mode?: number;
    }): Promise<void>;
    /**
     * List a folder. NotFound: no such folder.
     * @param {string} [path]
     * @returns {Promise<Entry[]>}
     */
    list(path?: string): Promise<Entry[]>;
}
/**
 * A session, in which code runs contained.
 *
 *     await using s = await Sandbox.create();
 *     (await s.run("6 * 7")).value    // "42"
 *
 * Cells of a session run one after the other. Every method may fail with a SandboxError. SandboxLost: the daemon ended;
 * the next call restores the session.
 */
export declare class Sandbox {
    #private;
    /** Name of the session. */
    name: string;
    /** Whether the session stays when this object is closed. */
    isKept: boolean;
    /** Its files. */
    files: Files;
    /** A session, opened at its first use; the constructor sends no request to the daemon. @param {SandboxOptions} [options] */
    constructor(options?: SandboxOptions);
    /**
     * Make a session, or open the one of that name, and make it ready.
     * @param {SandboxOptions} [options]
     */
    static create(options?: SandboxOptions): Promise<Sandbox>;
    /** List all sessions of this user. @returns {Promise<Session[]>} */
    static list(): Promise<Session[]>;
    /** Make the session ready; other methods do so automatically. */
    open(): Promise<void>;
    /**
     * Run Python code. Failing code does not throw: see Result.ok and Result.throwIfFailed().
     * @param {Data} code
     * @param {RunOptions} [options]
     * @returns {Promise<Result>}
     */
    run(code: Data, options?: RunOptions): Promise<Result>;
    /**
     * Run a /bin/sh line.
     * @param {string} line
     * @param {RunOptions} [options]
     * @returns {Promise<Result>}
     */
    sh(line: string, options?: RunOptions): Promise<Result>;
    /**
     * Run Python code, and read its output as it arrives, then its value if it has one:
     * `for await (const {stream, text} of s.stream(code))`. The cell starts with the first read.
     * @param {Data} code
     * @param {StreamOptions} [options]
     * @returns {Stream<Piece, Result>}
     */
    stream(code: Data, options?: StreamOptions): Stream<Piece, Result>;
    /**
     * Start a command that runs beside the cells: a /bin/sh line, or a list of words. It has no time limit, and ends with
     * the session's sandbox.
     * @param {string | string[]} command
     * @param {{openInput?: boolean}} [options] openInput: for Process.write(); without it standard input is empty
     */
    start(command: string | string[], options?: {
        openInput?: boolean;
    }): Promise<Process>;
    /** List the session's processes, running and ended; none if its sandbox has ended. */
    processes(): Promise<Process[]>;
    /**
     * Get a variable, or any Python expression, by JSON; integers beyond 2**53 are bigint. CellFailed: there is no such
     * variable, JSON has no form for it, or it has more than 8 MiB as JSON.
     * @template [T=any]
     * @param {string} expression
     * @returns {Promise<T>}
     */
    get<T = any>(expression: string): Promise<T>;
    /**
     * Set a variable by value, by JSON: bigint becomes int. TypeError: JSON has no form for it; LimitReached: it has more
     * than 8 MiB as JSON.
     * @param {string} name
     * @param {unknown} value
     */
    set(name: string, value: unknown): Promise<void>;
    /**
     * Take a snapshot of variables and files. name: s1, s2... if not given.
     * @param {string} [name]
     * @returns {Promise<Snapshot>}
     */
    snapshot(name?: string): Promise<Snapshot>;
    /**
     * Roll variables and files back to a snapshot of this session.
     * @param {string | Snapshot} snapshot
     */
    rollback(snapshot: string | Snapshot): Promise<void>;
    diff(): Promise<ProjectDiff>;
    diff(a: string | Snapshot | Sandbox, b?: string | Snapshot | Sandbox): Promise<Diff>;
    /**
     * Write variables, files, limits and history of the session, or of a snapshot, into one file, for import() on another
     * machine. The file is not encrypted. Denied: the file exists, and force is not true.
     * @param {string} path
     * @param {{force?: boolean, snapshot?: string | Snapshot}} [options]
     * @returns {Promise<Exported>}
     */
    export(path: string, options?: {
        force?: boolean;
        snapshot?: string | Snapshot;
    }): Promise<Exported>;
    /**
     * Make a session from a file written by export(). It stays, like one with a name. Warnings list what differs from the
     * file and what could not be restored.
     * @param {string} path
     * @param {ImportOptions} [options]
     */
    static import(path: string, options?: ImportOptions): Promise<Sandbox>;
    /**
     * Apply the session's changes to its project, like `snipara-sandbox apply --yes`: see docs/reference/cli.md.
     * Denied: a check failed, and nothing was applied.
     * @param {ApplyOptions} [options]
     * @returns {Promise<Applied>}
     */
    apply(options?: ApplyOptions): Promise<Applied>;
    /**
     * Make n (1 to 64) sessions that continue from this one. name: prefix of their names; then they stay.
     * @template {number} [N=1]
     * @param {N} [n]
     * @param {{name?: string}} [options]
     * @returns {Promise<Forks<N>>}
     */
    fork<N extends number = 1>(n?: N, { name }?: {
        name?: string;
    }): Promise<Forks<N>>;
    /**
     * List the session's cells, newest first.
     * @param {number} [limit] at most 1000
     * @returns {Promise<Cell[]>}
     */
    history(limit?: number): Promise<Cell[]>;
    /**
     * Get the result of an earlier cell, with its output and displays. NotFound: it has no result.
     * @param {number} cell
     * @returns {Promise<Result>}
     */
    result(cell: number): Promise<Result>;
    /** Interrupt the running cell. True: there was one; its status will be "interrupted". */
    interrupt(): Promise<boolean>;
    /**
     * Change limits of the session permanently. Returns the names of limits that apply at the next wake; hibernate() ends
     * the sandbox.
     * @param {Limits} limits as in {memory: "1g", timeout: 60}
     * @returns {Promise<string[]>}
     */
    setLimits(limits: Limits): Promise<string[]>;
    /** Save the session and end its sandbox; the next cell wakes it. */
    hibernate(): Promise<void>;
    /** Destroy the session permanently, with its files and snapshots. */
    destroy(): Promise<void>;
    /** Destroy the session, unless a name was given. This object cannot be used afterwards. */
    close(): Promise<void>;
    /** For `await using`; Node before 18.18 has no such symbol. */
    [Symbol.asyncDispose](): Promise<void>;
}
