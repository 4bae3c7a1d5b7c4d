import { Stream } from "./stream.js";
export type Tool = {
    /**
     * 1 to 64 of A-Z a-z 0-9 _ -
     */
    name: string;
    /**
     * what it does, for the model
     */
    description: string;
    /**
     * JSON Schema of the arguments, an object; they are checked before the call
     */
    parameters?: Record<string, unknown>;
    /**
     * what it returns, or resolves to, goes to the model: text as it is, all else as JSON; what it throws, as an error of the tool
     */
    handler: (args: any) => unknown;
    /**
     * seconds of one call: 30 if not given, at most 600
     */
    timeout?: number;
};
export type PromptOptions = {
    /**
     * else that of the configuration
     */
    model?: string;
    /**
     * instructions before the prompt; not of agents
     */
    system?: string;
    tools?: Tool[];
    /**
     * working folder of the run: its configuration, .env, project and records; this program's if not given
     */
    folder?: string;
    /**
     * keys of the configuration, and options of `run` and `agent`, as in {max_depth: 4}
     */
    settings?: Record<string, string | number | boolean>;
    /**
     * stops the run, which is on record; the call fails with the signal's reason
     */
    signal?: AbortSignal;
    /**
     * called with what the model writes, as it comes
     */
    onText?: (text: string) => void;
    /**
     * called with each record of the trajectory: docs/reference/trajectory.md
     */
    onRecord?: (record: any) => void;
};
export type Completion = {
    response: string | null;
    trajectory_id: string;
    error: string | null;
    [more: string]: any;
};
export type AgentAnswer = {
    answer: string;
    answer_source: string;
    iterations: number;
    trajectory_id: string;
    error: string | null;
    [more: string]: any;
};
/**
 * Have a model work on a prompt, with code in a sandbox and tools of this program. A run that meets a limit, or whose model
 * fails, is no exception: see `error` and `stopped_by`. SandboxError: it did not begin.
 * @param {string} prompt
 * @param {PromptOptions} [options]
 * @returns {Promise<Completion>}
 */
export declare function completion(prompt: string, options?: PromptOptions): Promise<Completion>;
/**
 * Have a model work on a task in iterations, until it gives its final answer.
 * @param {string} task
 * @param {PromptOptions} [options]
 * @returns {Promise<AgentAnswer>}
 */
export declare function agent(task: string, options?: PromptOptions): Promise<AgentAnswer>;
/**
 * Go on with a run or an agent that was stopped, met a limit or was lost. It keeps its prompt, model, session and limits, but for
 * limits in `settings`; tools must be those that it had.
 * @param {string} trajectoryId of its result, or its beginning
 * @param {Omit<PromptOptions, "system">} [options]
 * @returns {Promise<Completion | AgentAnswer>}
 */
export declare function resume(trajectoryId: string, options?: Omit<PromptOptions, "system">): Promise<Completion | AgentAnswer>;
/**
 * completion(), and what the model writes as it comes: `for await (const text of streamCompletion("..."))`.
 * @param {string} prompt
 * @param {Omit<PromptOptions, "onText">} [options]
 * @returns {Stream<string, Completion>}
 */
export declare function streamCompletion(prompt: string, options?: Omit<PromptOptions, "onText">): Stream<string, Completion>;
