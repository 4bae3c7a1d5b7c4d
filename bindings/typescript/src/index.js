// SPDX-License-Identifier: Apache-2.0
// Run untrusted code in persistent sandbox sessions. docs/reference/typescript.md has the rest.

export { Sandbox, Files } from "./sandbox.js";
export { agent, completion, resume, streamCompletion } from "./runs.js";
export { Process } from "./process.js";
export { Stream } from "./stream.js";
export { Result } from "./result.js";
export {
  CellFailed, CellTimeout, Denied, InvalidArgument, LimitReached, NotFound, SandboxError, SandboxLost, SandboxTimeout, Unsupported,
} from "./errors.js";
export { request } from "./connection.js";

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
