// SPDX-License-Identifier: Apache-2.0
// node sdk.mjs v1|v2|v2-modern COMMAND ARG...|URL: the official client (@modelcontextprotocol/sdk, or its successor
// /client with or without the handshake) lists, calls, sees progress, cancels and leaves. Prints what it saw, as JSON.
// Over HTTP it sends the token in MCP_TOKEN.
import { createRequire } from "node:module";
import { pathToFileURL } from "node:url";

const require = createRequire(process.cwd() + "/");
const load = (name) => import(pathToFileURL(require.resolve(name)).href);
const [which, command, ...args] = process.argv.slice(2);
const isFirst = which === "v1";
const { Client } = isFirst ? await load("@modelcontextprotocol/sdk/client/index.js")
    : await load("@modelcontextprotocol/client");
const { StdioClientTransport } = isFirst ? await load("@modelcontextprotocol/sdk/client/stdio.js")
    : await load("@modelcontextprotocol/client/stdio");
const options = { capabilities: {} };
if (which === "v2-modern") options.versionNegotiation = { mode: { pin: "2026-07-28" } };
const client = new Client({ name: "check", version: "1" }, options);
const errors = [];
client.onerror = (error) => errors.push(String(error?.message ?? error));
const isHttp = command.startsWith("http:");
const { StreamableHTTPClientTransport } = isFirst ? await load("@modelcontextprotocol/sdk/client/streamableHttp.js")
    : await load("@modelcontextprotocol/client");
const transport = isHttp
    ? new StreamableHTTPClientTransport(new URL(command),
        { requestInit: { headers: { Authorization: `Bearer ${process.env.MCP_TOKEN}` } } })
    : new StdioClientTransport({ command, args, env: process.env, stderr: "inherit" });
const call = (code, more = {}, extra = {}) => {
    const request = { name: "execute_python", arguments: { code, ...extra } };
    return isFirst ? client.callTool(request, undefined, more) : client.callTool(request, more);
};

await client.connect(transport);
const seen = { server: client.getServerVersion()?.name };
seen.tools = (await client.listTools()).tools.map((tool) => tool.name);
seen.prompts = (await client.listPrompts()).prompts.map((prompt) => prompt.name);
seen.value = (await call("6 * 7")).content[0].text;
seen.structured = (await call("6 * 7")).structuredContent ?? null;
seen.failed = (await call("1 / 0")).isError;
seen.progress = [];
await call("import time; time.sleep(2.5)", { onprogress: (one) => seen.progress.push(one.progress) });
const stop = new AbortController();
setTimeout(() => stop.abort("enough"), 300);
seen.cancelled = await call("import time; time.sleep(60)", { signal: stop.signal }).then(() => false, () => true);
seen.after = (await call("'free'")).content[0].text;
await new Promise((done) => setTimeout(done, 300));
const begun = performance.now();
if (isHttp && transport.sessionId) await transport.terminateSession();
await client.close();
seen.closed_ms = performance.now() - begun;
seen.errors = errors;
console.log(JSON.stringify(seen));
process.exit(0);
