// SPDX-License-Identifier: Apache-2.0
// What stands in for the daemon breaks the protocol: calls fail, nothing grows, nothing hangs.

import assert from "node:assert/strict";
import fs, { chmodSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { syncBuiltinESMExports } from "node:module";
import { createServer } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, test } from "node:test";
import { Denied, LimitReached, NotFound, Sandbox, SandboxLost, request } from "snipara-sandbox";

const folder = mkdtempSync(join("/tmp", "snp-"));
after(() => rmSync(folder, { recursive: true }));
process.env.SNIPARA_SANDBOX_RUNTIME_DIR = folder;
process.env.SNIPARA_SANDBOX_BIN = "/nowhere";

const HELLO = { version: 1, program: "3.0.0", pid: 1, uptime_ms: 1 };

/** body and head: said lengths, if not the true ones. */
function frame({ type = 2, id = 2, head = "{}", raw = "", body, headLength, tail = 0 }) {
  const text = Buffer.from(typeof head === "string" ? head : JSON.stringify(head));
  const header = Buffer.alloc(16);
  header.writeUInt32LE(body ?? text.length + raw.length, 0);
  header.writeUInt32LE(id, 4);
  header.writeUInt32LE(headLength ?? text.length, 8);
  header[12] = type;
  header[15] = tail;
  return Buffer.concat([header, text, Buffer.from(raw)]);
}

/** A daemon that greets, and answers everything else with these bytes. */
async function withDaemon(answer, check) {
  let n = 0;
  const sockets = [];
  const server = createServer((socket) => {
    sockets.push(socket.on("error", () => {}));
    socket.on("data", () => {
      for (const part of n++ === 0 ? [frame({ id: 1, head: HELLO })] : [answer].flat()) socket.write(part);
    });
  });
  await new Promise((resolve) => server.listen(join(folder, "sandboxd.sock"), resolve));
  try {
    await check(server);
  } finally {
    for (const socket of sockets) socket.end();
    await new Promise((resolve) => server.close(resolve)); // the client has hung up, too
  }
}

const bad = {
  "a body larger than a frame": frame({ body: 0xffffffff }),
  "a head larger than the body": frame({ body: 2, headLength: 3 }),
  "a head larger than a head": frame({ body: 16 << 20, headLength: 5 << 20 }),
  "bytes that are to be zero": frame({ tail: 1 }),
  "an unknown type": frame({ type: 9 }),
  "a head that is no JSON": frame({ head: "{" }),
  "a head that is no object": frame({ head: "[1]" }),
  "a head that is null": frame({ head: "null" }),
  "text": Buffer.from("HTTP/1.1 400 Bad Request\r\n\r\n"),
};
for (const [name, answer] of Object.entries(bad)) {
  test(name, () => withDaemon(answer, () => assert.rejects(request("stats", {}), SandboxLost)));
}

test("an endless frame is not read beyond its cap", () => withDaemon(Buffer.concat([frame({ id: 99, body: 16 << 20 }), Buffer.alloc(24 << 20)]), async () => {
  await assert.rejects(request("stats", {}), SandboxLost); // what follows the frame is none
  assert.ok(process.memoryUsage().rss < 512 << 20);
}));

test("a value is measured before anything is made of it", () => {
  const raw = `[${"[],".repeat(3 << 20)}0]`;
  return withDaemon([frame({ type: 4, head: { event: "display", mime: [["application/json", raw.length]] }, raw }),
    frame({ head: { cell: 1, status: "ok", error: null, denials: [] } })], () =>
    assert.rejects(new Sandbox({ name: "s" }).get("1"), { name: "SandboxError", message: "the code sent 9437187 bytes back (limit 8 MiB)" }));
});

for (const odd of [{ prompts: Array(101).fill("x") }, { prompts: [{}] }, { prompts: ["x"], system: {} }, { prompts: ["x"], max_tokens: "1" }, { prompts: "x" }]) {
  const raw = JSON.stringify(odd);
  test(`a call that llm_query does not make: ${raw.slice(0, 40)}`, () => withDaemon([
    frame({ type: 4, head: { event: "call", call: 1 }, raw }), frame({ head: { cell: 1, status: "ok", error: null, denials: [] } }),
  ], async () => {
    const asked = [];
    await new Sandbox({ name: "s" }).run("1", { query: (prompt) => String(asked.push(prompt)) });
    assert.deepEqual(asked, []);
  }));
}

test("an older daemon, which knows no internal cells", () => withDaemon([
  frame({ type: 3, head: { code: "invalid", message: "exec: unknown member 'internal'" } }),
  frame({ type: 4, id: 3, head: { event: "display", mime: [["application/json", 1]] }, raw: "5" }),
  frame({ id: 3, head: { cell: 1, status: "ok", error: null, denials: [] } }),
], async () => assert.equal(await new Sandbox({ name: "s" }).get("5"), 5)));

/** A daemon that takes a frame, which has come in one piece, and answers it with what take() makes of its head. */
async function withPeer(take, check) {
  const sockets = [];
  const server = createServer((socket) => sockets.push(socket.on("error", () => {}).on("data", (bytes) => {
    const head = JSON.parse(bytes.subarray(16, 16 + bytes.readUInt32LE(8)).toString());
    const answer = head.method === "hello" ? { head: HELLO } : take(head, socket);
    if (answer) socket.write(frame({ id: bytes.readUInt32LE(4), ...answer }));
  })));
  await new Promise((resolve) => server.listen(join(folder, "sandboxd.sock"), resolve));
  try {
    await check(sockets);
  } finally {
    for (const socket of sockets) socket.end();
    await new Promise((resolve) => server.close(resolve)); // the client has hung up, too
  }
}

test("what a daemon did not read goes to the next one; what it may have read does not", async () => {
  const asked = [];
  await withPeer(({ method }, socket) => {
    asked.push(method);
    if (method === "gc") socket.destroy();
    else return { head: {} };
  }, async (sockets) => {
    await request("stats", {});
    const early = request("sessions.list", {});
    const unread = request("probe", {}); // by now the kernel has both
    sockets[0].destroy();
    await assert.rejects(early, SandboxLost); // perhaps it was read
    await unread;
    assert.deepEqual(asked, ["stats", "probe"]);
    await assert.rejects(request("gc", {}), SandboxLost);
    assert.deepEqual(asked, ["stats", "probe", "gc"]);
    assert.equal(sockets.length, 2);
  });
});

test("parts of a file are of one daemon", async () => {
  const asked = [];
  await withPeer(({ method, offset }, socket) => {
    if (method !== "get") return { head: {} };
    asked.push(offset);
    socket.write(frame({ id: 3, head: { size: 2, eof: false, mode: 0o644 }, raw: "a" }), () => socket.destroy());
  }, () => assert.rejects(new Sandbox({ name: "s" }).files.read("a"), SandboxLost));
  assert.deepEqual(asked, [0]);
});

test("an older daemon is to be restarted", () => withPeer(({ method }) => method === "sessions.set" ?
  { type: 3, head: { code: "unsupported", message: "unknown method 'sessions.set'; did you mean 'sessions.list'?" } } : { head: {} },
() => assert.rejects(new Sandbox({ name: "s" }).setLimits({ cpus: 2 }), { name: "Unsupported", message:
  "the running daemon is older than this program (unknown method 'sessions.set'); restart it with: snipara-sandbox daemon stop" })));

test("a setting that was not applied, and a session that is not saved, are warnings, once", async () => {
  const warnings = [];
  let cells = 0;
  const take = ({ name, message }) => name === "SandboxWarning" && warnings.push(message);
  process.on("warning", take);
  await withPeer(() => ({ head: { cell: 1, status: "ok", error: null, denials: [],
    not_applied: [{ setting: "engine", session: "/run/a.sock", asked: "/run/b.sock" }],
    unsaved: { text: `not saved since cell ${++cells}: disk full` } } }), async () => {
    const s = new Sandbox({ name: "s" });
    assert.equal((await s.run("1")).unsaved, "not saved since cell 1: disk full");
    cells = 0;
    await s.run("2");
    await s.files.write("a", "x");
    await new Promise(setImmediate); // warnings come later
  });
  process.off("warning", take);
  assert.deepEqual(warnings, ["session s keeps its engine /run/a.sock; DOCKER_HOST (/run/b.sock) applies to new sessions",
    "session s: not saved since cell 1: disk full", "session s: not saved since cell 2: disk full"]);
});

test("the missing package of runs is named", async () => {
  writeFileSync(join(folder, "snipara-sandbox"), `#!${process.execPath}\nprocess.exit(2);`, { mode: 0o755 });
  process.env.SNIPARA_SANDBOX_BIN = folder;
  await assert.rejects(Sandbox.import("x"), { name: "Unsupported", message: /need the package snipara-agent/ });
  process.env.SNIPARA_SANDBOX_BIN = "/nowhere";
});

test("an endless answer of a command is not kept", async () => {
  writeFileSync(join(folder, "hello"), frame({ id: 1, head: HELLO }));
  writeFileSync(join(folder, "part"), frame({ type: 4, head: { event: "result", last: false }, raw: "x".repeat(15 << 20) }));
  writeFileSync(join(folder, "snipara-sandbox"), `#!${process.execPath}
const { readFileSync } = require("node:fs");
const socket = new (require("node:net").Socket)({ fd: 3 });
const write = (file, again) => socket.write(readFileSync(__dirname + file), again);
const endless = () => write("/part", endless);
socket.on("error", () => process.exit()).once("data", () => {
  write("/hello");
  socket.once("data", endless);
});`, { mode: 0o755 });
  process.env.SNIPARA_SANDBOX_BIN = folder;
  await assert.rejects(Sandbox.import("x"), { name: "LimitReached", message: /more than 128 MiB/ });
  process.env.SNIPARA_SANDBOX_BIN = "/nowhere";
});

test("odd, and allowed", () => withDaemon(Buffer.concat([
  frame({ id: 77, head: { answered: "nobody" } }), frame({ type: 4, head: { event: "new" } }), frame({ head: '{"__proto__": {"pid": 5}, "pid": 7}', raw: "x" }),
]), async () => {
  const { answer, raw } = await request("stats", {});
  assert.deepEqual([answer.pid, Object.getPrototypeOf(answer), String(raw)], [7, Object.prototype, "x"]);
}));

test("errors are data, whatever they hold", () => withDaemon(frame({ type: 3, head: { code: "constructor", message: 5, limit: {}, remedy: { kind: "toString" } } }), () =>
  assert.rejects(request("stats", {}), { name: "SandboxError", message: "5", limit: "", remedy: "toString" })));

test("the way out of an error", () => withDaemon(frame({ type: 3, head: { code: "denied", message: "no", object: "s", remedy: { kind: "recover", ways: ["replay", "new"] } } }), () =>
  assert.rejects(request("stats", {}), { name: "Denied", code: "denied", object: "s", remedy: "recover",
    message: 'no; pass to run() {recover: "replay"} to run the missing cells again' })));

test("an error about the connection", () => withDaemon(frame({ type: 3, id: 0, head: { code: "limit", message: "too much" } }), () =>
  assert.rejects(request("stats", {}), LimitReached)));

test("bytes one by one", () => withDaemon(Array.from(frame({ head: HELLO }), (byte) => Buffer.of(byte)), async () => {
  assert.deepEqual((await request("stats", {})).answer, HELLO);
}));

test("nobody is there, and nothing to start", () => assert.rejects(request("stats", {}),
  (error) => error instanceof NotFound && /SNIPARA_SANDBOX_BIN/.test(error.message)));

test("a folder that comes after the look at it may be anybody's", () => withDaemon(frame({ head: HELLO }), async (server) => {
  let n = 0;
  server.on("connection", () => n++);
  const { lstatSync } = fs;
  fs.lstatSync = (path, options) => (path === folder ? undefined : lstatSync(path, options));
  syncBuiltinESMExports();
  try {
    await assert.rejects(request("stats", {}), NotFound); // it would have the daemon make the folder
  } finally {
    fs.lstatSync = lstatSync;
    syncBuiltinESMExports();
  }
  assert.equal(n, 0);
}));

test("a folder that others may enter", async () => {
  chmodSync(folder, 0o755);
  await assert.rejects(request("stats", {}), Denied);
  process.env.SNIPARA_SANDBOX_RUNTIME_DIR = join(tmpdir(), "x".repeat(120));
  await assert.rejects(request("stats", {}), LimitReached);
});
