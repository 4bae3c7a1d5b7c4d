#!/usr/bin/env node
// SPDX-License-Identifier: Apache-2.0
// create-snipara [DIR]: a configuration and an entry for AI clients in a project folder; replaces no existing file.

import { spawnSync } from "node:child_process";
import { existsSync, mkdirSync, statSync } from "node:fs";
import { dirname, join, resolve } from "node:path";
import { findProgram } from "./daemon.js";

/** @param {string} message @returns {never} */
function fail(message) {
  console.error(`create-snipara: ${message}`);
  process.exit(1);
}

/** Make a folder with its parents; mkdirSync's recursive never ends below /proc. @param {string} path */
function makeFolder(path) {
  const found = statSync(path, { throwIfNoEntry: false });
  if (found && !found.isDirectory()) fail(`${path} is a file, not a folder`);
  if (found) return;
  makeFolder(dirname(path));
  mkdirSync(path);
}

/** @param {string} folder @param {string} made @param {string[]} args @param {string} instead what to do if the file exists */
function make(folder, made, args, instead) {
  const path = join(folder, made);
  if (existsSync(path)) {
    console.log(`Kept    ${path}; ${instead}`);
    return;
  }
  const done = spawnSync(findProgram(), args, { cwd: folder, encoding: "utf8" });
  if (done.status !== 0) fail(`snipara-sandbox ${args.join(" ")}: ${(done.stderr || done.stdout || String(done.error)).trim()}`);
  console.log(`Created ${path}`);
}

const [folder = ".", ...more] = process.argv.slice(2);
if (folder.startsWith("-") || more.length > 0) {
  console.log("usage: create-snipara [DIR]\n\nMake snipara-sandbox.toml, .env.example and .mcp.json (for Claude Code) in DIR, where they are missing.");
  process.exit(folder === "--help" || folder === "-h" ? 0 : 2);
}
try {
  findProgram();
} catch (error) {
  fail(error instanceof Error ? error.message : String(error));
}
try {
  makeFolder(resolve(folder));
} catch (error) {
  const why = error instanceof Error ? error.message : String(error);
  fail(`cannot make ${folder}: ${why.replace(/^E\w+: |, (?:mkdir|stat) .*$/g, "")}`);
}
make(folder, "snipara-sandbox.toml", ["init"], "`snipara-sandbox init --force` makes a new one");
make(folder, ".mcp.json", ["mcp-install", "claude", "--yes"], "`snipara-sandbox mcp-install claude` adds the server");
console.log(`\nNext: cd ${folder} && snipara-sandbox exec 'print(6 * 7)'; other AI clients: snipara-sandbox mcp-install --help`);
