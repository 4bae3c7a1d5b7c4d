// SPDX-License-Identifier: Apache-2.0
// Texts of the adapters for a model.

import { hintForModel, wayForModel } from "./hints.js";

/** @import {Result} from "./result.js" */

export const DESCRIPTION = "Run Python code in a sandbox without network, and return what it prints, the value of its last " +
  "expression or the traceback. Variables and files in /workspace stay for the next call.";

/** Arguments, as JSON Schema. */
export const CODE = {
  type: /** @type {const} */ ("object"),
  properties: { code: { type: /** @type {const} */ ("string"), description: "Python code" } },
  required: /** @type {["code"]} */ (["code"]),
  additionalProperties: /** @type {const} */ (false),
};

/** @param {Result} result */
export const textForModel = (result) => result.text(hintForModel(result.raw) ?? "", wayForModel(result.raw)) || "(no output)";
