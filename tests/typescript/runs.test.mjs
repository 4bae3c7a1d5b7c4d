// SPDX-License-Identifier: Apache-2.0
// Runs of a model that says what a script says, with tools of this program.

import assert from "node:assert/strict";
import { chmodSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { after, test } from "node:test";
import { Sandbox, agent, completion, resume, streamCompletion } from "snipara-sandbox";

const folder = mkdtempSync(join("/tmp", "snp-"));
after(() => rmSync(folder, { recursive: true, maxRetries: 9 })); // a run may be writing its last
let scripts = 0;

/** A model that gives these answers, each a text and calls of tools. */
function model(...turns) {
  const path = join(folder, `${scripts++}.jsonl`);
  writeFileSync(path, turns.map(([content, ...calls]) => JSON.stringify({
    content, usage: { input: 100, output: 20 }, tool_calls: calls.map(([name, args]) => ({ name, arguments: args })),
  }) + "\n").join(""));
  return `replay/${path}`;
}

const lookup = {
  name: "lookup", description: "Inhabitants of a city.",
  parameters: { type: "object", properties: { city: { type: "string" } }, required: ["city"] },
  handler: async ({ city }) => ({ city, inhabitants: 709037 }),
};
const large = { name: "large", description: "Too much.", handler: () => "x".repeat(5 << 20) };
const fails = { name: "fails", description: "Fails.", handler: () => { throw new TypeError("no such city"); } };

test("tools, records and text", async () => {
  const records = [];
  const texts = [];
  const done = await completion("How many?", {
    model: model(["looking", ["lookup", { city: "Oslo" }], ["fails", {}], ["lookup", { place: 1 }]], ["709037"]), folder,
    tools: [lookup, fails], settings: { max_depth: 4 }, onRecord: (record) => records.push(record), onText: (text) => texts.push(text),
  });
  assert.deepEqual([done.response, done.error, done.total_tool_calls, texts.join("")], ["709037", null, 3, "looking709037"]);
  assert.deepEqual([records[0].prompt, records[0].budget.max_depth], ["How many?", 4]);
  const seen = JSON.stringify(records);
  assert.match(seen, /inhabitants[^,]*709037/);
  assert.match(seen, /TypeError: no such city/);
});

test("a result that is too large, and a prompt with NUL", async () => {
  const records = [];
  const done = await completion("Go.", {
    model: model(["", ["large", {}]], ["done"]), folder, tools: [large], onRecord: (record) => records.push(record),
  });
  assert.equal(done.response, "done");
  assert.match(JSON.stringify(records), /the result has 5242880 bytes; at most 4 MiB/);
  await assert.rejects(completion("Go\0.", { model: model(["done"]), folder }), { name: "InvalidArgument", message: /NUL/ });
});

test("code in a sandbox", async () => {
  const records = [];
  const done = await completion("Compute.", {
    model: model(["", ["execute_code", { code: "print(6 * 7, 'x' * 3)" }]], ["42"]), folder, onRecord: (record) => records.push(record),
  });
  assert.deepEqual([done.response, done.total_tool_calls], ["42", 1]);
  assert.match(JSON.stringify(records), /42 xxx/);
});

test("a stream", async () => {
  const stream = streamCompletion("Say.", { model: model(["a däy"]), folder });
  let said = "";
  for await (const text of stream) said += text;
  assert.deepEqual([said, (await stream.result).response], ["a däy", "a däy"]);
});

test("a run that meets a limit, and goes on", async () => {
  const done = await completion("Find it.", { model: model(["", ["lookup", { city: "Oslo" }]], ["709037"]), folder, tools: [lookup], settings: { max_depth: 1 } });
  assert.equal(done.error, "Stopped after 1 of 1 turns; pass a higher settings.max_depth");
  const more = await resume(done.trajectory_id.slice(0, 8), { folder, tools: [lookup], settings: { max_depth: 2 } });
  assert.deepEqual([more.response, more.error, more.trajectory_id], ["709037", null, done.trajectory_id]);
});

test("an agent", async () => {
  const done = await agent("Find it.", {
    model: model(["", ["lookup", { city: "Oslo" }]], ["", ["FINAL", { answer: "709037" }]]), folder, tools: [lookup],
    settings: { max_iterations: 3, cost_limit: "none" },
  });
  assert.deepEqual([done.answer, done.answer_source], ["709037", "final"]);
});

test("a signal stops the run, which is on record", async () => {
  const stop = new AbortController();
  const why = new Error("enough");
  let end;
  const ended = new Promise((resolve) => { end = resolve; });
  const slow = { ...lookup, handler: () => { stop.abort(why); return new Promise(() => {}); } };
  await assert.rejects(completion("Wait.", {
    model: model(["", ["lookup", { city: "Oslo" }]], ["never"]), folder, tools: [slow], signal: stop.signal,
    onRecord: (record) => { if ("end" in record) end(record.end); },
  }), why);
  assert.equal((await ended).stopped_by, "cancelled");
});

test("a run that does not begin", async () => {
  await assert.rejects(completion("x", { settings: { max_dept: 3 }, folder }), { name: "InvalidArgument", message: /max_depth/ });
  await assert.rejects(completion("x", { colour: 1 }), { name: "InvalidArgument", object: "colour" });
  await assert.rejects(completion("x", { tools: [{ ...lookup, handler: undefined }] }), { name: "InvalidArgument", message: /^tool "lookup" has no handler/ });
  await assert.rejects(completion(undefined), { name: "TypeError", message: /^the prompt must be a string/ });
  await assert.rejects(completion("x", { folder: "/nowhere" }), { name: "NotFound" });
  const program = join(folder, "snipara-sandbox");
  writeFileSync(program, "#!/bin/sh\nexit 0\n");
  chmodSync(program, 0o755);
  const before = process.env.SNIPARA_SANDBOX_BIN;
  process.env.SNIPARA_SANDBOX_BIN = program;
  await assert.rejects(completion("x"), { name: "SandboxLost", message: /^the process of the run ended; / });
  process.env.SNIPARA_SANDBOX_BIN = before;
});

test("sessions of runs are theirs", async () => {
  assert.ok((await Sandbox.list()).every((row) => row.name?.startsWith("run-")));
});
