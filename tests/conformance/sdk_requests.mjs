// SPDX-License-Identifier: Apache-2.0
// What the official clients of the providers put on the wire for one conversation: prints
// tests/integration/golden/model-requests.json. Needs openai@6.49.0, @anthropic-ai/sdk@1.12.0 and
// @google/genai@2.32.0; run by hand when they have changed:
//     node sdk_requests.mjs >golden/model-requests.json
import http from 'node:http';
import OpenAI from 'openai';
import Anthropic from '@anthropic-ai/sdk';
import { GoogleGenAI } from '@google/genai';
const seen = [];
const kept = ['authorization', 'x-api-key', 'x-goog-api-key', 'anthropic-version', 'content-type'];
const server = http.createServer((req, res) => {
  let body = '';
  req.on('data', d => body += d);
  req.on('end', () => {
    const headers = Object.fromEntries(kept.map(name => [name, req.headers[name]]).filter(([, value]) => value));
    seen.push({ method: req.method, path: req.url, headers, body: JSON.parse(body) });
    res.writeHead(200, { 'content-type': 'text/event-stream' });
    res.end('data: [DONE]\n\n');
  });
});
await new Promise(r => server.listen(0, '127.0.0.1', r));
const url = `http://127.0.0.1:${server.address().port}`;
const look = { name: 'look', description: 'Look at something', schema: { type: 'object', properties: { at: { type: 'string' } }, required: ['at'] } };
async function drain(s) { try { for await (const _ of await s) { } } catch (e) { } }
const o = new OpenAI({ apiKey: 'KEY', baseURL: url + '/v1', maxRetries: 0 });
await drain(o.chat.completions.create({ model: 'gpt-4o-mini', stream: true, stream_options: { include_usage: true }, temperature: 0, max_tokens: 50,
  messages: [{ role: 'system', content: 'Be brief.' }, { role: 'user', content: 'hello' },
    { role: 'assistant', content: null, tool_calls: [{ id: 'c1', type: 'function', function: { name: 'look', arguments: '{"at":"x"}' } }] },
    { role: 'tool', tool_call_id: 'c1', content: 'seen' }],
  tools: [{ type: 'function', function: { name: look.name, description: look.description, parameters: look.schema } }], tool_choice: 'auto' }));
const a = new Anthropic({ apiKey: 'KEY', baseURL: url, maxRetries: 0 });
await drain(a.messages.create({ model: 'claude-sonnet-4-5', stream: true, max_tokens: 50, temperature: 0, system: [{ type: 'text', text: 'Be brief.' }],
  messages: [{ role: 'user', content: [{ type: 'text', text: 'hello' }] },
    { role: 'assistant', content: [{ type: 'tool_use', id: 'c1', name: 'look', input: { at: 'x' } }] },
    { role: 'user', content: [{ type: 'tool_result', tool_use_id: 'c1', content: 'seen', cache_control: { type: 'ephemeral' } }] }],
  tools: [{ name: look.name, description: look.description, input_schema: look.schema }], tool_choice: { type: 'auto' } }));
const g = new GoogleGenAI({ apiKey: 'KEY', httpOptions: { baseUrl: url } });
try { await drain(await g.models.generateContentStream({ model: 'gemini-2.5-flash',
  contents: [{ role: 'user', parts: [{ text: 'hello' }] }, { role: 'model', parts: [{ functionCall: { name: 'look', args: { at: 'x' } } }] },
    { role: 'user', parts: [{ functionResponse: { name: 'look', response: { output: 'seen' } } }] }],
  config: { systemInstruction: 'Be brief.', temperature: 0, maxOutputTokens: 50,
    tools: [{ functionDeclarations: [{ name: look.name, description: look.description, parametersJsonSchema: look.schema }] }],
    toolConfig: { functionCallingConfig: { mode: 'AUTO' } } } })); } catch (e) { console.error(e.message) }
console.log(JSON.stringify(seen, null, 1));
process.exit(0);
