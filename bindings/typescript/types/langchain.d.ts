import type { StructuredToolInterface } from "@langchain/core/tools";
import type { Sandbox } from "./sandbox.js";
/** @import {StructuredToolInterface} from "@langchain/core/tools" */
/** @import {Sandbox} from "./sandbox.js" */
/**
 * A tool that runs Python in the session; the model reads output, value or traceback.
 * @param {Sandbox} sandbox
 * @param {{name?: string, description?: string}} [options]
 * @returns {StructuredToolInterface}
 */
export declare function sandboxTool(sandbox: Sandbox, { name, description }?: {
    name?: string;
    description?: string;
}): StructuredToolInterface;
