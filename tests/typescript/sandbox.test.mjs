// SPDX-License-Identifier: Apache-2.0
// Sessions from a program in JavaScript, against a real daemon. tests/integration/test_typescript.py runs this.

import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { existsSync, mkdtempSync, readFileSync, writeFileSync } from "node:fs";
import { basename, join, resolve } from "node:path";
import { test } from "node:test";
import { inspect } from "node:util";
import { CellFailed, CellTimeout, Denied, InvalidArgument, LimitReached, NotFound, Sandbox, SandboxError, SandboxLost, SandboxTimeout, Stream, request } from "snipara-sandbox";

const PATIENCE_MS = 1000 * Number(process.env.SNP_TEST_PATIENCE ?? 60); // as of tests/lib.py
const names = async () => (await Sandbox.list()).map((row) => row.name);

test("processes", async () => {
  const s = await Sandbox.create();
  const process = await s.start("read x; echo got $x; cat; echo ä >&2; exit 3", { openInput: true });
  assert.deepEqual([await process.wait(0), await process.read()], [null, []]);
  await process.write("one\n");
  assert.equal((await s.run("6 * 7")).value, "42");
  assert.deepEqual(await process.read(PATIENCE_MS / 1000), [{ stream: "stdout", text: "got one\n" }]);
  await process.write(Buffer.alloc(90000, "x"), { close: true });
  const texts = { stdout: "", stderr: "" };
  for await (const { stream, text } of process) texts[stream] += text;
  assert.deepEqual(texts, { stdout: "x".repeat(90000), stderr: "ä\n" });
  assert.deepEqual([await process.wait(), await process.signal()], [{ exitCode: 3, signal: null }, false]);
  await assert.rejects(process.write("late"), (error) => error instanceof NotFound && error.message === "process 2 has ended");
  const sleeper = await s.start(["sleep", "1000"]);
  await assert.rejects(sleeper.close(), { name: "InvalidArgument", message: /was started without an open standard input/ });
  await assert.rejects(sleeper.signal("NOSUCH"), { name: "InvalidArgument", message: /no signal "NOSUCH"/ });
  await assert.rejects(s.start("true", { stdin: true }), { name: "InvalidArgument" });
  const [, again] = await s.processes();
  assert.deepEqual([again.number, again.argv, await again.signal("INT")], [sleeper.number, ["sleep", "1000"], true]);
  assert.deepEqual(await sleeper.wait(), { exitCode: null, signal: "SIGINT" });
  await s.close();
});

test("results", async () => {
  const s = await Sandbox.create({ memory: 256 << 20, env: { CITY: "Oslo" }, timeout: 20, limits: { cpus: 0.5 } });
  const said = [];
  const r = await s.run("import os, sys\nprint('öut')\nsys.stderr.write('err')\nos.environ['CITY']", { onOutput: (piece) => said.push(piece) });
  assert.deepEqual([r.ok, r.value, r.stdout, r.stderr], [true, "'Oslo'", "öut\n", "err"]);
  assert.deepEqual(said.filter((piece) => piece.stream === "stderr"), [{ stream: "stderr", text: "err" }]);
  assert.equal(String(r.throwIfFailed()), "öut\nerr\n'Oslo'");
  const { limits } = (await s.run("1")).raw.manifest?.controls.resources ?? r.raw.manifest.controls.resources;
  assert.deepEqual([limits.memory.value, limits.cpus.value, limits.timeout.value], [256 << 20, 500, 20000]);
  const shown = await s.run("class P:\n  def _repr_html_(self): return '<b>'\ndisplay(P())\nopen('a', 'w')");
  assert.equal(shown.displays[0]["text/html"], "<b>");
  assert.deepEqual(shown.files.created, ["a"]);
  await assert.rejects(async () => (await s.run("x = 1\n1/0")).throwIfFailed(),
    (error) => error instanceof CellFailed && error.code === "error" && error.result.error.type === "ZeroDivisionError" &&
      error.message.startsWith("ZeroDivisionError: division by zero (line 2 of the cell)\n\nTraceback"));
  class Own extends SandboxTimeout {}
  for (const [code, isTimeout] of [["import time; time.sleep(600)", true], ["raise TimeoutError", false]]) {
    await assert.rejects(async () => (await s.run(code, isTimeout ? { timeout: 0.2 } : {})).throwIfFailed(), (error) => error instanceof CellFailed &&
      error instanceof SandboxTimeout === isTimeout && error instanceof CellTimeout === isTimeout && !(error instanceof Own) && new Own("x") instanceof SandboxTimeout);
  }
  await assert.rejects(async () => (await s.run("while True: pass", { timeout: 0.2 })).throwIfFailed(),
    { code: "timeout", limit: "timeout", limitValue: 200, remedy: "raise_limit", remedyName: "timeout",
      message: /^the cell ended with status timeout \(limit: timeout 0.2 s\); pass a higher timeout to run\(\)/ });
  assert.match(String(await s.run("open('none')")), /\nOnly files of the session are in the sandbox.* option project, or write the file into the session\.$/);
  assert.match((await s.run("import not_there")).error.hint, /open the session with the option template/);
  assert.equal((await s.sh("cat; exit 3", { input: "in" })).exitCode, 3);
  assert.deepEqual(await s.get("{'a': [1, 2.5, None, True, 'ä']}"), { a: [1, 2.5, null, true, "ä"] });
  assert.equal(await s.get("'y' * 300000"), "y".repeat(300000));
  assert.deepEqual(await s.get("[2**53 - 1, 2**60 + 1, {'a': -2**70}, '12345678901234567890', 1e300]"),
    [2 ** 53 - 1, 2n ** 60n + 1n, { a: -(2n ** 70n) }, "12345678901234567890", 1e300]);
  const noForm = { "float('nan')": /NaN.*get\("str\(x\)"\)/, "type('DataFrame', (), {})()": /get\("df.to_dict\('records'\)"\)/, "{1}": /set; .*str/, nope: /line 1 of the cell/ };
  for (const [expression, message] of Object.entries(noForm)) {
    await assert.rejects(s.get(expression), (error) => error.name === "CellFailed" && message.test(error.message) && !/sent/i.test(error.message));
  }
  await s.run("def fails(): return 1 / 0");
  await assert.rejects(s.get("[\nfails()]"), ({ message }) =>
    /^ZeroDivisionError: division by zero \(line 2 of the cell\)\n\nTraceback .*\n  File "<cell \d+>", line 2, in <module>\n    fails\(\)/.test(message) &&
      /line 1, in fails\n/.test(message) && !/sent/i.test(message));
  await assert.rejects(s.get("1 +"), { message: /^SyntaxError: / });
  assert.equal((await s.run("[name for name in dir() if 'sent' in name.lower()]")).value, "[]");
  await assert.rejects(s.get("__import__('sys').set_int_max_str_digits(0) or 10**20000"), { name: "SandboxError", message: /hex/ });
  assert.deepEqual([r.limit, r.denials], [null, []]);
  const long = await s.run("print('ä' * 700000)\nsys.stderr.write('few')");
  for (const one of [long, await s.result(long.cell)]) {
    assert.ok(one.stdout.length < 700000);
    assert.deepEqual([await one.output() === "ä".repeat(700000) + "\n", await one.output("stderr")], [true, "few"]);
  }
  await assert.rejects(long.output("both"), InvalidArgument);
  const late = await s.run("while True: pass", { timeout: 0.2 });
  assert.deepEqual([late.limit.key, late.limit.value], ["timeout", 200]);
  assert.match(inspect(late), /\ntimeout: 0.2 s; pass a higher timeout to run\(\)$/);
  assert.equal(inspect(await s.run("x = 1")), "<Result: ok>");
  const refused = await s.run("import socket\ntry: socket.create_connection(('192.0.2.1', 80))\nexcept OSError: pass");
  assert.deepEqual(refused.denials.map(({ operation, object, count }) => [operation, object, count]), [["connect", "192.0.2.1:80", 1]]);
  assert.match(String(refused), /^denied: network: connect 192.0.2.1:80, no network \[guest\]\nhint: The sandbox has no network\. .*$/);
  await s.close();
  await s.close();
  await assert.rejects(long.output(), NotFound); // it ends with the session
  for (const call of [s.run("1"), s.get("1"), s.files.list(), s.history(), s.fork(2), s.stream("1").result]) {
    await assert.rejects(call, { name: "InvalidArgument", message: /^this sandbox was closed/ });
  }
  assert.ok(!(await names()).includes(s.name));
});

test("values that are set", async () => {
  const s = new Sandbox();
  const value = { a: [1, 2.5, null, true, "ä\u{1f40d}", -(2n ** 70n)], "": { when: new Date(0) }, none: undefined };
  await s.set("größe", value);
  assert.equal((await s.run("größe")).value, "{'a': [1, 2.5, None, True, 'ä\u{1f40d}', -1180591620717411303424], '': {'when': '1970-01-01T00:00:00.000Z'}}");
  const most = "\\".repeat((4 << 20) - 1); // each is two bytes as JSON, and the quotes are two
  await s.set("most", most);
  assert.ok(await s.get("most") === most);
  await assert.rejects(s.set("more", most + "x"), { name: "LimitReached", limit: "value", limitValue: 8 << 20, message: /has 8388609 bytes as JSON \(limit 8 MiB\)/ });
  const circle = [];
  circle.push(circle);
  for (const bad of [NaN, undefined, () => 1, [new Map()], { x: Buffer.from("x") }, new Uint8Array(1), circle]) await assert.rejects(s.set("x", bad), TypeError);
  for (const name of ["", "1x", "a b", "class", "x = 1;y"]) await assert.rejects(s.set(name, 1), InvalidArgument);
  assert.deepEqual((await s.history()).map((cell) => [cell.cell, cell.first_line]), [[2, "größe"]]); // none of get() and set()
  await s.close();
});

test("what a hostile sandbox sends as a value", async () => {
  const s = new Sandbox();
  await s.run(`import builtins
class Json:
    def __init__(self, text): self.text = text
    def _repr_mimebundle_(self, *_): return {"application/json": self.text}
def lie(answer):
    builtins.display = lambda ours: show(Json(answer(ours.text)))
show = builtins.display`);
  assert.equal(await s.get("show(Json('1')) or 2"), 2); // the last is of get()
  await assert.rejects(s.get("'y' * (9 << 20)"), { name: "CellFailed", message: /^ValueError: the value has 9437186 bytes as text \(limit 8 MiB\)/ });
  for (const answer of ["'[' + text", "'[' * 99999 + text + ']' * 99999", "text[:-1] + 'x\""]) { // not JSON, too deep, not an integer
    await s.run(`lie(lambda text: ${answer})`);
    await assert.rejects(s.get("2**60"), { name: "SandboxError", message: /^what the code sent back is not a value: / });
  }
  await s.run("lie(lambda text: None)");
  await assert.rejects(s.get("1"), { name: "SandboxError", message: /no value back/ });
  await s.close();
});

test("files, snapshots, forks, history", async () => {
  const s = new Sandbox();
  await s.files.write("folder/", "");
  await s.files.write("folder/a.txt", "täxt", { mode: 0o600 });
  assert.equal(await s.files.readText("folder/a.txt"), "täxt");
  assert.deepEqual((await s.files.list("folder")).map(({ name, type, size }) => [name, type, size]), [["a.txt", "file", 5]]);
  const large = Buffer.alloc((2 << 20) + 3, "snipara");
  await s.files.write("large", large);
  assert.ok(large.equals(await s.files.read("large")));
  await assert.rejects(s.files.read("none"), NotFound);
  await assert.rejects(s.files.read("large", { most: 1 }), (error) => error instanceof LimitReached && error.limit === "most" &&
    error.remedyValue === large.length && error.message.endsWith(`; pass {most: ${large.length}} to files.read()`));
  await s.run("x = 1");
  const kept = await s.snapshot("kept");
  for (const back of ["kept", kept]) {
    await s.run("x = 2");
    await s.rollback(back);
    assert.equal(await s.get("x"), 1);
  }
  const [a, b] = await s.fork(2);
  await a.run("x = 3");
  assert.deepEqual(await Promise.all([a.get("x"), b.get("x")]), [3, 1]);
  await s.hibernate();
  assert.equal((await s.run("x")).value, "1");
  assert.deepEqual((await s.history(1)).map((cell) => [cell.status, cell.first_line]), [["ok", "x"]]);
  const { cell } = (await s.run("class R:\n    def _repr_html_(self): return '<b>x</b>'\nprint('out'); display(R())")).raw;
  await s.run("1");
  const earlier = await s.result(cell);
  assert.deepEqual([earlier.stdout, earlier.displays[0]["text/html"], earlier.status], ["out\n", "<b>x</b>", "ok"]);
  assert.deepEqual((await s.history(2)).map(({ displays }) => displays), [undefined, 1]);
  await assert.rejects(s.result(999), { name: "NotFound" });
  await Promise.all([s, a, b].map((one) => one.close()));
  const sized = await Sandbox.create({ name: "stays", memory: "256m" });
  await sized.run("x = 4");
  assert.deepEqual(await sized.setLimits({ memory: "1g", timeout: 60 }), ["memory"]);
  assert.equal((await sized.run("x")).value, "4"); // sends its limits again
  assert.match((await sized.run("bytearray(1 << 40)")).error.hint, /memory applies at the next wake: hibernate the/);
  await assert.rejects(new Sandbox({ name: "stays", memory: "256m" }).run("x"), (error) =>
    error instanceof InvalidArgument && error.message.endsWith("is 1 GiB, not 256 MiB; setLimits() changes it"));
  const again = await Sandbox.create({ name: "stays" });
  assert.equal(await again.get("x"), 4);
  await again.close();
  assert.deepEqual(await names(), ["stays"]);
  await again.destroy();
});

test("a project, which stays as it is", async () => {
  const s = await Sandbox.create({ project: ".", template: "base", tier: "native" });
  const r = await s.sh("ls package.json && rm package.json");
  assert.deepEqual([r.stdout, r.files.deleted], ["package.json\n", ["package.json"]]);
  assert.ok(existsSync("package.json"));
  await s.close();
});

test("diff, apply, export and import", async () => {
  const folder = mkdtempSync(resolve("changes-"));
  writeFileSync(join(folder, "a.txt"), "one\n");
  const s = await Sandbox.create({ project: folder, template: "base", tier: "native" });
  await s.run("x = 1");
  const before = await s.snapshot("before");
  await s.run("x = 2\nopen('a.txt', 'a').write('two\\n')\nopen('.envrc', 'w').write('')");
  for (const from of ["before", before]) {
    const { variables, files } = await s.diff(from);
    assert.deepEqual(variables.map(({ name, change }) => [name, change]), [["x", "changed"]]);
    assert.deepEqual(files.map(({ path, change }) => [path, change]), [[".envrc", "added"], ["a.txt", "added"]]);
    assert.match(files[1].unified, /\n\+one\n\+two\n$/);
  }
  const { project, files } = await s.diff();
  assert.deepEqual([project, files.map(({ path }) => path)], [folder, [".envrc", "a.txt"]]);
  assert.match(files[1].unified, /\n one\n\+two\n$/);
  await assert.rejects(s.apply({ unverified: true }), { name: "Denied", object: ".envrc", message: /allow each with \{allow: \[PATH\]\} \(the first is "\.envrc"\)$/ });
  await assert.rejects(s.apply({ paths: ["a.txt"] }), { name: "Denied", message: /use \{unverified: true\}/ });
  await assert.rejects(s.apply({ yes: true }), InvalidArgument);
  assert.equal(readFileSync(join(folder, "a.txt"), "utf8"), "one\n");
  assert.deepEqual((await s.apply({ unverified: true, paths: ["a.txt"] })).applied, ["a.txt"]);
  assert.equal(readFileSync(join(folder, "a.txt"), "utf8"), "one\ntwo\n");
  assert.deepEqual((await s.apply({ unverified: true, allow: [".envrc"] })).applied, [".envrc"]);
  const file = `-${basename(folder)}`;
  assert.equal((await s.export(file)).name, s.name);
  await assert.rejects(s.export(file), { name: "Denied", message: /exists; \{force: true\} replaces it$/ });
  assert.ok((await s.export(file, { force: true, snapshot: "before" })).bytes > 0);
  const warnings = [];
  process.on("warning", ({ name, message }) => name === "SandboxWarning" && warnings.push(message.split(" ")[0]));
  const made = await Sandbox.import(file, { name: "imported", limits: { memory: "256m" } });
  assert.deepEqual([made.name, await made.get("x"), (await s.diff(made)).variables.length, (await s.diff("before", made)).variables], ["imported", 1, 1, []]);
  assert.equal((await made.run("x")).raw.manifest.controls.resources.limits.memory.value, 256 << 20);
  assert.deepEqual(warnings, ["memory", "the"]); // limit, project
  await assert.rejects(made.diff(), { name: "InvalidArgument", message: /has no project; make one with: new Sandbox\(\{project: DIR\}\)/ });
  await made.destroy();
  await assert.rejects(Sandbox.import(file, { limits: { colour: 1 } }), InvalidArgument);
  await assert.rejects(Sandbox.import("nowhere"), NotFound);
  await s.close();
  await assert.rejects(s.diff(), InvalidArgument);
});

test("errors", async () => {
  for (const options of [{ memory: "lots" }, { memory: 1.5 }, { cpu: 1 }, { name: "-bad" }, { limits: { colour: 1 } }]) {
    assert.throws(() => new Sandbox(options), InvalidArgument);
  }
  assert.throws(() => new Sandbox({ project: "/nowhere" }), NotFound);
  assert.throws(() => new Sandbox({ memroy: "1g" }), { message: '"memroy" is not an option of a sandbox; did you mean memory?', remedyName: "memory" });
  const unused = new Sandbox();
  await assert.rejects(unused.run("1", { tiemout: 3 }), { name: "InvalidArgument", message: /did you mean timeout\?$/ });
  await assert.rejects(unused.sh("true", { colour: 3 }), { name: "InvalidArgument", message: /; use one of timeout, / });
  for (const call of [unused.run(null), unused.sh(), unused.run("1", { input: 5 }), unused.files.write("x", { a: 1 })]) {
    await assert.rejects(call, { name: "TypeError", message: /^(the code|input|the data of a file) must be a string or a Uint8Array, not / });
  }
  await assert.rejects(Sandbox.create({ project: "/" }), Denied);
  await assert.rejects(Sandbox.create({ memory: 1 }), { name: "InvalidArgument", message: /memory/ });
  await assert.rejects(new Sandbox({ name: "no" }).history(), { name: "NotFound", code: "not_found", object: "no" });
  await assert.rejects(request("exec", { kind: "python", code_len: 17 << 20 }, Buffer.alloc(17 << 20)), LimitReached);
  assert.deepEqual(await new Sandbox().history(), []);
});

test("streams", async () => {
  const s = new Sandbox();
  const stream = s.stream("for i in range(3): print('ä' * i)\nimport sys; sys.stderr.write('err')\n7");
  const texts = { stdout: "", stderr: "", value: "" };
  let last;
  for await (const piece of stream) texts[last = piece.stream] += piece.text;
  assert.deepEqual([texts, last, (await stream.result).value], [{ stdout: "\nä\nää\n", stderr: "err", value: "7" }, "value", "7"]);
  for await (const piece of s.stream("1/0")) assert.fail(piece.text); // it has no value
  for await (const { stream } of s.stream("print(1)\n2")) if (stream === "value") break; // it has ended
  for await (const piece of s.stream("import time\nprint('first', flush=True)\ntime.sleep(600)", { timeout: 600 })) {
    assert.ok(piece);
    break; // ends the cell
  }
  await s.run("1");
  assert.deepEqual((await s.history(3)).map((cell) => cell.status), ["ok", "interrupted", "ok"]);
  await assert.rejects(async () => {
    for await (const piece of s.stream("print(1)", { recover: "never" })) assert.fail(piece.text);
  }, InvalidArgument);
  assert.ok(stream instanceof Stream);
  await s.close();
});

test("a cell is ended by its signal, by a callback that throws, by interrupt()", async () => {
  const s = await Sandbox.create();
  const stop = new AbortController();
  const why = new Error("enough");
  await assert.rejects(s.run("print(1, flush=True)\nwhile True: pass", { signal: stop.signal, onOutput: () => stop.abort(why) }), why);
  await assert.rejects(s.run("1", { signal: stop.signal }), why);
  const broken = new Error("callback");
  await assert.rejects(s.run("print(1, flush=True)\nwhile True: pass", { onOutput: () => { throw broken; } }), broken);
  const ended = s.run("print(1, flush=True)\nwhile True: pass", { onOutput: () => void s.interrupt() });
  assert.equal((await ended).status, "interrupted");
  assert.deepEqual((await s.history(3)).map((cell) => cell.status), ["interrupted", "interrupted", "interrupted"]);
  assert.equal(await s.interrupt(), false);
  assert.equal((await s.run("6 * 7")).value, "42");
  await s.close();
});

test("the code asks its host", async () => {
  const s = new Sandbox();
  const asked = [];
  const query = async (prompt, { system, maxTokens }) => {
    asked.push([prompt, system, maxTokens]);
    if (prompt === "bad") throw new Error("no answer");
    return prompt.toUpperCase();
  };
  assert.equal((await s.run("llm_query('what?', system='short', max_tokens=5)", { query })).value, "'WHAT?'");
  assert.equal((await s.run("llm_query_batched(['a', 'b'])", { query })).value, "['A', 'B']");
  assert.equal((await s.run("llm_query('bad')", { query })).error.message, "no answer");
  assert.deepEqual(asked[0], ["what?", "short", 5]);
  assert.match((await s.run("llm_query('a')")).error.message, /^llm_query works in/);
  const large = await s.run("llm_query('large')", { query: () => "y".repeat(5 << 20) });
  assert.equal(large.status, "error");
  await s.close();
});

test("many at once, more than the daemon takes from one client", async () => {
  const boxes = Array.from({ length: 50 }, () => new Sandbox());
  const values = await Promise.all(boxes.map(async (s, i) => (await s.run(`${i} * 2`)).value));
  assert.deepEqual(values, boxes.map((_, i) => String(i * 2)));
  const stop = new AbortController();
  const begun = new Set();
  let endless;
  await new Promise((resolve) => {
    const onOutput = (s) => void (begun.add(s).size === 30 && resolve());
    endless = boxes.slice(0, 30).map((s) => s.run("print(1, flush=True)\nimport time\ntime.sleep(600)",
      { signal: stop.signal, timeout: 600, onOutput: () => onOutput(s) }));
  });
  assert.equal((await boxes[40].run("1")).value, "1"); // 30 that do not end are in nobody's way
  stop.abort();
  for (const end of await Promise.allSettled(endless)) assert.equal(end.status, "rejected");
  await Promise.all(boxes.slice(0, 30).map(async (s) => { // each was told, though the daemon takes 32 requests of a client
    await s.run("1");
    assert.deepEqual((await s.history(2)).map((cell) => cell.status), ["ok", "interrupted"]);
  }));
  const lists = await Promise.all(Array.from({ length: 400 }, () => Sandbox.list())); // beyond all connections: they wait
  assert.ok(lists.every((rows) => rows.length === 50));
  await Promise.all(boxes.map((s) => s.close()));
});

test("a program ends when it is done, and its sessions with it", async () => {
  const ends = {
    "": 0, // nothing keeps it alive; sessions end
    "process.exit(3);": 3,
    "throw new Error('on purpose');": 1,
    "await new Sandbox().run('1'); while ((await Sandbox.list()).length > 1) gc(); process.exit(4 + s.isKept);": 4, // one is dropped
  };
  for (const [last, status] of Object.entries(ends)) {
    const done = spawnSync(process.execPath, ["--expose-gc", "--input-type=module", "-e",
      `import { Sandbox } from "snipara-sandbox"; const s = new Sandbox(); await s.run("1"); ${last}`], { encoding: "utf8", timeout: PATIENCE_MS });
    assert.equal(done.status, status, done.stderr);
  }
  assert.deepEqual(await names(), []);
});

test("the daemon is killed in the middle", async () => {
  const s = await Sandbox.create({ name: "survivor" });
  await s.run("x = 1");
  await s.hibernate();
  const { pid } = (await request("stats", {})).answer;
  const cut = s.run("print(1, flush=True)\nimport time\ntime.sleep(600)", { timeout: 600, onOutput: () => process.kill(pid, "SIGKILL") });
  await assert.rejects(cut, (error) => error instanceof SandboxLost && error instanceof SandboxError && error.code === "peer" &&
    error.message === "the daemon disconnected; the next call restores the session, or names the cells that are missing");
  assert.equal((await s.run("x", { recover: "checkpoint" })).value, "1"); // another daemon
  const next = (await request("stats", {})).answer.pid;
  assert.notEqual(next, pid);
  await s.hibernate();
  process.kill(next, "SIGSTOP");
  while (!/\) T /.test(readFileSync(`/proc/${next}/stat`, "utf8"))) await new Promise((resolve) => setTimeout(resolve, 1));
  const unread = s.run("x += 1\nx"); // it goes to the daemon after that, once
  process.kill(next, "SIGKILL");
  assert.equal((await unread).value, "2");
  await s.destroy();
});
