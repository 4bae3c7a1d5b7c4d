// SPDX-License-Identifier: Apache-2.0
// node peer.mjs v1|v2 stdio|http: a server made with the official SDK (@modelcontextprotocol/sdk, or its successor /server, which
// speaks both eras) with a tool, a resource and a prompt. Over HTTP it prints its port and ends with its standard input.
import { createServer } from "node:http";
import { createRequire } from "node:module";
import { randomUUID } from "node:crypto";
import { pathToFileURL } from "node:url";

const require = createRequire(process.cwd() + "/");
const load = (name) => import(pathToFileURL(require.resolve(name)).href);
const [which, over] = process.argv.slice(2);
const isFirst = which === "v1";
const { z } = await load("zod");
const { McpServer } = await load(isFirst ? "@modelcontextprotocol/sdk/server/mcp.js" : "@modelcontextprotocol/server");

function make() {
    const server = new McpServer({ name: `peer-${which}`, version: "1" });
    const text = { text: z.string() };
    server.registerTool("echo", { description: "says it again", inputSchema: isFirst ? text : z.object(text) },
        ({ text }) => ({ content: [{ type: "text", text }] }));
    server.registerResource("note", "note://one", { mimeType: "text/plain" },
        (uri) => ({ contents: [{ uri: uri.href, text: "a note" }] }));
    server.registerPrompt("ask", { argsSchema: isFirst ? { what: z.string() } : z.object({ what: z.string() }) },
        ({ what }) => ({ messages: [{ role: "user", content: { type: "text", text: `tell me ${what}` } }] }));
    return server;
}

async function body(request) {
    const parts = [];
    for await (const part of request) parts.push(part);
    return Buffer.concat(parts).toString();
}

// v1 keeps a transport for each session.
async function sessions() {
    const { StreamableHTTPServerTransport } = await load("@modelcontextprotocol/sdk/server/streamableHttp.js");
    const transports = new Map();
    return async (request, response) => {
        let transport = transports.get(request.headers["mcp-session-id"]);
        if (!transport) {
            transport = new StreamableHTTPServerTransport({
                sessionIdGenerator: randomUUID,
                onsessioninitialized: (id) => transports.set(id, transport),
            });
            await make().connect(transport);
        }
        await transport.handleRequest(request, response);
    };
}

async function stateless() {
    const { createMcpHandler } = await load("@modelcontextprotocol/server");
    const handler = createMcpHandler(make);
    return async (request, response) => {
        const hasBody = request.method === "POST";
        const answer = await handler.fetch(new Request(`http://${request.headers.host}${request.url}`, {
            method: request.method, headers: request.headers, body: hasBody ? await body(request) : undefined,
        }));
        response.writeHead(answer.status, Object.fromEntries(answer.headers));
        for await (const part of answer.body ?? []) response.write(part);
        response.end();
    };
}

if (over === "stdio" && isFirst) {
    const { StdioServerTransport } = await load("@modelcontextprotocol/sdk/server/stdio.js");
    await make().connect(new StdioServerTransport());
} else if (over === "stdio") {
    (await load("@modelcontextprotocol/server/stdio")).serveStdio(make);
} else {
    const serve = isFirst ? await sessions() : await stateless();
    const server = createServer((request, response) => serve(request, response).catch((error) => {
        console.error(error);
        response.writeHead(500).end();
    }));
    server.listen(0, "127.0.0.1", () => console.log(server.address().port));
    process.stdin.resume().on("end", () => process.exit(0));
}
