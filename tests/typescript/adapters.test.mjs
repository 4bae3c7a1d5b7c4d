// SPDX-License-Identifier: Apache-2.0
// The adapters, with the packages they are for.

import assert from "node:assert/strict";
import { test } from "node:test";
import { Agent, Runner, Usage, setTracingDisabled } from "@openai/agents";
import { Sandbox } from "snipara-sandbox";
import { sandboxTool as langchainTool } from "snipara-sandbox/langchain";
import { sandboxTool as agentsTool } from "snipara-sandbox/openai-agents";

test("LangChain", async () => {
  const s = new Sandbox();
  const python = langchainTool(s, { name: "py" });
  assert.equal(python.name, "py");
  assert.equal(await python.invoke({ code: "x = 6\nprint('hi')\nx * 7" }), "hi\n42");
  const message = await python.invoke({ type: "tool_call", id: "call_1", name: "py", args: { code: "1/0" } });
  assert.equal(message.tool_call_id, "call_1");
  assert.match(message.content, /ZeroDivisionError/);
  assert.equal(await python.invoke({ code: "x = 1" }), "(no output)");
  assert.match(await python.invoke({ code: "open('none')" }), /ask the user for a file that is missing\.$/);
  await assert.rejects(python.invoke({ wrong: 1 }));
  await assert.rejects(python.invoke({ code: "while True: pass" }, { signal: AbortSignal.timeout(300) }));
  await s.close();
  const short = await Sandbox.create({ timeout: 0.2 });
  assert.match(await langchainTool(short).invoke({ code: "while True: pass" }), /\ntimeout: 0.2 s. Do less in one call; .*\.$/);
  await short.close();
});

test("OpenAI Agents", async () => {
  setTracingDisabled(true);
  const s = new Sandbox();
  const seen = [];
  const model = { // says what it wants run, then what came back
    async getResponse({ input }) {
      seen.push(input);
      const last = input[input.length - 1];
      const output = last.type === "function_call_result" ?
        { type: "message", role: "assistant", status: "completed", content: [{ type: "output_text", text: `it is ${last.output.text ?? last.output}` }] } :
        { type: "function_call", callId: "call_1", name: "python", status: "completed", arguments: '{"code": "6 * 7"}' };
      return { usage: new Usage(), output: [output] };
    },
  };
  const agent = new Agent({ name: "worker", instructions: "Work.", model, tools: [agentsTool(s)] });
  const done = await new Runner().run(agent, "What is 6 times 7?");
  assert.equal(done.finalOutput, "it is 42");
  assert.equal(seen.length, 2);
  assert.equal((await s.history(1))[0].first_line, "6 * 7");
  await s.close();
});
