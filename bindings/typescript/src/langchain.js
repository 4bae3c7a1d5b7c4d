// SPDX-License-Identifier: Apache-2.0
// A sandbox as a tool of LangChain; needs @langchain/core.

import { tool } from "@langchain/core/tools";
import { CODE, DESCRIPTION, textForModel } from "./tool.js";

/** @import {StructuredToolInterface} from "@langchain/core/tools" */
/** @import {Sandbox} from "./sandbox.js" */

/**
 * A tool that runs Python in the session; the model reads output, value or traceback.
 * @param {Sandbox} sandbox
 * @param {{name?: string, description?: string}} [options]
 * @returns {StructuredToolInterface}
 */
export function sandboxTool(sandbox, { name = "python", description = DESCRIPTION } = {}) {
  return tool(async (/** @type {{code: string}} */ { code }, config) => {
    return textForModel(await sandbox.run(code, { signal: config?.signal }));
  }, { name, description, schema: CODE });
}
