/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The page of runs and sessions. Its data is hostile: prompts, texts of models, output of programs. So data never
 * becomes markup: elements are created one by one, text is only set as textContent, and images are only data of types
 * that contain pixels; the page's policy (trusted types) refuses everything else. A record may lack any member or have
 * one of another type, and collections keyed by outside names are maps.
 */
"use strict";

/* Values of any type, read as what they should be ---------------------------------------------- */

const str = (value, other = "") => typeof value === "string" ? value : other;
const num = (value) => typeof value === "number" && isFinite(value) ? value : 0;
const list = (value) => Array.isArray(value) ? value : [];
const obj = (value) => value !== null && typeof value === "object" && !Array.isArray(value) ? value : {};
const isNum = (value) => typeof value === "number" && isFinite(value);
const parsed = (text) => { try { return obj(JSON.parse(text)); } catch { return {}; } };
const pretty = (value) => { const text = JSON.stringify(value, null, 2); return text === undefined ? "" : text; };

const number = new Intl.NumberFormat("en");
const count = (n, one, many = one + "s") => `${number.format(n)} ${n === 1 ? one : many}`;
const money = (usd) => "$" + (usd === 0 || usd >= 0.01 ? usd.toFixed(usd < 1 ? 4 : 2) : usd.toPrecision(2));
function time(ms) {
  if (ms < 1000) return Math.round(ms) + " ms";
  if (ms < 60000) return (ms / 1000).toFixed(ms < 10000 ? 2 : 1) + " s";
  const s = Math.round(ms / 1000);
  return s < 3600 ? `${Math.floor(s / 60)} min ${s % 60} s` : `${Math.floor(s / 3600)} h ${Math.floor(s % 3600 / 60)} min`;
}
const stamp = (text) => {
  const at = new Date(str(text));
  return Number.isNaN(at.getTime()) ? str(text) : at.toLocaleString("sv-SE", {timeZoneName: "short"});
};
const stampAt = (seconds) => stamp(new Date(1000 * num(seconds)).toJSON());
const oneLine = (text, max) => {
  const line = text.slice(0, max * 4).replace(/\s+/g, " ").trim();
  return line.length > max ? line.slice(0, max) + "…" : line;
};

/* Elements --------------------------------------------------------------------------------------- */

/* el("p", {class: "x", onclick: f}, "text", element, null): attributes, handlers, children. */
function el(name, attributes, ...children) {
  const node = document.createElement(name);
  for (const [key, value] of Object.entries(attributes || {})) {
    if (value === null || value === undefined || value === false) continue;
    if (key.startsWith("on")) node.addEventListener(key.slice(2), value);
    else node.setAttribute(key, value === true ? "" : String(value));
  }
  node.append(...children.flat().filter((child) => child !== null && child !== undefined && child !== false));
  return node;
}

function svg(name, attributes) {
  const node = document.createElementNS("http://www.w3.org/2000/svg", name);
  for (const [key, value] of Object.entries(attributes)) node.setAttribute(key, String(value));
  return node;
}

/* Invisible characters, and those that change the direction of text, are shown as escapes. */
const HIDDEN = /[\u0000-\u0008\u000b\u000c\u000e-\u001f\u007f-\u009f\u00ad\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\ufeff]/g;
const seen = (text) => text.replace(HIDDEN, (c) => "\\u" + c.charCodeAt(0).toString(16).padStart(4, "0"));

const MARKS_MAX = 300;
const CUT = 500;

/* Text as nodes, with matches of the search marked. */
function marked(text) {
  const clean = seen(text);
  if (view.query === "") return [clean];
  const low = clean.toLowerCase();
  if (low.length !== clean.length) return [clean]; /* lower case changes the length */
  const parts = [];
  let at = 0;
  for (let i = 0; i < MARKS_MAX; i++) {
    const next = low.indexOf(view.query, at);
    if (next < 0) break;
    parts.push(clean.slice(at, next), el("mark", null, clean.slice(next, next + view.query.length)));
    at = next + view.query.length;
  }
  parts.push(clean.slice(at));
  return parts;
}

/* A block of text, cut, with a button that shows all of it. */
function block(text, options = {}) {
  const cut = options.cut || CUT;
  const pre = el("pre", {class: options.class, tabindex: "0", "aria-label": options.label, dir: "auto"});
  const box = el("div", null, pre);
  let isCut = text.length > cut + 100 && !(view.query !== "" && text.toLowerCase().indexOf(view.query) >= cut);
  const fill = () => pre.replaceChildren(...marked(isCut ? text.slice(0, cut) + "…" : text));
  fill();
  if (text.length > cut + 100) {
    const says = () => isCut ? `Show full (${count(text.length, "character")})` : "Show less";
    const more = el("button", {class: "more", type: "button", "aria-expanded": String(!isCut), onclick: () => {
      isCut = !isCut;
      fill();
      more.textContent = says();
      more.setAttribute("aria-expanded", String(!isCut));
    }}, says());
    box.append(more);
  }
  return box;
}

const section = (title, text, options) => text === "" ? null
  : el("section", null, el("h3", null, title), block(text, {label: title, ...options}));
const badge = (kind, text) => el("span", {class: "badge " + kind}, text);

/* Data ------------------------------------------------------------------------------------------- */

const dataOf = (id) => {
  const node = document.getElementById(id);
  if (node === null) return null;
  try { return JSON.parse(node.textContent); } catch { return null; }
};

const IMAGES = new Map([["image/png", "iVBORw0KGgo"], ["image/jpeg", "/9j/"], ["image/gif", "R0lGOD"], ["image/webp", "UklGR"]]);
const imageIn = (display) => [...IMAGES.keys()].find((type) => typeof display[type] === "string");

/* The result of a session's cell, in the form of a result of a run's tool. */
function partsOf(result) {
  const error = obj(result.error);
  const texts = list(result.displays).map(obj).filter((display) => imageIn(display) === undefined)
    .map((display) => str(display["text/plain"]) || pretty(display));
  const rest = {exit_code: num(result.exit_code) || undefined, signal: str(result.signal) || undefined, limit: obj(result.limit).text,
    displays: texts.length > 0 ? texts : undefined, denials: list(result.denials).length > 0 ? result.denials : undefined};
  return {output: str(result.stdout), stderr: str(result.stderr), value: str(result.value), result: str(result.result),
    error: str(error.traceback) || [str(error.type), str(error.message)].filter((part) => part !== "").join(": "),
    ...Object.fromEntries(Object.entries(rest).filter((entry) => entry[1] !== undefined))};
}

/* A cell of a session, as `show --json` prints it: a tool call without the model's call. */
function cellOf(record) {
  const result = obj(record.result !== undefined && record.result !== null ? record.result : record.seen);
  const status = str(record.status);
  const argv = list(record.argv).map((word) => str(word)).join(" ");
  const displays = list(result.displays).map(obj);
  return {name: str(record.kind, "?"), call: null, subs: [], cell: num(record.cell), args: record.argv, code: str(record.code) || argv,
    parts: partsOf(result), content: null, begun: record, result: {status, state: record.state, files: result.files},
    isDone: typeof result.status === "string", isError: !["ok", "running", "unknown"].includes(status), isSkipped: false,
    ms: num(record.wall_us) / 1000, started: num(record.started), again: num(record.rerun_of) > 0 ? `rerun of cell ${num(record.rerun_of)}` : num(record.replay_of) > 0 ? `replay of cell ${num(record.replay_of)}` : "",
    images: displays.filter((display) => imageIn(display) !== undefined).map((display) => ({type: imageIn(display), data: display[imageIn(display)]})),
    imagesOmitted: 0};
}

/* A session: cells without a model. */
function sessionOf(records) {
  const [head, ...rest] = records.map(obj);
  const cells = rest.map(cellOf);
  return {records, calls: [], notes: [], head, end: null, isSession: true, tools: cells, cells,
    errors: cells.filter((tool) => tool.isError).length, ms: cells.reduce((sum, tool) => sum + tool.ms, 0)};
}

/* The model of the page from the records of a run: calls with their tools, in order, and sums. */
function modelOf(records) {
  const model = {records, calls: [], notes: [], head: {}, end: null, isOurs: false};
  const byId = new Map();
  const callOf = (id) => {
    let call = byId.get(id);
    if (call === undefined) {
      call = {id, index: model.calls.length, ask: {}, answer: null, event: null, tools: [], toolOf: new Map(),
        under: null, subs: [], records: []};
      byId.set(id, call);
      model.calls.push(call);
    }
    return call;
  };
  const toolOf = (call, id) => {
    let tool = call.toolOf.get(id);
    if (tool === undefined) {
      tool = {id, call, name: "", args: undefined, begun: null, result: null, content: null, isError: false, subs: []};
      call.toolOf.set(id, tool);
      call.tools.push(tool);
    }
    return tool;
  };
  const levels = []; /* tools whose sub-completions are open */
  records.forEach((record, number) => {
    record = obj(record);
    if (record._type === "trajectory_metadata") {
      if (record.end !== undefined) model.end = record;
      else if (Object.keys(model.head).length === 0) model.head = record;
      return;
    }
    if (record._type === undefined && typeof record.call_id === "string") {
      const call = callOf(record.call_id);
      call.event = record;
      call.records.push(number);
    } else if (record._type === "step") {
      model.isOurs = true;
      const step = str(record.step);
      const call = typeof record.call_id === "string" ? callOf(record.call_id) : null;
      if (call !== null) call.records.push(number);
      if (call !== null && step === "ask") {
        call.ask = record;
        call.under = levels.length > 0 ? levels[levels.length - 1] : call.under;
      } else if (call !== null && step === "sub_ask") {
        call.ask = record;
        if (typeof record.parent_call_id === "string") call.under = toolOf(callOf(record.parent_call_id), str(record.tool_call_id));
      } else if (call !== null && (step === "sub" || step === "batch")) {
        const tool = toolOf(call, str(record.tool_call_id));
        tool.begun = tool.begun || record;
        if (step === "sub") levels.push(tool);
      } else if (call !== null && step === "answer") {
        call.answer = obj(record.answer);
        call.answeredAt = num(record.elapsed_ms);
      } else if (call !== null && step === "tool") {
        const tool = toolOf(call, str(record.tool_call_id));
        tool.begun = record;
      } else if (call !== null && step === "tool_result") {
        toolOf(call, str(record.tool_call_id)).result = record;
        if (record.ends_sub !== undefined && record.ends_sub !== false && record.ends_sub !== null) levels.pop();
      } else {
        if (step === "resume") model.end = null;
        model.notes.push({record, step, before: model.calls.length, at: num(record.elapsed_ms)});
      }
    }
  });
  finish(model, byId);
  return model;
}

function finishTools(call) {
  const ordered = [];
  for (const given of call.wanted) {
    let tool = call.toolOf.get(str(obj(given).id));
    if (tool === undefined || ordered.includes(tool)) tool = {id: str(obj(given).id), call, begun: null, result: null, subs: []};
    tool.name = str(obj(given).name, "?");
    tool.args = obj(given).arguments;
    ordered.push(tool);
  }
  call.tools = ordered.concat(call.tools.filter((tool) => !ordered.includes(tool)));
  const results = list(obj(call.event).tool_results);
  call.tools.forEach((tool, i) => {
    const found = obj(results.find((result) => tool.id !== "" && obj(result).tool_call_id === tool.id) || results[i]);
    const record = obj(tool.result);
    tool.name = tool.name || str(record.name) || str(obj(tool.begun).name, "?");
    tool.content = typeof record.content === "string" ? record.content
      : typeof found.content === "string" ? found.content : found.content === undefined ? null : pretty(found.content);
    tool.isError = tool.result !== null ? record.is_error === true : found.is_error === true;
    tool.isDone = tool.result !== null || tool.content !== null;
    tool.isSkipped = record.skipped === true;
    tool.cell = num(record.cell);
    tool.start = tool.begun !== null ? num(tool.begun.elapsed_ms) : num(record.elapsed_ms);
    tool.stop = tool.result !== null ? num(record.elapsed_ms) : tool.start;
    tool.ms = tool.begun !== null && tool.result !== null ? Math.max(0, tool.stop - tool.start) : num(record.duration_ms);
    tool.images = list(record.images).map(obj);
    tool.imagesOmitted = num(record.images_omitted);
    tool.code = str(obj(tool.args).code);
    tool.parts = tool.content === null ? {} : parsed(tool.content);
  });
}

function finish(model, byId) {
  let clock = 0;
  for (const call of model.calls) {
    const event = obj(call.event), answer = obj(call.answer), usage = obj(answer.usage);
    call.has = call.event !== null || call.answer !== null;
    call.prompt = str(event.prompt);
    call.response = typeof event.response === "string" ? event.response : str(obj(answer.message).content);
    call.wanted = list(event.tool_calls !== undefined ? event.tool_calls : answer.tool_calls);
    call.input = num(isNum(event.input_tokens) ? event.input_tokens : usage.input);
    call.output = num(isNum(event.output_tokens) ? event.output_tokens : usage.output);
    call.isEstimated = event.tokens_estimated === true || usage.estimated === true;
    call.cost = isNum(event.estimated_cost_usd) ? event.estimated_cost_usd : isNum(answer.cost_usd) ? answer.cost_usd : null;
    call.ms = num(isNum(event.duration_ms) ? event.duration_ms : answer.duration_ms);
    call.error = str(event.error) || (answer.ok === false ? str(answer.error, "the call failed") : "");
    call.modelName = str(event.model) || str(answer.model);
    call.provider = str(event.provider) || str(answer.provider);
    call.depth = num(event.depth !== undefined ? event.depth : call.ask.turn);
    call.iteration = num(call.ask.iteration);
    call.parentId = str(event.parent_call_id) || str(call.ask.parent_call_id);
    call.timestamp = str(event.timestamp) || str(call.ask.timestamp);
    finishTools(call);
    call.toolMs = call.tools.reduce((sum, tool) => sum + tool.ms, 0);
    call.start = isNum(call.ask.elapsed_ms) ? call.ask.elapsed_ms : clock;
    if (call.answer === null) call.answeredAt = call.start + call.ms;
    call.stop = call.tools.reduce((last, tool) => Math.max(last, tool.stop), Math.max(call.answeredAt || 0, call.start + call.ms));
    clock = Math.max(clock, call.stop);
    call.toolErrors = call.tools.filter((tool) => tool.isError && !tool.isSkipped).length;
    call.isBad = call.error !== "" || call.toolErrors > 0;
  }
  for (const call of model.calls) {
    const event = obj(call.event), parent = byId.get(call.parentId);
    let under = call.under;
    if (under === null && typeof event.sub_call_type === "string" && parent !== undefined) {
      under = parent.toolOf.get(str(event.tool_call_id)) || parent.under || parent;
    }
    call.isSub = under !== null && under !== call && under.call !== call;
    if (call.isSub) under.subs.push(call);
  }
  sums(model, clock);
}

function sums(model, clock) {
  const all = model.calls;
  const total = (member) => all.reduce((sum, call) => sum + call[member], 0);
  const known = all.filter((call) => call.cost !== null);
  model.elapsed = Math.max(clock, num(obj(model.records[model.records.length - 1]).elapsed_ms), 1);
  model.input = total("input");
  model.output = total("output");
  model.tools = all.flatMap((call) => call.tools);
  model.cells = model.tools.filter((tool) => tool.cell > 0 || tool.code !== "");
  model.errors = all.filter((call) => call.error !== "").length;
  model.toolErrors = total("toolErrors");
  model.cost = known.reduce((sum, call) => sum + call.cost, 0);
  model.unknownCosts = all.filter((call) => call.has && call.cost === null).length;
  model.isEstimated = all.some((call) => call.isEstimated);
  model.ms = model.end !== null && num(model.end.total_duration_ms) > 0 ? num(model.end.total_duration_ms)
    : model.isOurs ? model.elapsed : num(model.head.total_duration_ms) || total("ms");
}

/* Search ----------------------------------------------------------------------------------------- */

const haystack = (thing, parts) => thing.hay === undefined ? (thing.hay = parts().join("\n").toLowerCase()) : thing.hay;
const toolText = (tool) => [tool.name, tool.code || pretty(tool.args), tool.parts.output, tool.parts.stderr,
  Object.keys(tool.parts).length === 0 ? tool.content : pretty(tool.parts)].map((part) => str(part));
const toolHas = (tool) => view.query === "" || haystack(tool, () => toolText(tool)).includes(view.query);
const callHas = (call) => view.query === "" ||
  haystack(call, () => [call.id, call.prompt, call.response, call.error, call.modelName]).includes(view.query) ||
  call.tools.some(toolHas);

/* View: the current selection -------------------------------------------------------------------- */

const TABS = [
  ["overview", "Overview", (m) => overview(m)],
  ["tree", "Execution tree", (m) => treeTab(m)],
  ["details", "Calls", (m) => details(m)],
  ["cells", "Cells", (m) => cells(m)],
  ["raw", "Raw JSON", (m) => raw(m)],
];
const SESSION_TABS = TABS.filter(([id]) => id === "cells" || id === "raw");
const tabs = () => view.model !== null && view.model.isSession ? SESSION_TABS : TABS;
const view = {tab: "overview", query: "", pages: {}, model: null, run: -1, picked: null, closed: new Set()};
const index = obj(dataOf("index"));
const runs = list(index.runs).map(obj);
const at = (id) => document.getElementById(id);

/* A list in pages; row(item) makes an element. */
function paged(name, items, size, row, what) {
  const pages = Math.max(1, Math.ceil(items.length / size));
  const page = Math.min(view.pages[name] || 0, pages - 1);
  const first = page * size;
  const part = items.slice(first, first + size);
  const go = (to) => () => { view.pages[name] = to; draw(); at("panel").focus({preventScroll: true}); at("tabs").scrollIntoView(); };
  if (items.length === 0) return [el("p", {class: "empty"}, view.query === "" ? `No ${what}s in this ${view.model.isSession ? "session" : "run"}.` : `No ${what} matches.`)];
  const bar = () => pages === 1 ? null : el("div", {class: "bar"},
    el("button", {class: "act", type: "button", disabled: page === 0, onclick: go(0), "aria-label": "First page"}, "«"),
    el("button", {class: "act", type: "button", disabled: page === 0, onclick: go(page - 1)}, "Previous"),
    el("span", null, `${number.format(first + 1)} to ${number.format(first + part.length)} of ${count(items.length, what)}`),
    el("button", {class: "act", type: "button", disabled: page === pages - 1, onclick: go(page + 1)}, "Next"),
    el("button", {class: "act", type: "button", disabled: page === pages - 1, onclick: go(pages - 1), "aria-label": "Last page"}, "»"));
  return [bar(), ...part.map(row), bar()];
}

/* A details element, filled when it is opened. */
function item(heads, body, isOpen, kind = "") {
  const box = el("div", {class: "body"});
  const node = el("details", {class: "item " + kind}, el("summary", null, ...heads), box);
  const fill = () => { if (node.open && box.childNodes.length === 0) box.append(...[body()].flat().filter((part) => part !== null)); };
  node.addEventListener("toggle", fill);
  if (isOpen) { node.open = true; fill(); }
  return node;
}

/* Calls and tools -------------------------------------------------------------------------------- */

const callName = (call) => (call.isSub ? "Sub-call " : "Call ") + number.format(call.index + 1);
const tokensText = (call) => `${call.isEstimated ? "about " : ""}${number.format(call.input)} in / ${number.format(call.output)} out`;

function verdict(call) {
  if (call.error !== "") return badge("bad", "error");
  if (!call.has) return badge("warn", "no answer on record");
  return call.toolErrors > 0 ? badge("warn", count(call.toolErrors, "tool error")) : null;
}

function pictures(tool) {
  const shown = tool.images.map((image, i) => {
    const begin = IMAGES.get(image.type);
    const data = str(image.data);
    if (begin === undefined || !data.startsWith(begin) || /[^A-Za-z0-9+/=]/.test(data)) {
      return el("p", {class: "notice"}, "This cell displayed something that is not an image; it is not shown.");
    }
    return el("figure", null,
      el("img", {src: `data:${image.type};base64,${data}`, alt: `Image ${i + 1} that the code showed`, loading: "lazy", decoding: "async"}),
      el("figcaption", null, `${image.type.slice(6)}, ${count(Math.round(data.length * 3 / 4), "byte")}`));
  });
  if (tool.imagesOmitted > 0) shown.push(el("p", {class: "facts"}, `${count(tool.imagesOmitted, "more image")} not kept in the record`));
  return shown.length === 0 ? null : el("div", {class: "shots"}, shown);
}

const OUTPUTS = ["output", "stderr", "value", "result", "error"];

/* The result of a tool: a cell's parts, or its text. */
function resultOf(tool) {
  const parts = tool.parts;
  if (!tool.isDone) {
    return [el("p", {class: "facts"}, tool.begun !== null ? "It began; no result is on record." : "It did not run."),
      section("Output", str(parts.output)), section("Standard error", str(parts.stderr))];
  }
  const isCell = OUTPUTS.some((name) => typeof parts[name] === "string") || "execution_time_ms" in parts;
  if (!isCell) return [section("Result", tool.content === null ? "" : Object.keys(parts).length > 0 ? pretty(parts) : tool.content, {class: tool.isError ? "bad" : null})];
  const shown = [["Output", "output"], ["Standard error", "stderr"], ["Value", "value"], ["Result", "result"]]
    .map(([title, name]) => section(title, str(parts[name]), {cut: 4 * CUT}));
  const rest = Object.entries(parts).filter(([name]) => !OUTPUTS.includes(name) && !["success", "untrusted", "execution_time_ms"].includes(name));
  shown.push(section("Error", str(parts.error), {class: "bad", cut: 4 * CUT}));
  shown.push(pictures(tool));
  if (rest.length > 0) shown.push(section("More", pretty(Object.fromEntries(rest))));
  if (shown.every((part) => part === null)) shown.push(el("p", {class: "facts"}, "No output."));
  return shown;
}

function filesOf(tool) {
  const files = obj(obj(tool.result).files);
  const lines = ["created", "modified", "deleted"].flatMap((kind) => list(files[kind]).map((name) => `${kind}  ${str(name)}`));
  return lines.length === 0 ? null : section("Files", lines.join("\n"));
}

function toolHead(tool) {
  const record = obj(tool.result);
  const state = str(record.state);
  const status = seen(str(record.status));
  return el("div", {class: "toolhead"}, el("b", null, ...marked(tool.name)),
    tool.isSkipped ? badge("quiet", "skipped") : tool.isError ? badge("bad", status === "ok" ? "error" : status || "error")
      : tool.isDone ? badge("ok", "success") : badge("warn", status || "no result"),
    tool.cell > 0 ? el("span", {class: "quiet"}, `cell ${number.format(tool.cell)}`) : null,
    tool.isDone ? el("span", {class: "quiet"}, time(tool.ms)) : null,
    tool.started > 0 ? el("span", {class: "quiet"}, stampAt(tool.started)) : null,
    str(tool.again) !== "" ? el("span", {class: "quiet"}, tool.again) : null,
    state !== "" && state !== "kept" ? badge("warn", seen(state.replaceAll("_", " "))) : null);
}

function toolView(tool) {
  const args = tool.args === undefined || tool.args === null ? "" : pretty(tool.args);
  return el("section", {class: "tool" + (tool.isError ? " failed" : "")}, toolHead(tool),
    tool.code !== "" ? section("Code", tool.code, {cut: 4 * CUT}) : section("Arguments", typeof tool.args === "string" ? tool.args : args),
    resultOf(tool), filesOf(tool), subLinks(tool));
}

const subLinks = (thing) => thing.subs.length === 0 ? null : el("p", {class: "facts"}, "Sub-calls: ",
  thing.subs.map((sub) => el("button", {class: "more", type: "button", onclick: () => open(sub)}, callName(sub) + " ")));

function callBody(call) {
  const cost = call.cost === null ? "cost unknown" : money(call.cost);
  const parts = [el("div", {class: "facts"},
    el("span", null, tokensText(call) + " tokens"), el("span", null, time(call.ms)), el("span", null, cost),
    el("span", null, call.isSub ? `depth ${call.depth}` : `turn ${call.depth + 1}`), call.iteration > 0 ? el("span", null, `iteration ${call.iteration}`) : null,
    call.modelName !== "" ? el("span", null, ...marked(call.modelName)) : null,
    call.answer !== null && num(call.answer.tries) > 1 ? el("span", null, count(num(call.answer.tries), "try", "tries")) : null,
    el("span", null, stamp(call.timestamp)), el("span", null, ...marked(call.id)))];
  parts.push(section("Error", call.error, {class: "bad"}), section("Prompt", call.prompt), section("Response", call.response));
  if (!call.has) parts.push(el("p", {class: "notice"}, `The model was asked, and no answer is on record. It counts as about ${count(num(call.ask.estimate), "token")}.`));
  parts.push(...call.tools.map(toolView), subLinks(call));
  parts.push(item([el("span", {class: "quiet"}, `Records (${call.records.length})`)],
    () => call.records.map((n) => block(pretty(view.model.records[n]), {cut: 4000, label: `Record ${n + 1}`})), false, "light"));
  return parts;
}

function callItem(call, isOpen) {
  return item([el("strong", null, callName(call)), el("span", {class: "name"}, ...marked(oneLine(call.response || call.tools.map((tool) => tool.name).join(", ") || call.prompt, 120))),
    verdict(call), el("span", {class: "num"}, tokensText(call)), el("span", {class: "num"}, time(call.ms)),
    call.tools.length > 0 ? el("span", {class: "num"}, count(call.tools.length, "tool call")) : null], () => callBody(call), isOpen);
}

/* Show a call's details. */
function open(call) {
  view.picked = call;
  view.query = at("search").value = "";
  view.pages.details = Math.floor(call.index / PAGE);
  show("details");
  const node = at("panel").querySelector("details.item[open]");
  if (node !== null) { node.scrollIntoView(); node.querySelector("summary").focus({preventScroll: true}); }
}

const PAGE = 100;
const details = (m) => paged("details", m.calls.filter(callHas), PAGE,
  (call) => callItem(call, call === view.picked || m.calls.length === 1), "call");

/* Cells ------------------------------------------------------------------------------------------ */

const cells = (m) => paged("cells", m.cells.filter(toolHas), 25, (tool) => el("article", {class: "card"},
  el("div", {class: "cell"},
    el("div", {class: "tag"}, tool.cell > 0 ? `In [${tool.cell}]` : "In [ ]"),
    el("div", null, tool.code !== "" ? block(tool.code, {cut: 4 * CUT, label: "Code"}) : block(`${tool.name} ${pretty(tool.args)}`, {label: "Tool call"})),
    el("div", {class: "tag out"}, "Out"), el("div", null, toolHead(tool), resultOf(tool), filesOf(tool),
      tool.call === null ? null : el("button", {class: "more", type: "button", onclick: () => open(tool.call)}, callName(tool.call))))), "cell");

/* Raw -------------------------------------------------------------------------------------------- */

function raw(m) {
  const rows = m.records.map((record, i) => ({record: obj(record), i}));
  const has = (row) => view.query === "" || haystack(row, () => [JSON.stringify(row.record)]).includes(view.query);
  const kind = (record) => record._type === "step" ? "step: " + str(record.step) : record._type === undefined ? (m.isSession ? "cell" : "event")
    : record.end !== undefined ? "end" : str(record._type);
  return paged("raw", rows.filter(has), PAGE, (row) => item([el("strong", null, number.format(row.i + 1)),
    el("span", null, ...marked(kind(row.record))), el("span", {class: "name quiet"}, ...marked(oneLine(JSON.stringify(row.record).slice(0, 400), 100)))],
  () => block(pretty(row.record), {cut: 20000, label: `Record ${row.i + 1}`}), false), "record");
}

/* Overview --------------------------------------------------------------------------------------- */

const BARS_MAX = 120;
const BARS_MIN = 12;

/* Calls in as many groups as there is room for. */
function groupsOf(calls) {
  const size = Math.max(1, Math.ceil(calls.length / BARS_MAX));
  const groups = [];
  for (let i = 0; i < calls.length; i += size) groups.push(calls.slice(i, i + size));
  return groups;
}

const groupName = (group) => group.length === 1 ? callName(group[0])
  : `Calls ${number.format(group[0].index + 1)} to ${number.format(group[group.length - 1].index + 1)}`;

/*
 * Stacked bars of two values per call. Arrow keys move between bars, Enter and clicks open the call; details of the
 * current bar are shown below, and all values in a table.
 */
function bars(title, m, names, values, text) {
  const groups = groupsOf(m.calls);
  const data = groups.map((group) => values.map((value) => group.reduce((sum, call) => sum + value(call), 0)));
  const most = Math.max(1, ...data.map((pair) => pair[0] + pair[1]));
  const n = Math.max(groups.length, BARS_MIN);
  const drawn = svg("svg", {viewBox: `0 0 ${n} 100`, preserveAspectRatio: "none", "aria-hidden": "true"});
  const says = el("p", {class: "says", role: "status"});
  const sentence = (i) => `${groupName(groups[i])}: ${text(data[i][0])} ${names[0]}, ${text(data[i][1])} ${names[1]}`;
  const slots = groups.map((group, i) => {
    const slot = svg("rect", {x: i, y: 0, width: 1, height: 100, class: "slot"});
    const first = 100 * data[i][0] / most, second = 100 * data[i][1] / most;
    drawn.append(slot, svg("rect", {x: i + 0.12, y: 100 - first, width: 0.76, height: first, class: "k-in"}),
      svg("rect", {x: i + 0.12, y: 100 - first - second, width: 0.76, height: second, class: "k-out"}));
    return slot;
  });
  let chosen = -1;
  const choose = (i) => {
    if (i < 0 || i >= groups.length || i === chosen) return;
    if (chosen >= 0) slots[chosen].classList.remove("at");
    chosen = i;
    slots[i].classList.add("at");
    says.textContent = sentence(i);
  };
  const under = (event) => Math.floor((event.clientX - plot.getBoundingClientRect().left) / plot.clientWidth * n);
  const enter = () => { if (chosen >= 0) open(groups[chosen][0]); };
  const steps = {ArrowRight: 1, ArrowLeft: -1, Home: -Infinity, End: Infinity};
  const plot = el("div", {class: "plot", tabindex: "0", role: "group",
    "aria-label": `${title}: bars for ${count(groups.length, "group")} of calls, at most ${text(most)}. Arrow keys choose one, Enter opens it.`,
    onpointermove: (event) => choose(under(event)), onclick: (event) => { choose(under(event)); enter(); },
    onkeydown: (event) => {
      if (event.key in steps) choose(Math.min(groups.length - 1, Math.max(0, chosen + steps[event.key])));
      else if (event.key === "Enter") enter();
      else return;
      event.preventDefault();
    }}, drawn);
  const table = item([el("span", {class: "quiet"}, "As a table")], () => el("div", {class: "scroll", tabindex: "0"}, el("table", null,
    el("thead", null, el("tr", null, el("th", {scope: "col"}, "Calls"), names.map((name) => el("th", {scope: "col", class: "n"}, name)))),
    el("tbody", null, groups.map((group, i) => el("tr", null, el("td", null, groupName(group)), data[i].map((value) => el("td", {class: "n"}, text(value)))))))), false, "light");
  return el("section", {class: "card"}, el("h2", null, title),
    el("p", {class: "legend"}, names.map((name, i) => el("span", null, el("i", {class: i === 0 ? "k-in" : "k-out"}), name))),
    el("p", {class: "scale"}, text(most)), plot,
    el("p", {class: "scale"}, m.calls.length > 1 ? `Calls 1 to ${number.format(m.calls.length)}${groups[0].length > 1 ? `, ${groups[0].length} in a bar` : ""}` : "Call 1"),
    says, table);
}

const wide = (node, share) => { node.style.width = Math.min(100, 100 * share).toFixed(2) + "%"; return node; };

function distribution(m) {
  const byName = new Map();
  for (const tool of m.tools) {
    const row = byName.get(tool.name) || {n: 0, bad: 0, ms: 0};
    row.n++; row.bad += tool.isError ? 1 : 0; row.ms += tool.ms;
    byName.set(tool.name, row);
  }
  const rows = [...byName].sort((a, b) => b[1].n - a[1].n);
  return el("section", {class: "card"}, el("h2", null, "Tool calls"),
    rows.length === 0 ? el("p", {class: "empty"}, "The model called no tools.") : el("div", {class: "scroll", tabindex: "0"}, el("table", null,
      el("thead", null, el("tr", null, ["Tool", "Calls", "Share", "Errors", "Time"].map((name) => el("th", {scope: "col", class: ["Calls", "Errors", "Time"].includes(name) ? "n" : null}, name)))),
      el("tbody", null, rows.slice(0, 200).map(([name, row]) => el("tr", null, el("th", {scope: "row"}, seen(oneLine(name, 60))),
        el("td", {class: "n"}, number.format(row.n)),
        el("td", null, el("div", {class: "meter", title: Math.round(100 * row.n / m.tools.length) + "%"}, wide(el("i"), row.n / m.tools.length))),
        el("td", {class: "n"}, number.format(row.bad)), el("td", {class: "n"}, time(row.ms))))))));
}

function budget(m) {
  const given = obj(m.head.budget);
  const rows = [
    ["Tokens", m.input + m.output, num(given.token_budget), number.format],
    ["Model calls", m.calls.length, num(given.max_subcalls), number.format],
    ["Cost", m.cost, num(given.cost_limit), money],
    ["Time", m.ms, num(given.timeout_ms), time],
  ].filter((row) => row[2] > 0);
  return rows.length === 0 ? null : el("section", {class: "card"}, el("h2", null, "Budget"), el("table", null,
    el("thead", null, el("tr", null, ["What", "Used", "Limit", "Share"].map((name, i) => el("th", {scope: "col", class: i === 1 || i === 2 ? "n" : null}, name)))),
    el("tbody", null, rows.map(([name, used, most, text]) => el("tr", null, el("th", {scope: "row"}, name), el("td", {class: "n"}, text(used)),
      el("td", {class: "n"}, text(most)), el("td", null, el("div", {class: used >= most ? "meter full" : "meter", title: Math.round(100 * used / most) + "%"}, wide(el("i"), used / most))))))));
}

function changed(m) {
  const files = obj(obj(obj(m.end).end).files);
  const lines = ["created", "modified", "deleted"].flatMap((kind) => list(files[kind]).map((name) => `${kind}  ${str(name)}`));
  return lines.length === 0 ? null : el("section", {class: "card"}, el("h2", null, "Files changed"), block(lines.join("\n"), {cut: 4 * CUT, label: "Files changed"}));
}

function overview(m) {
  if (m.calls.length === 0) return [el("p", {class: "empty"}, "No model call is on record yet.")];
  return [el("div", {class: "charts"},
    bars("Tokens per call", m, ["input", "output"], [(call) => call.input, (call) => call.output], number.format),
    bars("Duration per call", m, ["model", "tools"], [(call) => call.ms, (call) => call.toolMs], time),
    distribution(m), budget(m), changed(m))];
}

/* Execution tree --------------------------------------------------------------------------------- */

const ROW = 34;

/* Nodes: {key, level, kind, label, bad, tokens, ms, start, stop, thing, below}. */
function nodesOf(m) {
  const callNode = (call) => ({key: "c" + call.index, kind: "call", thing: call, label: callName(call), text: oneLine(call.response || call.prompt, 80),
    bad: call.error !== "" || !call.has, soft: call.toolErrors > 0, tokens: call.input + call.output, ms: call.ms, start: call.start, stop: call.stop,
    below: () => [...call.tools.map((tool, i) => toolNode(call, tool, i)), ...call.subs.map(callNode)], size: call.tools.length + call.subs.length});
  const toolNode = (call, tool, i) => ({key: `c${call.index}t${i}`, kind: "tool", thing: tool, label: tool.name, text: tool.cell > 0 ? `cell ${tool.cell}` : "",
    bad: tool.isError, isOpen: !tool.isDone, tokens: 0, ms: tool.ms, start: tool.start, stop: tool.stop, below: () => tool.subs.map(callNode), size: tool.subs.length});
  const noteNode = (note, i) => ({key: "n" + i, kind: "note", thing: note, label: NOTES.get(note.step) || note.step, text: oneLine(str(note.record.content), 80),
    bad: false, tokens: 0, ms: 0, start: note.at, stop: note.at, below: () => [], size: 0});
  const top = [];
  let group = null;
  let next = 0;
  const add = (node) => { if (group === null) top.push(node); else group.nodes.push(node); };
  const notes = (upTo) => {
    for (; next < m.notes.length && m.notes[next].before <= upTo; next++) {
      if (m.notes[next].step !== "iteration") add(noteNode(m.notes[next], next));
    }
  };
  for (const call of m.calls) {
    if (call.isSub) continue;
    if (call.iteration > 0 && (group === null || group.iteration !== call.iteration)) {
      const made = {key: "i" + call.iteration + "." + call.index, kind: "group", iteration: call.iteration, label: "Iteration " + call.iteration, nodes: [], text: "", thing: null};
      made.below = () => made.nodes;
      group = made;
      top.push(made);
    }
    notes(call.index);
    add(callNode(call));
  }
  notes(Infinity);
  for (const node of top.filter((each) => each.kind === "group")) {
    const sum = (member) => node.nodes.reduce((total, each) => total + each[member], 0);
    Object.assign(node, {size: node.nodes.length, bad: node.nodes.some((each) => each.bad), soft: node.nodes.some((each) => each.soft), tokens: sum("tokens"),
      start: Math.min(...node.nodes.slice(0, 1).map((each) => each.start)), stop: Math.max(...node.nodes.slice(-1).map((each) => each.stop))});
    node.ms = node.stop - node.start;
  }
  return top;
}

const NOTES = new Map([["message", "Message to the model"], ["resume", "Resumed"], ["iteration", "Iteration"]]);
/* Whether a call, or a call below it, matches the search. Calls below themselves are visited once. */
function callOrBelowHas(call) {
  if (call.found === undefined || call.found.query !== view.query) {
    call.found = {query: view.query, is: callHas(call)};
    call.found.is = call.found.is || call.subs.some(callOrBelowHas) || call.tools.some((tool) => tool.subs.some(callOrBelowHas));
  }
  return call.found.is;
}

const nodeHas = (node) => view.query === "" ? true : node.kind === "call" ? callOrBelowHas(node.thing)
  : node.kind === "tool" ? toolHas(node.thing) || node.thing.subs.some(callOrBelowHas) : node.kind === "group" ? node.nodes.some(nodeHas)
    : node.text.toLowerCase().includes(view.query);

/* The rows of the tree: nodes whose ancestors are all open, and no node below itself. */
function flat(top) {
  const rows = [];
  const walk = (nodes, level, above) => {
    const shown = nodes.filter(nodeHas);
    shown.forEach((node, i) => {
      rows.push({node, level, set: shown.length, pos: i + 1});
      if (node.size > 0 && !view.closed.has(node.key) && !above.includes(node.key) && above.length < 32) walk(node.below(), level + 1, [...above, node.key]);
    });
  };
  walk(top, 1, []);
  return rows;
}

function noteBody(note) {
  const record = obj(note.record);
  return [el("h2", null, NOTES.get(note.step) || seen(note.step)), section("Text", str(record.content)), section("Record", pretty(record), {cut: 4000})];
}

function nodeBody(node) {
  if (node === null) return [el("p", {class: "empty"}, "Choose a call or a tool to see it here.")];
  if (node.kind === "call") return [el("h2", null, node.label), ...callBody(node.thing)];
  if (node.kind === "tool") return [toolView(node.thing)];
  if (node.kind === "note") return noteBody(node.thing);
  return [el("h2", null, node.label), el("p", {class: "facts"}, `${count(node.nodes.length, "call")}, ${count(node.tokens, "token")}, ${time(node.ms)}`)];
}

function rowOf(m, row, i, active) {
  const node = row.node;
  const size = node.kind === "call" ? Math.max(8, Math.min(18, 8 + node.tokens / 400)) : 8;
  const dot = el("i", {class: `dot ${node.kind === "call" ? "call" : "tool"} ${node.bad ? "k-bad" : node.kind === "note" || node.isOpen ? "k-out" : "k-ok"}`, "aria-hidden": "true"});
  dot.style.width = dot.style.height = size + "px";
  const bar = el("i", {class: node.bad ? "k-bad" : "k-in"});
  bar.style.left = Math.min(98, 100 * node.start / m.elapsed).toFixed(2) + "%";
  bar.style.width = Math.max(0, 100 * (node.stop - node.start) / m.elapsed).toFixed(2) + "%";
  const isOpen = node.size > 0 ? !view.closed.has(node.key) : null;
  const says = `${seen(node.label)}${node.bad ? ", error" : ""}, ${node.tokens > 0 ? count(node.tokens, "token") + ", " : ""}${time(node.ms)}`;
  const out = el("div", {role: "treeitem", id: "row" + i, "aria-level": row.level, "aria-setsize": row.set, "aria-posinset": row.pos, "aria-label": says,
    "aria-expanded": isOpen === null ? null : String(isOpen), "aria-selected": String(node.key === view.node), class: active ? "active" : "",
    title: says, "data-row": i},
  el("span", {class: "twist", "aria-hidden": "true"}, isOpen === null ? "" : isOpen ? "▾" : "▸"), dot,
  el("span", {class: "name"}, el("strong", null, ...marked(node.label)), " ", ...marked(node.text)),
  node.tokens > 0 ? el("span", {class: "num"}, number.format(node.tokens)) : null,
  node.kind === "note" ? null : el("span", {class: "num"}, time(node.ms)), el("span", {class: "fall", "aria-hidden": "true"}, bar));
  out.style.top = i * ROW + "px";
  out.style.paddingLeft = 0.4 + Math.min(row.level - 1, 12) * 1.1 + "rem";
  return out;
}

/* Only rows in view have elements. */
function treeTab(m) {
  const top = nodesOf(m);
  let rows = flat(top);
  let active = Math.max(0, rows.findIndex((row) => row.node.key === view.node));
  const side = el("section", {class: "card side", "aria-label": "Selection", tabindex: "0"});
  const held = el("div", {class: "rows", role: "presentation"});
  const tree = el("div", {role: "tree", tabindex: "0", "aria-label": "Calls and their tools", onscroll: () => paint(), onkeydown: (event) => key(event),
    onclick: (event) => {
      const node = event.target.closest("[data-row]");
      if (node === null) return;
      active = Number(node.dataset.row);
      if (event.target.closest(".twist") !== null) toggle(); else pick();
    }}, held);
  const paint = () => {
    const first = Math.max(0, Math.floor(tree.scrollTop / ROW) - 8);
    const last = Math.min(rows.length, first + Math.ceil((tree.clientHeight || 600) / ROW) + 16);
    held.style.height = rows.length * ROW + "px";
    held.replaceChildren(...rows.slice(first, last).map((row, i) => rowOf(m, row, first + i, first + i === active)));
    if (active >= first && active < last) tree.setAttribute("aria-activedescendant", "row" + active);
    else tree.removeAttribute("aria-activedescendant");
  };
  const reveal = () => {
    const y = active * ROW;
    if (y < tree.scrollTop) tree.scrollTop = y;
    else if (y + ROW > tree.scrollTop + tree.clientHeight) tree.scrollTop = y + ROW - tree.clientHeight;
    paint();
  };
  const pick = () => {
    const node = rows[active].node;
    view.node = node.key;
    side.replaceChildren(...nodeBody(node).flat().filter((part) => part !== null));
    side.scrollTop = 0;
    reveal();
  };
  const toggle = () => {
    const node = rows[active].node;
    if (node.size > 0 && !view.closed.delete(node.key)) view.closed.add(node.key);
    rows = flat(top);
    reveal();
  };
  const all = (isOpen) => () => {
    view.closed.clear();
    if (!isOpen) for (const row of flat(top)) if (row.node.size > 0) view.closed.add(row.node.key);
    rows = flat(top);
    active = 0;
    reveal();
  };
  const parentRow = () => { let i = active; while (i > 0 && rows[i].level >= rows[active].level) i--; return i; };
  const sideways = (isRight) => {
    const row = rows[active];
    const isOpen = row.node.size > 0 && !view.closed.has(row.node.key);
    if (isRight ? row.node.size > 0 && !isOpen : isOpen) toggle();
    else active = isRight ? Math.min(rows.length - 1, active + (isOpen ? 1 : 0)) : parentRow();
  };
  const key = (event) => {
    const page = Math.max(1, Math.floor(tree.clientHeight / ROW) - 1);
    const moves = {ArrowDown: 1, ArrowUp: -1, PageDown: page, PageUp: -page, Home: -Infinity, End: Infinity};
    if (rows.length === 0 || event.ctrlKey || event.altKey || event.metaKey) return;
    if (event.key in moves) active = Math.min(rows.length - 1, Math.max(0, active + moves[event.key]));
    else if (event.key === "ArrowRight" || event.key === "ArrowLeft") sideways(event.key === "ArrowRight");
    else if (event.key === "Enter" || event.key === " ") pick();
    else return;
    event.preventDefault();
    reveal();
  };
  if (rows.length === 0) return [el("p", {class: "empty"}, view.query === "" ? "No call is on record yet." : "No match.")];
  const node = rows[active].node.key === view.node ? rows[active].node : null;
  side.append(...nodeBody(node).flat().filter((part) => part !== null));
  requestAnimationFrame(reveal);
  paint();
  return [el("div", {class: "split"}, el("section", {class: "card", "aria-label": "Tree"},
    el("div", {class: "bar"}, el("button", {class: "act", type: "button", onclick: all(true)}, "Open all"), el("button", {class: "act", type: "button", onclick: all(false)}, "Close all"),
      el("span", {class: "legend"}, el("span", null, el("i", {class: "k-ok"}), "ok"), el("span", null, el("i", {class: "k-bad"}), "error"), el("span", null, "dots: tokens"))), tree), side)];
}

/* The run ---------------------------------------------------------------------------------------- */

const STATES = new Map([["done", "ok"], ["running", "warn"], ["interrupted", "warn"], ["stopped", "bad"]]);

const tilesOf = (rows) => el("dl", {class: "tiles"}, rows.map(([name, value, more]) => el("div", {class: "tile"}, el("dt", null, name), el("dd", null, value, more === "" ? null : el("small", null, more)))));

function tiles(m) {
  if (m.isSession) return tilesOf([["Cells", number.format(m.cells.length), ""], ["Time in cells", time(m.ms), ""], ["Errors", number.format(m.errors), ""]]);
  const subs = m.calls.filter((call) => call.isSub).length;
  const cost = m.unknownCosts > 0 && m.cost === 0 ? "unknown" : (m.unknownCosts > 0 ? "over " : "") + money(m.cost);
  const rows = [
    ["Total calls", number.format(m.calls.length), subs > 0 ? `${number.format(subs)} of them sub-calls` : ""],
    ["Total tokens", number.format(m.input + m.output), `${m.isEstimated ? "about " : ""}${number.format(m.input)} in, ${number.format(m.output)} out`],
    ["Total duration", time(m.ms), ""],
    ["Errors", number.format(m.errors), m.toolErrors > 0 ? count(m.toolErrors, "tool error") : ""],
    ["Tool calls", number.format(m.tools.length), m.cells.length > 0 ? count(m.cells.length, "cell") : ""],
    ["Cost", cost, m.unknownCosts > 0 ? `${count(m.unknownCosts, "call")} without a price` : ""],
  ];
  return tilesOf(rows);
}

function outcome(m, run) {
  const end = obj(obj(m.end).end), final = obj(end.final);
  const text = str(final.answer) || str(end.partial);
  const error = str(end.error);
  if (m.end === null || (text === "" && error === "")) return null;
  return el("section", {class: end.success === true ? "card answer" : "card answer failed"},
    el("h2", null, end.success === true ? "Answer" : text !== "" ? "Answer so far" : "No answer", " ",
      str(end.stopped_by) !== "" ? badge("bad", "stopped by " + seen(str(end.stopped_by))) : null,
      str(final.answer_source) !== "" ? badge("quiet", seen(str(final.answer_source))) : null),
    error !== "" ? block(error, {class: "bad", label: "Error"}) : null, text !== "" ? block(text, {cut: 4 * CUT, label: "Answer"}) : null);
}

function chain(run) {
  if (run.chained !== true) return "no hash chain";
  return num(run.corrupt) + num(run.broken) > 0 ? "hash chain broken" : "hash chain intact";
}

function summary(m, run) {
  const prompt = m.isSession ? "Session " + str(run.id) : str(m.head.prompt) || (m.calls.length > 0 ? m.calls[0].prompt : "") || "(no prompt)";
  const facts = m.isSession ? [["last used", stampAt(run.used)], ["environment", str(run.tier)], ["project", str(run.project)]] : [[null, str(run.id)], [null, str(m.head.kind)], [null, stamp(m.head.timestamp)], ["model", str(m.head.model) || m.calls.map((call) => call.modelName).find((name) => name !== "") || ""],
    ["environment", str(m.head.environment)], ["session", str(m.head.session)], ["continues", str(m.head.parent_run)], [null, chain(run)]];
  const warnings = [];
  if (num(run.corrupt) + num(run.broken) > 0) {
    warnings.push(`${count(num(run.corrupt), "line")} passed over and ${count(num(run.broken), "record")} whose hash is wrong. Line ${num(run.first_bad)}: ${str(run.why)}.`);
  }
  if (num(run.torn) > 0) warnings.push(`The last line is torn: ${count(num(run.torn), "byte")} of a record that was never acknowledged.`);
  if (run.state === "running") warnings.push(index.served === true ? "Still running: reload the page to see more." : "It was running when this page was made.");
  if (run.state === "interrupted") warnings.push(`It was interrupted. Continue it with: snipara-sandbox resume ${str(run.id).slice(0, 8)}`);
  if (num(m.head.before) > 0) warnings.push(`Earlier cells are not in this page. List them with: snipara-sandbox history ${str(m.head.name)} --before ${num(m.head.before)}`);
  at("summary").replaceChildren(
    el("h1", {class: "title", dir: "auto"}, ...marked(prompt.length > 300 ? prompt.slice(0, 300) + "…" : prompt), " ", badge(STATES.get(run.state) || "quiet", str(run.state, "?"))),
    el("div", {class: "facts"}, facts.filter((fact) => fact[1] !== "").map(([name, value]) => el("span", null, name === null ? "" : name + " ", ...marked(value)))),
    ...warnings.map((text) => el("p", {class: "notice"}, seen(text))), tiles(m),
    ...[outcome(m, run)].filter((part) => part !== null));
}

/* Drawing ---------------------------------------------------------------------------------------- */

function tabsDraw() {
  const nodes = tabs().map(([id, title]) => el("button", {role: "tab", type: "button", id: "tab-" + id, "aria-controls": "panel", "aria-selected": String(id === view.tab),
    tabindex: id === view.tab ? "0" : "-1", onclick: () => show(id)}, title));
  at("tabs").replaceChildren(...nodes);
  at("panel").setAttribute("aria-labelledby", "tab-" + view.tab);
}

function draw() {
  const tab = TABS.find(([id]) => id === view.tab);
  at("panel").replaceChildren(...tab[2](view.model).flat().filter((part) => part !== null && part !== undefined));
}

function show(id) {
  view.tab = id;
  history.replaceState(null, "", "#" + id);
  tabsDraw();
  draw();
}

function search() {
  view.query = at("search").value.trim().toLowerCase();
  view.pages = {};
  if (view.model === null) return;
  const m = view.model;
  at("found").textContent = view.query === "" ? "" : `Found in ${m.isSession ? "" : count(m.calls.filter(callHas).length, "call") + " and "}${count(m.cells.filter(toolHas).length, "cell")}.`;
  summary(m, runs[view.run]);
  if (view.query !== "" && view.tab === "overview") show("details");
  else draw();
}

function nothing(text) {
  view.model = null;
  at("summary").replaceChildren(el("p", {class: "empty"}, text));
  at("tabs").replaceChildren();
  at("panel").replaceChildren();
}

function load(i) {
  const run = runs[i];
  const records = dataOf("run-" + i);
  view.run = i;
  view.pages = {};
  view.picked = null;
  view.node = null;
  view.closed.clear();
  if (!Array.isArray(records)) { nothing(str(run.left_out, "This run is not in the page.")); return; }
  view.model = run.kind === "session" ? sessionOf(records) : modelOf(records);
  document.title = oneLine(seen(str(view.model.head.prompt) || str(run.id)), 60) + " - snipara-sandbox";
  if (!tabs().some(([id]) => id === view.tab)) view.tab = tabs()[0][0];
  tabsDraw();
  search();
}

function runsDraw() {
  const select = at("runs");
  select.replaceChildren(...runs.map((run, i) => el("option", {value: i}, seen(run.kind === "session"
    ? `${stampAt(run.used)} Session ${str(run.id)} (${count(num(run.cells), "cell")})`
    : `${stamp(run.timestamp)} (${count(num(run.calls), "call")}, ${count(num(run.tokens), "token")}) ${str(run.id).slice(0, 8)} ${time(num(run.duration_ms))} ${oneLine(str(run.prompt), 60)}`))));
  select.value = String(num(index.shown));
  select.disabled = runs.length < 2;
  select.addEventListener("change", () => {
    const i = Number(select.value);
    if (index.served === true && document.getElementById("run-" + i) === null) location.assign("./" + encodeURIComponent(str(runs[i].id)) + "#" + view.tab);
    else load(i);
  });
}

function begin() {
  let timer = 0;
  const wanted = location.hash.slice(1);
  if (TABS.some(([id]) => id === wanted)) view.tab = wanted;
  at("search").addEventListener("input", () => { clearTimeout(timer); timer = setTimeout(search, 150); });
  at("tabs").addEventListener("keydown", (event) => {
    const known = tabs();
    const i = known.findIndex(([id]) => id === view.tab);
    const to = {ArrowRight: i + 1, ArrowLeft: i - 1, Home: 0, End: known.length - 1}[event.key];
    if (to === undefined || view.model === null) return;
    event.preventDefault();
    show(known[(to + known.length) % known.length][0]);
    at("tab-" + view.tab).focus();
  });
  const sessions = runs.filter((run) => run.kind === "session").length;
  at("foot").textContent = seen(`${count(runs.length - sessions, "run")}${sessions > 0 ? " and " + count(sessions, "session") : ""}${num(index.more) > 0 ? ` (${count(num(index.more), "older one")} not listed)` : ""}${str(index.dir) === "" ? "" : " of " + str(index.dir)}. snipara-sandbox ${str(index.program)}, ${stamp(index.made)}.`);
  runsDraw();
  if (runs.length === 0) nothing("No runs or sessions found. To make one: snipara-sandbox run PROMPT");
  else load(num(index.shown));
}

begin();
