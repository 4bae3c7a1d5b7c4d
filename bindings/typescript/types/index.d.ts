export { Sandbox, Files } from "./sandbox.js";
export { agent, completion, resume, streamCompletion } from "./runs.js";
export { Process } from "./process.js";
export { Stream } from "./stream.js";
export { Result } from "./result.js";
export { CellFailed, CellTimeout, Denied, InvalidArgument, LimitReached, NotFound, SandboxError, SandboxLost, SandboxTimeout, Unsupported, } from "./errors.js";
export { request } from "./connection.js";
export type SandboxOptions = import("./sandbox.js").SandboxOptions;
export type RunOptions = import("./sandbox.js").RunOptions;
export type StreamOptions = import("./sandbox.js").StreamOptions;
export type Query = import("./sandbox.js").Query;
export type Cell = import("./sandbox.js").Cell;
export type Entry = import("./sandbox.js").Entry;
export type Session = import("./sandbox.js").Session;
export type Snapshot = import("./sandbox.js").Snapshot;
export type Data = import("./sandbox.js").Data;
export type Ended = import("./process.js").Ended;
export type Tool = import("./runs.js").Tool;
export type PromptOptions = import("./runs.js").PromptOptions;
export type Completion = import("./runs.js").Completion;
export type AgentAnswer = import("./runs.js").AgentAnswer;
export type Diff = import("./commands.js").Diff;
export type ProjectDiff = import("./commands.js").ProjectDiff;
export type Exported = import("./commands.js").Exported;
export type ImportOptions = import("./commands.js").ImportOptions;
export type ApplyOptions = import("./commands.js").ApplyOptions;
export type Applied = import("./commands.js").Applied;
export type Limits = import("./limits.js").Limits;
export type Display = import("./result.js").Display;
export type Output = import("./result.js").Output;
export type Piece = import("./result.js").Piece;
export type Methods = import("../types/wire.d.ts").Methods;
export type RawResult = import("../types/wire.d.ts").RawResult;
/** @typedef {import("./sandbox.js").SandboxOptions} SandboxOptions */
/** @typedef {import("./sandbox.js").RunOptions} RunOptions */
/** @typedef {import("./sandbox.js").StreamOptions} StreamOptions */
/** @typedef {import("./sandbox.js").Query} Query */
/** @typedef {import("./sandbox.js").Cell} Cell */
/** @typedef {import("./sandbox.js").Entry} Entry */
/** @typedef {import("./sandbox.js").Session} Session */
/** @typedef {import("./sandbox.js").Snapshot} Snapshot */
/** @typedef {import("./sandbox.js").Data} Data */
/** @typedef {import("./process.js").Ended} Ended */
/** @typedef {import("./runs.js").Tool} Tool */
/** @typedef {import("./runs.js").PromptOptions} PromptOptions */
/** @typedef {import("./runs.js").Completion} Completion */
/** @typedef {import("./runs.js").AgentAnswer} AgentAnswer */
/** @typedef {import("./commands.js").Diff} Diff */
/** @typedef {import("./commands.js").ProjectDiff} ProjectDiff */
/** @typedef {import("./commands.js").Exported} Exported */
/** @typedef {import("./commands.js").ImportOptions} ImportOptions */
/** @typedef {import("./commands.js").ApplyOptions} ApplyOptions */
/** @typedef {import("./commands.js").Applied} Applied */
/** @typedef {import("./limits.js").Limits} Limits */
/** @typedef {import("./result.js").Display} Display */
/** @typedef {import("./result.js").Output} Output */
/** @typedef {import("./result.js").Piece} Piece */
/** @typedef {import("../types/wire.d.ts").Methods} Methods */
/** @typedef {import("../types/wire.d.ts").RawResult} RawResult */
