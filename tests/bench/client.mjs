// SPDX-License-Identifier: Apache-2.0
// client.mjs SESSION CLIENTS RUNS GAP_US CODE: cells of a program on Node, with the package in bindings/typescript.
// Prints what `snp-bench library` prints.

import { setTimeout as pause } from "node:timers/promises";
import { Sandbox } from "../../bindings/typescript/src/index.js";

const [session, clients, runs, gapUs, code] = process.argv.slice(2);
const samples = [];

async function cell(s) {
  (await s.run(code)).throwIfFailed();
}

async function client(s) {
  for (let i = 0; i < Number(runs); i++) {
    if (Number(gapUs) > 0) await pause(Number(gapUs) / 1000);
    const start = performance.now();
    await cell(s);
    samples.push(performance.now() - start);
  }
}

const sessions = Array.from({ length: Number(clients) }, (_, i) => new Sandbox({ name: `${session}-${i}` }));
await Promise.all(sessions.map(cell));
const begin = performance.now();
await Promise.all(sessions.map(client));
const total = performance.now() - begin;
for (const ms of samples) console.log(JSON.stringify({ us: ms * 1000 }));
console.log(JSON.stringify({ total_us: total * 1000 }));
