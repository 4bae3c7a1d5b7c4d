// SPDX-License-Identifier: Apache-2.0
// Limits as people write them ("512m", seconds), in the units of the protocol.

import { InvalidArgument } from "./errors.js";

// Units of limits, the suffixes of their names in the protocol; generated from the table in src/base/policy/limits.c.
const UNITS = {
// messages: limits
  timeout: "_ms", // wall clock of one cell, in seconds
  cpus: "_milli", // CPUs the sandbox may use
  memory: "_bytes", // memory of the whole sandbox, no swap
  processes: "", // processes and threads of the code
  tmp_size: "_bytes", // size of /tmp, and of /dev/shm
  workspace_size: "_bytes", // bytes the code may write to /workspace
  workspace_files: "", // files the code may create in /workspace
  file_size: "_bytes", // size of one file
  open_files: "", // open files of one process
  output: "", // characters of stdout and of stderr that are shown
// end
};

/** @typedef {{[name in keyof typeof UNITS]?: number | string}} Limits Limits by name; see docs/reference/configuration.md. */

/** @param {string} text @returns {number} bytes; NaN: not a size */
function bytesOf(text) {
  const found = /^(\d+|\d+\.\d+(?= ?[kmgt])) ?([kmgt]?)(?:i?b)?$/i.exec(text);
  return found ? Math.floor(Number(found[1]) * 1024 ** " kmgt".indexOf(found[2].toLowerCase() || " ")) : NaN;
}

/**
 * Convert limits for a request. The daemon checks the ranges.
 * @param {Limits} given
 * @returns {Record<string, number>}
 * @internal
 */
export function limitsFor(given) {
  /** @type {Record<string, number>} */
  const wire = {};
  for (const [name, value] of Object.entries(given)) {
    if (value === undefined) continue;
    if (!Object.hasOwn(UNITS, name)) {
      throw new InvalidArgument(`"${name}" is not a limit; use one of ${Object.keys(UNITS).join(", ")}`);
    }
    const unit = UNITS[/** @type {keyof typeof UNITS} */ (name)];
    const isThousandth = unit === "_ms" || unit === "_milli";
    const number = unit === "_bytes" ? bytesOf(String(value)) : Number(value) * (isThousandth ? 1000 : 1);
    const whole = Math.round(number);
    if (value === "" || !Number.isSafeInteger(whole) || whole < 0 || (!isThousandth && whole !== number)) {
      const what = unit === "_bytes" ? 'a size, as in "512m" or 1048576' : isThousandth ? "a number" : "a whole number";
      throw new InvalidArgument(`${name}: expected ${what}, got ${JSON.stringify(value)}`);
    }
    wire[name + unit] = whole;
  }
  return wire;
}
