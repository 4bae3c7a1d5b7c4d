import { Stream } from "./stream.js";
export type Tool = {
    /**
     * 1 to 64 of A-Z a-z 0-9 _ -
     */
    name: string;
    /**
     * description for the model
     */
    description: string;
    /**
     * JSON Schema of the arguments, an object; checked before each call
     */
    parameters?: Record<string, unknown>;
    /**
     * returns the answer for the model, or a promise of it: text is sent unchanged, other values as JSON, exceptions as errors of the tool
     */
    handler: (args: any) => unknown;
    /**
     * seconds of one call: 30 if not given, at most 600
     */
    timeout?: number;
};
export type PromptOptions = {
    /**
     * the configured one if not given
     */
    model?: string;
    /**
     * instructions before the prompt; not for agents
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
     * stops the run; its record stays, and the call fails with the signal's reason
     */
    signal?: AbortSignal;
    /**
     * called with the model's text as it arrives
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
 * Let a model work on a prompt, with code in a sandbox and tools of this program. A run that reaches a limit, or whose
 * model fails, does not throw: see `error` and `stopped_by`. SandboxError: the run did not start.
 * @param {string} prompt
 * @param {PromptOptions} [options]
 * @returns {Promise<Completion>}
 */
export declare function completion(prompt: string, options?: PromptOptions): Promise<Completion>;
/**
 * Let a model work on a task in iterations, until it gives its final answer.
 * @param {string} task
 * @param {PromptOptions} [options]
 * @returns {Promise<AgentAnswer>}
 */
export declare function agent(task: string, options?: PromptOptions): Promise<AgentAnswer>;
/**
 * Resume a run or an agent that was stopped, reached a limit or was lost. It keeps its prompt, model, session and
 * limits, except for limits in `settings`. Its tools must be the same as before.
 * @param {string} trajectoryId trajectory_id of its result, or a prefix of it
 * @param {Omit<PromptOptions, "system">} [options]
 * @returns {Promise<Completion | AgentAnswer>}
 */
export declare function resume(trajectoryId: string, options?: Omit<PromptOptions, "system">): Promise<Completion | AgentAnswer>;
/**
 * completion() with the model's text as it arrives: `for await (const text of streamCompletion("..."))`.
 * @param {string} prompt
 * @param {Omit<PromptOptions, "onText">} [options]
 * @returns {Stream<string, Completion>}
 */
export declare function streamCompletion(prompt: string, options?: Omit<PromptOptions, "onText">): Stream<string, Completion>;
