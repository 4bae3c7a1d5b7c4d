// SPDX-License-Identifier: Apache-2.0
// Values by JSON, between this program and untrusted code.

import { randomBytes } from "node:crypto";
import { InvalidArgument, LimitReached, SandboxError } from "./errors.js";

/** @import {Result} from "./result.js" */

const VALUE_MOST = 8 << 20; // bytes of text; the objects made of it take up to twenty times as much memory
const INTEGER_MOST = 10_000; // digits; BigInt() takes seconds for 8 MiB of digits
const KEYWORDS = new Set(("False None True and as assert async await break class continue def del elif else except finally for from " +
  "global if import in is lambda nonlocal not or pass raise return try while with yield").split(" "));
const FORMLESS = [Function, Map, Set, ArrayBuffer, Object.getPrototypeOf(Uint8Array)]; // JSON.stringify() loses their contents
const HEADER = "Traceback (most recent call last):\n";

/**
 * The code that get() runs: JSON in a display, which no output limit cuts. The expression is on separate lines.
 * @param {string} expression
 * @param {string} mark prefix of integers that a JavaScript number cannot hold
 * @internal
 */
export const getter = (expression, mark) => `_sent = (
${expression}
)
class _Sent:
    def __init__(self, value):
        json = __import__("json")
        try:
            text = json.dumps(value, default=_Sent.plain, allow_nan=False, separators=(",", ":"))
        except ValueError as error:
            if "JSON compliant" not in str(error): raise
            raise ValueError('JSON has no NaN and no infinity; get text, as in get("str(x)") or get("df.to_json()")') from None
        if __import__("re").search("[0-9]{16}", text):
            text = json.dumps(json.loads(text, parse_int=_Sent.whole), separators=(",", ":"))
        if len(text) > ${VALUE_MOST}:
            raise ValueError("the value has %d bytes as text (limit 8 MiB); write it to a file and read that with files.read()" % len(text))
        self.text = text
    def __repr__(self):  # the display contains this, too, within the same limit
        return self.text if len(self.text) < 200 else self.text[:200] + "..." if len(self.text) < ${VALUE_MOST} - 203 else ""
    def _repr_mimebundle_(self, *_): return {"application/json": self.text}
    def whole(text): return int(text) if abs(int(text)) < 2**53 else "${mark}" + text
    def plain(value):
        if hasattr(value, "tolist"): return value.tolist()
        way = "df.to_dict('records')" if type(value).__name__ == "DataFrame" else "str(x)"
        raise TypeError('JSON has no form for ' + type(value).__name__ + '; use what has one, as in get("' + way + '")') from None
try: __import__("builtins").display(_Sent(_sent))
finally: del _Sent, _sent
`;

/**
 * The code that set() runs; its standard input is the value.
 * @param {string} name
 * @internal
 */
export function setter(name) {
  if (!/^[\p{ID_Start}_]\p{ID_Continue}*$/u.test(name) || KEYWORDS.has(name)) {
    throw new InvalidArgument(`"${name}" is not a valid variable name`, { object: String(name) });
  }
  return `${name} = __import__("json").loads(__import__("sys").__stdin__.read())\n`;
}

/**
 * A value as JSON in ASCII, the form that get() measures. TypeError: JSON has no form for it; LimitReached: too large.
 * @param {unknown} value
 * @internal
 */
export function jsonOf(value) {
  const mark = randomBytes(8).toString("hex");
  const text = JSON.stringify(value, /** @this {any} */ function (key, item) {
    const given = this[key]; // before toJSON()
    if (typeof given === "bigint") return mark + given;
    if (typeof item === "number" ? !Number.isFinite(item) : FORMLESS.some((kind) => given instanceof kind || item instanceof kind)) {
      throw new TypeError(`JSON has no form for ${typeof item === "number" ? item : given.constructor.name}; convert it first`);
    }
    return item;
  });
  if (text === undefined) throw new TypeError("JSON cannot represent undefined; use null");
  const ascii = text.replaceAll(new RegExp(`"${mark}(-?\\d+)"`, "g"), "$1")
    .replace(/[\u0080-\uffff]/g, (unit) => `\\u${unit.charCodeAt(0).toString(16).padStart(4, "0")}`);
  if (ascii.length > VALUE_MOST) {
    throw new LimitReached(`the value has ${ascii.length} bytes as JSON (limit 8 MiB); write it to a file with files.write()`,
      { code: "limit", limit: { name: "value", value: VALUE_MOST } });
  }
  return ascii;
}

/**
 * A traceback without frames of this package in that cell and those above; lines of the caller's code start at 1.
 * @param {string} text
 * @param {number} cell
 * @param {(line: number) => number | null} lineOf the caller's line; null: a line of this package
 */
function withoutOurs(text, cell, lineOf) {
  const frame = new RegExp(`^([ |]*)  File "<cell ${cell}>", line (\\d+)(, in .*)?\\n(?:\\1    .*\\n)*`, "gm");
  return text.split(HEADER).map((part, i) => {
    const ours = [...part.matchAll(frame)].filter((found) => lineOf(Number(found[2])) === null).pop();
    const rest = ours ? part.slice(ours.index + ours[0].length) : part;
    const header = i > 0 && /^[ |]*  File "/.test(rest) ? HEADER : "";
    return header + rest.replace(frame, (found, _, line) => found.replace(`line ${line}`, `line ${lineOf(Number(line))}`));
  }).join("");
}

/**
 * Throw if the cell of getter() or setter() failed. CellFailed shows only the caller's code.
 * @param {Result} result
 * @param {string | null} expression
 * @internal
 */
export function checkCell(result, expression) {
  const { error } = result.raw;
  const count = expression?.split(/\r\n|\r|\n/).length ?? 0;
  /** @param {number} line */
  const lineOf = (line) => (line > 1 && line <= 1 + count ? line - 1 : null);
  if (error) {
    error.line = error.line === null ? null : lineOf(error.line);
    error.traceback = error.traceback === null ? null : withoutOurs(error.traceback, result.cell, lineOf);
  }
  result.throwIfFailed();
}

/**
 * The value sent by the code of getter(). CellFailed: the expression failed; SandboxError: the code sent other data.
 * @param {Result} result
 * @param {string} expression
 * @param {string} mark
 * @internal
 */
export function valueOf(result, expression, mark) {
  checkCell(result, expression);
  const sent = result.displays.filter((display) => "application/json" in display).pop(); // the last is from this package
  if (!sent) throw new SandboxError("the code sent no value back");
  const text = String(sent["application/json"]);
  if (text.length > VALUE_MOST) throw new SandboxError(`the code sent ${text.length} bytes back (limit 8 MiB)`);
  try {
    return JSON.parse(text, text.includes(mark) ? (_, value) => {
      if (typeof value !== "string" || !value.startsWith(mark)) return value;
      if (value.length > INTEGER_MOST) throw new RangeError(`an integer has more than ${INTEGER_MOST} digits; get text, as in get("hex(x)")`);
      return BigInt(value.slice(mark.length));
    } : undefined);
  } catch (error) {
    throw new SandboxError(`what the code sent back is not a value: ${error instanceof Error ? error.message : error}`);
  }
}
