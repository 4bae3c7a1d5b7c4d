// SPDX-License-Identifier: Apache-2.0
// Runs of models: each is a separate process of the program, which speaks the protocol over its own socket.

import { spawn, spawnSync } from "node:child_process";
import { Connection, Pending } from "./connection.js";
import { findProgram } from "./daemon.js";
import { InvalidArgument, SandboxError, SandboxLost, errorFrom } from "./errors.js";
import { bytesOf, checkOptions } from "./given.js";
import { Stream } from "./stream.js";

/** @import {Socket} from "node:net" */

/**
 * A tool of this program that the model may call. It runs in this program, outside the sandbox.
 * @typedef {object} Tool
 * @property {string} name 1 to 64 of A-Z a-z 0-9 _ -
 * @property {string} description description for the model
 * @property {Record<string, unknown>} [parameters] JSON Schema of the arguments, an object; checked before each call
 * @property {(args: any) => unknown} handler returns the answer for the model, or a promise of it: text is sent unchanged, other values as JSON, exceptions as errors of the tool
 * @property {number} [timeout] seconds of one call: 30 if not given, at most 600
 */

/**
 * @typedef {object} PromptOptions
 * @property {string} [model] the configured one if not given
 * @property {string} [system] instructions before the prompt; not for agents
 * @property {Tool[]} [tools]
 * @property {string} [folder] working folder of the run: its configuration, .env, project and records; this program's if not given
 * @property {Record<string, string | number | boolean>} [settings] keys of the configuration, and options of `run` and `agent`, as in {max_depth: 4}
 * @property {AbortSignal} [signal] stops the run; its record stays, and the call fails with the signal's reason
 * @property {(text: string) => void} [onText] called with the model's text as it arrives
 * @property {(record: any) => void} [onRecord] called with each record of the trajectory: docs/reference/trajectory.md
 */

/** @typedef {{response: string | null, trajectory_id: string, error: string | null, [more: string]: any}} Completion Output of `snipara-sandbox run --json`. */
/** @typedef {{answer: string, answer_source: string, iterations: number, trajectory_id: string, error: string | null, [more: string]: any}} AgentAnswer Output of `snipara-sandbox agent --json`. */

/** @param {Tool | undefined} tool @param {string} args @returns {Promise<{ok: boolean, text: string}>} */
async function callTool(tool, args) {
  try {
    if (!tool) throw new Error("there is no such tool");
    const said = await tool.handler(JSON.parse(args));
    return { ok: true, text: typeof said === "string" ? said : JSON.stringify(said) ?? "null" };
  } catch (error) {
    return { ok: false, text: error instanceof Error ? `${error.name}: ${error.message}` : String(error) };
  }
}

const OPTIONS = ["model", "system", "tools", "folder", "settings", "signal", "onText", "onRecord"];

const lost = () => new SandboxLost("the process of the run ended; its record stays, and resume() continues it", { remedy: { kind: "" } });

/** @param {() => SandboxError} lost the error of calls if it ends @returns {Promise<Connection>} @internal */
export async function startProcess(lost) {
  const program = findProgram();
  const child = spawn(program, ["serve-run"], { stdio: ["ignore", "ignore", "ignore", "pipe"] });
  const connection = new Connection(/** @type {Socket} */ (child.stdio[3]), () => {}, lost);
  const started = new Promise((_, reject) => {
    child.once("error", (error) => reject(new SandboxError(`start ${program}: ${error.message}`, { code: "system" })));
  });
  await Promise.race([started, connection.ask("hello", { version: 1 })]).catch((error) => {
    connection.close(error);
    const isMissing = error instanceof SandboxLost && spawnSync(program, ["agent", "--help"], { stdio: "ignore" }).status === 2;
    throw isMissing ? errorFrom({ code: "unsupported",
      message: "runs, diff, apply, export and import need the package snipara-agent, which is not installed" }) : error;
  });
  return connection;
}

/**
 * @param {string} prompt
 * @param {boolean} isAgent
 * @param {PromptOptions} options
 * @param {string} [resume] id of a run to resume
 * @returns {Promise<any>}
 */
async function ask(prompt, isAgent, options, resume) {
  checkOptions(options, OPTIONS, "a run");
  const { model, system, tools = [], folder, settings = {}, signal, onText, onRecord } = options;
  const text = bytesOf(prompt, "the prompt");
  for (const { name, handler } of tools) {
    if (typeof handler !== "function") throw new InvalidArgument(`tool "${name}" has no handler, the function that answers its calls`, { object: name });
  }
  signal?.throwIfAborted();
  const given = model === undefined ? settings : { model, ...settings };
  const connection = await startProcess(lost);
  /** @type {Record<string, Buffer[]>} */
  const parts = { record: [], result: [] };
  const decoder = new TextDecoder();
  return new Promise((resolve, reject) => {
    /** @param {unknown} why */
    const stop = (why) => {
      call.interrupt(); // the record has its end
      reject(why);
    };
    const onAbort = () => stop(signal?.reason);
    signal?.addEventListener("abort", onAbort, { once: true });
    /** @param {"record" | "result"} name @param {any} event @param {Buffer} raw */
    const whole = (name, event, raw) => {
      parts[name].push(Buffer.from(raw));
      return event.last ? JSON.parse(Buffer.concat(parts[name].splice(0)).toString("utf8")) : undefined;
    };
    /** @type {any} */
    let result;
    const call = new Pending("run", {
      agent: isAgent, folder, system, resume, records: onRecord !== undefined, text: onText !== undefined,
      settings: Object.entries(given).map(([key, value]) => `${key}=${value}`),
      tools: tools.map(({ name, description, parameters, timeout }) => ({ name, description, parameters, timeout_ms: Math.round((timeout ?? 0) * 1000) })),
    }, text, (name, event, raw) => {
      try {
        if (name === "text") onText?.(decoder.decode(raw, { stream: true }));
        else if (name === "note") process.emitWarning(raw.toString("utf8").trim(), "SandboxWarning");
        else if (name === "result") result = whole(name, event, raw) ?? result;
        else if (name === "record") {
          const record = whole(name, event, raw);
          if (record !== undefined) onRecord?.(record);
        } else if (name === "tool") {
          const tool = tools.find((one) => one.name === event.tool);
          void callTool(tool, raw.toString("utf8")).then(({ ok, text }) => call.answerCall(event.call, ok, text));
        }
      } catch (error) {
        stop(error);
      }
    }, connection);
    call.answer.then(() => {
      if (result === undefined) throw lost();
      if (result.error && result.raise_with) result.error += `; pass a higher settings.${result.raise_with}`;
      resolve(result);
    }).catch(reject).finally(() => {
      signal?.removeEventListener("abort", onAbort);
      connection.close(null);
    });
  });
}

/**
 * Let a model work on a prompt, with code in a sandbox and tools of this program. A run that reaches a limit, or whose
 * model fails, does not throw: see `error` and `stopped_by`. SandboxError: the run did not start.
 * @param {string} prompt
 * @param {PromptOptions} [options]
 * @returns {Promise<Completion>}
 */
export function completion(prompt, options = {}) {
  return ask(prompt, false, options);
}

/**
 * Let a model work on a task in iterations, until it gives its final answer.
 * @param {string} task
 * @param {PromptOptions} [options]
 * @returns {Promise<AgentAnswer>}
 */
export function agent(task, options = {}) {
  return ask(task, true, options);
}

/**
 * Resume a run or an agent that was stopped, reached a limit or was lost. It keeps its prompt, model, session and
 * limits, except for limits in `settings`. Its tools must be the same as before.
 * @param {string} trajectoryId trajectory_id of its result, or a prefix of it
 * @param {Omit<PromptOptions, "system">} [options]
 * @returns {Promise<Completion | AgentAnswer>}
 */
export function resume(trajectoryId, options = {}) {
  return ask("", false, options, Buffer.from(bytesOf(trajectoryId, "the run's id")).toString());
}

/**
 * completion() with the model's text as it arrives: `for await (const text of streamCompletion("..."))`.
 * @param {string} prompt
 * @param {Omit<PromptOptions, "onText">} [options]
 * @returns {Stream<string, Completion>}
 */
export function streamCompletion(prompt, options = {}) {
  return new Stream((onText, signal) => ask(prompt, false, { ...options, onText, signal }), options.signal);
}
