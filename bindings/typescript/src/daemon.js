// SPDX-License-Identifier: Apache-2.0
// Find and start the daemon of this user.

import { spawn } from "node:child_process";
import { accessSync, constants, lstatSync, statSync } from "node:fs";
import { delimiter, join } from "node:path";
import { Denied, InvalidArgument, LimitReached, NotFound, SandboxError, SandboxLost, errorFrom } from "./errors.js";

const PATH_MOST = 107; // bytes, of a socket
const PROGRAM = "snipara-sandbox";

const uid = () => process.geteuid?.() ?? -1;

/** @param {string} path */
function isOwnFolder(path) {
  const found = statSync(path, { throwIfNoEntry: false });
  return found !== undefined && found.isDirectory() && found.uid === uid();
}

/** The folder of the socket, by the rules of src/base/rundir.c. */
function runtimeFolder() {
  const own = process.env.SNIPARA_SANDBOX_RUNTIME_DIR;
  if (own && !own.startsWith("/")) {
    throw new InvalidArgument(`SNIPARA_SANDBOX_RUNTIME_DIR must be an absolute path, not '${own}'`);
  }
  if (own) return own;
  for (const base of [process.env.XDG_RUNTIME_DIR, `/run/user/${uid()}`]) {
    if (base?.startsWith("/") && isOwnFolder(base)) return join(base, PROGRAM);
  }
  return `/tmp/${PROGRAM}-${uid()}`;
}

/** @returns {string} */
export function socketPath() {
  if (process.platform !== "linux") {
    throw new SandboxError(`snipara-sandbox runs on Linux, not on ${process.platform}`, { code: "unsupported" });
  }
  const path = join(runtimeFolder(), "sandboxd.sock");
  if (Buffer.byteLength(path) > PATH_MOST) {
    throw new LimitReached(`the socket path is longer than ${PATH_MOST} bytes; set SNIPARA_SANDBOX_RUNTIME_DIR to a shorter folder: ${path}`,
      { code: "limit" });
  }
  return path;
}

/**
 * Code is sent only to this user's daemon: check that the folder of the socket belongs to this user alone.
 * False: there is no folder yet. The daemon makes it; check again then, since another user may make it first.
 * @param {string} path
 */
export function checkOwner(path) {
  const folder = path.slice(0, path.lastIndexOf("/"));
  const found = lstatSync(folder, { throwIfNoEntry: false });
  if (!found) return false;
  if (!found.isDirectory()) throw new Denied(`${folder} is not a real folder; remove it`, { code: "denied" });
  if (found.uid !== uid()) throw new Denied(`${folder} belongs to user ${found.uid}, not to you (user ${uid()})`, { code: "denied" });
  if ((found.mode & 0o077) !== 0) throw new Denied(`${folder} gives others access; run: chmod 700 ${folder}`, { code: "denied" });
  return true;
}

/**
 * The daemon does not take its folder from a program, so a program that names another is refused.
 * @param {{state_dir?: string, state_id?: string}} greeting an older daemon sends neither
 */
export function checkState({ state_dir: folder, state_id: id }) {
  const own = process.env.SNIPARA_SANDBOX_STATE_DIR;
  if (!own || !id) return;
  try {
    const { dev, ino } = statSync(own, { bigint: true });
    if (`${dev}:${ino}` === id) return;
  } catch {
    // it cannot be the daemon's
  }
  throw new InvalidArgument(`the running daemon has the state folder ${folder}, but SNIPARA_SANDBOX_STATE_DIR is ${own}; unset it, ` +
    "stop that daemon (snipara-sandbox daemon stop), or set SNIPARA_SANDBOX_RUNTIME_DIR, too, for another daemon", { code: "invalid" });
}

/**
 * The program: SNIPARA_SANDBOX_BIN (the program or its folder), else in PATH.
 * @returns {string}
 */
export function findProgram() {
  const given = process.env.SNIPARA_SANDBOX_BIN;
  const places = given ? [join(given, PROGRAM), given] : (process.env.PATH ?? "").split(delimiter).map((folder) => join(folder, PROGRAM));
  for (const place of places) {
    try {
      accessSync(place, constants.X_OK);
      if (statSync(place).isFile()) return place;
    } catch {
      // try the next place
    }
  }
  const where = given ? `at SNIPARA_SANDBOX_BIN=${given}` : "in PATH";
  throw new NotFound(`the program ${PROGRAM} is not installed ${where}; install it, or set SNIPARA_SANDBOX_BIN to it or its folder`,
    { code: "not_found", object: PROGRAM });
}

/** Start the daemon unless one runs: any command that needs it does so, and waits until it answers. */
export async function startDaemon() {
  const program = findProgram();
  const child = spawn(program, ["sessions", "list", "--json"], { stdio: ["ignore", "pipe", "pipe"], cwd: "/" });
  let out = "";
  let problem = "";
  child.stdout.setEncoding("utf8").on("data", (text) => { out += text; });
  child.stderr.setEncoding("utf8").on("data", (text) => { problem += text; });
  const status = await new Promise((resolve, reject) => {
    child.once("error", (error) => reject(new SandboxError(`start ${program}: ${error.message}`, { code: "system" })));
    child.once("close", resolve);
  });
  if (status === 0) return;
  let failure;
  try {
    failure = JSON.parse(out).error;
  } catch {
    // no readable output
  }
  if (failure) throw errorFrom(failure);
  const words = problem.trim().split("\n").pop();
  throw new SandboxLost(`${program} cannot start the daemon: ${words || `exit status ${status}`}`, { remedy: { kind: "doctor" } });
}
