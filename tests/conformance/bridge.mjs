// SPDX-License-Identifier: Apache-2.0
// node bridge.mjs -- COMMAND ARG...: put a stdio MCP server behind http://127.0.0.1:PORT/mcp, for a judge that
// speaks HTTP only. Prints the port. A legacy `initialize` begins a server of its own, known by
// Mcp-Session-Id; modern requests share one. What concerns HTTP alone (headers, origins, sessions) is
// answered here and says nothing about the server.
import http from "node:http";
import { spawn } from "node:child_process";
import { randomUUID } from "node:crypto";

const command = process.argv.slice(process.argv.indexOf("--") + 1);
const VERSION = "io.modelcontextprotocol/protocolVersion";
const REFUSED = [-32020, -32021, -32022, -32600, -32700];
const servers = new Map();
let shared = null;

class Server {
    constructor() {
        this.process = spawn(command[0], command.slice(1), { stdio: ["pipe", "pipe", "inherit"] });
        this.process.stdin.on("error", () => {});
        this.calls = new Map(); // our id -> {id, token, send, end}
        this.last = 0;
        let rest = "";
        this.process.stdout.setEncoding("utf8");
        this.process.stdout.on("data", (text) => {
            const lines = (rest + text).split("\n");
            rest = lines.pop();
            lines.forEach((line) => this.take(JSON.parse(line)));
        });
    }

    take(message) {
        if (message.method === undefined) {
            const call = this.calls.get(message.id);
            this.calls.delete(message.id);
            call?.end({ ...message, id: call.id });
            return;
        }
        const token = message.params?.progressToken;
        // progress belongs to its call; all else to the one begun last
        const call = this.calls.get(token) ?? [...this.calls.values()].at(-1);
        if (token !== undefined && call) message.params.progressToken = call.token;
        call?.send(message);
    }

    write(message) {
        this.process.stdin.write(JSON.stringify(message) + "\n");
    }

    begin(message, send, end) {
        const own = { ...structuredClone(message), id: ++this.last };
        const token = own.params?._meta?.progressToken;
        if (token !== undefined) own.params._meta.progressToken = own.id;
        this.calls.set(own.id, { id: message.id, token, send, end });
        this.write(own);
        return own.id;
    }
}

function statusOf(answer, isModern) {
    const code = answer.error?.code;
    if (!isModern || code === undefined) return 200;
    if (code === -32601) return 404;
    return REFUSED.includes(code) || (code === -32602 && answer.error.message.includes("_meta")) ? 400 : 200;
}

function reply(response, status, body, headers = {}) {
    response.writeHead(status, { "content-type": "application/json", ...headers });
    response.end(body === undefined ? undefined : JSON.stringify(body));
}

function refuse(response, status, id, code, message) {
    reply(response, status, { jsonrpc: "2.0", id: id ?? null, error: { code, message } });
}

// The server a message is for, and headers that say so; null: it was refused.
function serverFor(request, response, message, isModern) {
    const session = request.headers["mcp-session-id"];
    if (isModern) {
        shared ??= new Server();
        return [shared, {}];
    }
    if (message.method === "initialize") {
        const id = randomUUID();
        servers.set(id, new Server());
        return [servers.get(id), { "mcp-session-id": id }];
    }
    if (!servers.has(session)) {
        refuse(response, session ? 404 : 400, message.id, -32600, "no such session");
        return null;
    }
    return [servers.get(session), {}];
}

function post(request, response, text) {
    let message;
    try {
        message = JSON.parse(text);
    } catch {
        return refuse(response, 400, null, -32700, "no JSON");
    }
    const claimed = message.params?._meta?.[VERSION];
    const header = request.headers["mcp-protocol-version"];
    const isModern = claimed !== undefined || header >= "2026";
    if (isModern && message.id !== undefined && claimed !== undefined && header !== claimed) {
        return refuse(response, 400, message.id, -32020, "header and body name different versions");
    }
    const found = serverFor(request, response, message, isModern);
    if (!found) return undefined;
    const [server, headers] = found;
    if (message.id === undefined || message.method === undefined) {
        server.write(message);
        response.writeHead(202);
        return response.end();
    }
    let isStream = false;
    const send = (one) => {
        if (!isStream) response.writeHead(200, { "content-type": "text/event-stream", ...headers });
        isStream = true;
        response.write(`data: ${JSON.stringify(one)}\n\n`);
    };
    const id = server.begin(message, send, (answer) => {
        if (!isStream) return reply(response, statusOf(answer, isModern), answer, headers);
        send(answer);
        return response.end();
    });
    response.on("close", () => {
        if (isModern && server.calls.delete(id)) {
            server.write({ jsonrpc: "2.0", method: "notifications/cancelled", params: { requestId: id } });
        }
    });
    return undefined;
}

const listener = http.createServer((request, response) => {
    const session = request.headers["mcp-session-id"];
    if (!/^(localhost|127\.0\.0\.1|\[::1\])(:\d+)?$/.test(request.headers.host ?? "")) return reply(response, 403);
    if (request.method === "DELETE" && servers.has(session)) {
        servers.get(session).process.stdin.end();
        servers.delete(session);
        return reply(response, 200);
    }
    if (request.method !== "POST") return reply(response, request.method === "DELETE" ? 404 : 405);
    const parts = [];
    request.on("data", (part) => parts.push(part));
    request.on("end", () => post(request, response, Buffer.concat(parts).toString()));
    return undefined;
});
listener.listen(0, "127.0.0.1", () => console.log(listener.address().port));
process.stdin.on("end", () => process.exit(0)).resume(); // whoever started us is gone
