import type { Output } from "./result.js";
import type { Data } from "./sandbox.js";
export type Ended = {
    exitCode: number | null;
    signal: string | null;
};
/**
 * A command that runs beside the cells of its session, until it exits or the session's sandbox ends.
 * `for await (const {stream, text} of process)` reads its output until it ends.
 */
export declare class Process {
    #private;
    /** Number of the cell that started it. */
    number: number;
    /** Its program and arguments. */
    argv: string[];
    /**
     * Return the output since the last read, oldest first. wait: seconds, if there is none yet. Of each stream the last
     * bytes are stored, at most 256 KiB.
     * @param {number} [wait]
     * @returns {Promise<Output[]>}
     */
    read(wait?: number): Promise<Output[]>;
    /** @returns {AsyncGenerator<Output, void, void>} */
    [Symbol.asyncIterator](): AsyncGenerator<Output, void, void>;
    /**
     * Write to standard input; waits while the process does not read. It needs start(..., {openInput: true}).
     * NotFound: the process has ended, or has closed its standard input.
     * @param {Data} data
     * @param {{close?: boolean}} [options] close: then close standard input
     */
    write(data: Data, { close }?: {
        close?: boolean;
    }): Promise<void>;
    /** Close standard input. */
    close(): Promise<void>;
    /**
     * Wait for its end. null: it still runs after timeout seconds.
     * @param {number} [timeout]
     * @returns {Promise<Ended | null>}
     */
    wait(timeout?: number): Promise<Ended | null>;
    /**
     * Send a signal to its process group. False: it had ended.
     * @param {string | number} [name] "TERM" if not given
     */
    signal(name?: string | number): Promise<boolean>;
}
