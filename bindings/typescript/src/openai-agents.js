// SPDX-License-Identifier: Apache-2.0
// A sandbox as a tool of the OpenAI Agents SDK; needs @openai/agents.

import { tool } from "@openai/agents";
import { CODE, DESCRIPTION, textForModel } from "./tool.js";

/** @import {FunctionTool} from "@openai/agents" */
/** @import {Sandbox} from "./sandbox.js" */

/**
 * A tool that runs Python in the session; the model reads output, value or traceback.
 * @param {Sandbox} sandbox
 * @param {{name?: string, description?: string}} [options]
 * @returns {FunctionTool<any, any, string>}
 */
export function sandboxTool(sandbox, { name = "python", description = DESCRIPTION } = {}) {
  return tool({
    name,
    description,
    parameters: CODE,
    strict: true,
    execute: async (input, _context, details) => {
      const { code } = /** @type {{code: string}} */ (input);
      return textForModel(await sandbox.run(code, { signal: details?.signal }));
    },
  });
}
