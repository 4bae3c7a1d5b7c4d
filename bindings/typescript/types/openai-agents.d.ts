import type { FunctionTool } from "@openai/agents";
import type { Sandbox } from "./sandbox.js";
/** @import {FunctionTool} from "@openai/agents" */
/** @import {Sandbox} from "./sandbox.js" */
/**
 * A tool that runs Python in the session; the model reads output, value or traceback.
 * @param {Sandbox} sandbox
 * @param {{name?: string, description?: string}} [options]
 * @returns {FunctionTool<any, any, string>}
 */
export declare function sandboxTool(sandbox: Sandbox, { name, description }?: {
    name?: string;
    description?: string;
}): FunctionTool<any, any, string>;
