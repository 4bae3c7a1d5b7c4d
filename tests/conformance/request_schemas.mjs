// SPDX-License-Identifier: Apache-2.0
// Requests against what the official clients' types say they may be (these are made from the providers' own
// descriptions): the types become JSON Schemas without other members, ajv judges. Reads requests as a JSON array of
// {provider, body}; prints what is wrong with each. Run by hand, see docs/reliability.md. Needs openai@6.49.0,
// @anthropic-ai/sdk@1.12.0, @google/genai@2.32.0, ts-json-schema-generator@2.9.0 and ajv@8.20.0 in the working directory.
import fs from 'node:fs';
import path from 'node:path';
import { createRequire } from 'node:module';
const require = createRequire(path.join(process.cwd(), 'x.js'));
const { createGenerator } = await import(require.resolve('ts-json-schema-generator'));
const Ajv = require('ajv').default;
fs.writeFileSync('request_types.ts', `
import type { ChatCompletionCreateParamsStreaming } from 'openai/resources/chat/completions';
import type { MessageCreateParamsStreaming } from '@anthropic-ai/sdk/resources/messages';
import type { Content, Tool, ToolConfig, GenerationConfig } from '@google/genai';
export type openai = ChatCompletionCreateParamsStreaming;
export type anthropic = MessageCreateParamsStreaming;
export interface gemini { contents: Content[]; systemInstruction?: Content; tools?: Tool[]; toolConfig?: ToolConfig;
  generationConfig?: GenerationConfig }
`);
const judges = {};
function judge(type) {
  judges[type] ??= new Ajv({ strict: false, allErrors: false }).compile(createGenerator(
    { path: 'request_types.ts', type, skipTypeCheck: true, additionalProperties: false }).createSchema(type));
  return judges[type];
}
const bad = {  // what must be refused, or the judge is none
  openai: { model: 'm', stream: true, messages: [{ role: 'userx', content: 'x' }] },
  anthropic: { model: 'm', stream: true, max_tokens: 'many', messages: [] },
  gemini: { contents: [{ role: 'user', part: [] }] },
};
let wrong = 0;
for (const [type, body] of Object.entries(bad)) {
  if (judge(type)(body)) { console.log(`${type}: the judge takes anything`); wrong++; }
}
const requests = JSON.parse(fs.readFileSync(0));
for (const { provider, body } of requests) {
  // Newest types have none; we send it where one is configured, for older models.
  if (provider === 'anthropic') delete body.temperature;
  if (!judge(provider)(body)) { console.log(provider, JSON.stringify(judges[provider].errors), JSON.stringify(body)); wrong++; }
}
console.log(`${requests.length} requests, ${wrong} wrong`);
process.exit(wrong ? 1 : 0);
