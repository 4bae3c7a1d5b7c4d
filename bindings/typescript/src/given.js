// SPDX-License-Identifier: Apache-2.0
// Checks of arguments, for callers without a type checker.

import { InvalidArgument } from "./errors.js";

/** @param {string} a @param {string} b @returns {number} number of letters to add, drop or change */
function distance(a, b) {
  let row = Array.from({ length: b.length + 1 }, (_, i) => i);
  for (let i = 0; i < a.length; i++) {
    const above = row;
    row = [i + 1];
    for (let j = 0; j < b.length; j++) row.push(Math.min(above[j] + (a[i] === b[j] ? 0 : 1), above[j + 1] + 1, row[j] + 1));
  }
  return row[b.length];
}

/**
 * Refuse unknown options.
 * @param {object} given
 * @param {string[]} names
 * @param {string} what the options belong to
 * @internal
 */
export function checkOptions(given, names, what) {
  const wrong = Object.keys(given).find((name) => !names.includes(name));
  if (wrong === undefined) return;
  const near = names.map((name) => ({ name, far: distance(wrong.slice(0, 64).toLowerCase(), name.toLowerCase()) }))
    .sort((a, b) => a.far - b.far).find(({ name, far }) => far <= name.length / 3);
  const way = near ? "" : `; use one of ${names.join(", ")}`;
  throw new InvalidArgument(`"${wrong}" is not an option of ${what}${way}`,
    { object: wrong, remedy: near && { kind: "near_name", name: near.name } });
}

/**
 * Convert text or bytes to bytes.
 * @param {string | Uint8Array} data
 * @param {string} what its name in the error
 * @internal
 */
export function bytesOf(data, what) {
  if (typeof data === "string") return Buffer.from(data);
  if (data instanceof Uint8Array) return data;
  const kind = data === null || data === undefined ? String(data) : `of type ${typeof data}`;
  throw new TypeError(`${what} must be a string or a Uint8Array, not ${kind}${typeof data === "object" && data !== null ? "; JSON.stringify() makes a string" : ""}`);
}
