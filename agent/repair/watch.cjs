// SPDX-License-Identifier: Apache-2.0
// Report what changed lines reach while tests of node's runner run: report.py's rules, loaded before other code in each
// process of a file of tests (--require). reached-PID beside this file gets a row for each place, and at the end one
// with the file of tests: report.mjs misses it if the process ended otherwise. snp_lines.json has the changed lines.
//
// Everything used after the start is kept from before the project's code, which may replace methods: no methods of
// values and no iterators.
'use strict'
const { appendFileSync, readFileSync } = require('node:fs')
const { join } = require('node:path')
const { fileURLToPath } = require('node:url')
const Module = require('node:module')

const TOP = '/workspace/'
const TOOLS = ['test', 'assert', 'assert/strict', 'util', 'module', 'events', 'timers', 'fs', 'path', 'child_process']
// Modules that give access to the runner, the interpreter, files or programs.
const LOADS = /^(node:)?(test|assert|module|vm|v8|worker_threads|child_process|fs|process|inspector)(\/|$)/
const OF_TESTS = /(^|[/._-])(tests?|specs?|mocks?|fixtures?|__\w+__|node_modules)([/._-]|$)|^node:internal\/test_runner/
const EVENTS = ['exit', 'beforeExit', 'uncaughtException', 'unhandledRejection', 'uncaughtExceptionMonitor']
const SEEN_MS = 2000 // for comparisons before the end
const { getOwnPropertyDescriptor, getPrototypeOf, defineProperty } = Object
const { ownKeys, apply } = Reflect
const { captureStackTrace } = Error
const { stringify } = JSON
const { now } = performance
const bound = Function.prototype.call.bind.bind(Function.prototype.call)
const [tested, startsWith, slice, includes, listeners, perform] = [RegExp.prototype.exec, String.prototype.startsWith,
  String.prototype.slice, Array.prototype.includes, process.listeners, now].map((each) => bound(each))
const exit = process.reallyExit.bind(process)
const clock = performance
const rows = Object.create(null) // those reported
const scripts = Object.create(null) // URL by id
const loaded = Object.create(null) // modules by path
const before = [] // objects, with what their properties were
let lines = Object.create(null)
let first = '' // a changed file
let session = null
let spent = 0
let isWatched = false // texts that are evaluated

function write(row) {
  appendFileSync(join(__dirname, `reached-${process.pid}`), `${stringify(row)}\n`)
}

function reached(place, what, ends = false) {
  const row = { path: place.path, line: place.line, what, ends }
  const key = stringify(row)
  if (rows[key] === undefined) write(row)
  rows[key] = true
  if (ends) exit(1)
}

// A path below the project, or another name.
function pathOf(url) {
  const path = startsWith(url, 'file:') ? fileURLToPath(url) : url
  return startsWith(path, TOP) ? slice(path, TOP.length) : path
}

const isChanged = ({ path, line }) => lines[path] !== undefined && lines[path][line] === true

// The changed line that led here: of the innermost frame in the project; undefined: another one, or none.
function cause() {
  const { prepareStackTrace, stackTraceLimit } = Error
  const holder = {}
  Error.prepareStackTrace = (_, sites) => sites
  Error.stackTraceLimit = 200
  captureStackTrace(holder, cause)
  const sites = holder.stack
  Error.prepareStackTrace = prepareStackTrace
  Error.stackTraceLimit = stackTraceLimit
  for (let n = 0; n < sites.length; n++) {
    const name = sites[n].getFileName()
    const place = { path: typeof name === 'string' ? pathOf(name) : '', line: sites[n].getLineNumber() }
    if (place.path !== name && place.path !== '') return isChanged(place) ? place : undefined
  }
  return undefined
}

// Places ------------------------------------------------------------------------------------

function post(method, options) {
  let found = {}
  session.post(method, options, (error, result) => { found = result ?? {} })
  return found
}

function placeOfId(objectId, depth) {
  const { internalProperties = [], result = [] } = post('Runtime.getProperties', { objectId, ownProperties: true })
  for (let n = 0; n < internalProperties.length && depth < 5; n++) {
    const { name, value } = internalProperties[n]
    if (name === '[[FunctionLocation]]') {
      return { path: pathOf(scripts[value.value.scriptId] ?? ''), line: value.value.lineNumber + 1 }
    }
    if (name === '[[TargetFunction]]' || name === '[[Handler]]') return placeOfId(value.objectId, depth + 1)
  }
  for (let n = 0; n < result.length && depth > 0; n++) { // the functions of a proxy's handler
    if (result[n].value?.type === 'function') return placeOfId(result[n].value.objectId, depth + 1)
  }
  return undefined
}

// Where a function is defined; undefined: a builtin.
function placeOf(value) {
  if (session === null || typeof value !== 'function') return undefined
  defineProperty(globalThis, 'snp_value', { value, configurable: true })
  isWatched = false
  const { result } = post('Runtime.evaluate', { expression: 'snp_value' })
  isWatched = true
  delete globalThis.snp_value
  return result?.objectId === undefined ? undefined : placeOfId(result.objectId, 0)
}

// The state ---------------------------------------------------------------------------------

function keep(name, object, path) {
  const keys = ownKeys(object)
  const found = []
  const origin = []
  for (let n = 0; n < keys.length; n++) found[n] = origin[n] = getOwnPropertyDescriptor(object, keys[n])
  before[before.length] = { name, object, keys, found, origin, path, above: getPrototypeOf(object) }
}

// path: of the module whose exports these are; undefined: a tool.
function changed(key, { name, path }, was, is) {
  const value = is?.value ?? is?.get ?? is?.set
  const place = placeOf(value)
  const what = `replaces ${String(key)} of ${name}`
  if (place !== undefined && lines[place.path] !== undefined && place.path !== path) {
    reached(isChanged(place) ? place : { path: place.path, line: 0 }, what)
    return
  }
  const isLazy = was === undefined ? name === 'globalThis' : was.get !== undefined && is?.get === undefined
  if (path === undefined && !isLazy && (place === undefined || tested(OF_TESTS, place.path) === null)) {
    reached({ path: first, line: 0 }, what)
  }
}

function isOther(was, is, isGlobal) {
  if (was === undefined) return is !== undefined
  if (was.get !== is?.get || was.set !== is?.set) return true
  return (typeof was.value === 'function' || (isGlobal && typeof was.value === 'object')) && was.value !== is?.value
}

function compareOne(each) {
  const { name, object, keys, found, origin } = each
  const known = keys.length
  for (let n = 0; n < known; n++) {
    const is = getOwnPropertyDescriptor(object, keys[n])
    const isNew = isOther(found[n], is, name === 'globalThis') && isOther(origin[n], is, name === 'globalThis')
    if (isNew) changed(keys[n], each, found[n], is)
    found[n] = is
  }
  const all = ownKeys(object)
  for (let n = 0; n < all.length && all.length > known; n++) {
    if (!includes(keys, all[n])) {
      const is = getOwnPropertyDescriptor(object, all[n])
      if (typeof is.value === 'function' || is.get !== undefined) changed(all[n], each, undefined, is)
      keys[keys.length] = all[n]
      found[found.length] = origin[origin.length] = is
    }
  }
  if (getPrototypeOf(object) !== each.above) reached({ path: first, line: 0 }, `changes the prototype of ${name}`)
  each.above = getPrototypeOf(object)
}

// Modules that are loaded are compared from then on.
function compareModules() {
  if (first === '') return
  const paths = ownKeys(Module._cache)
  for (let n = 0; n < paths.length; n++) {
    const path = pathOf(paths[n])
    const each = Module._cache[paths[n]]
    const known = loaded[path]
    if (!(each instanceof Module) || each.filename !== paths[n] ||
        (known !== undefined && known.each === each && known.exports !== each.exports)) {
      reached({ path: first, line: 0 }, `replaces ${path} in the module cache`)
    }
    const { exports } = each ?? {}
    const isObject = typeof exports === 'function' || (typeof exports === 'object' && exports !== null)
    if (each?.loaded && known?.each !== each && isObject) keep(path, exports, path)
    if (each?.loaded) loaded[path] = { each, exports }
  }
}

function compare() {
  const start = perform(clock)
  compareModules()
  for (let n = 0; n < before.length; n++) compareOne(before[n])
  for (let n = 0; n < EVENTS.length; n++) {
    const all = listeners(process, EVENTS[n])
    for (let k = 0; k < all.length; k++) {
      const place = placeOf(all[k])
      if (place !== undefined && isChanged(place)) reached(place, `listens to ${EVENTS[n]} of the process`)
    }
  }
  spent += perform(clock) - start
}

// Calls -------------------------------------------------------------------------------------

function watchCall(object, name, what, after) {
  const real = object[name]
  object[name] = function (...args) {
    const text = what(args)
    const place = text === '' ? undefined : cause()
    if (place !== undefined) reached(place, text)
    const result = apply(real, this, args)
    after?.()
    return result
  }
}

function watchTexts() {
  session = new (require('node:inspector').Session)()
  session.connect()
  session.on('Debugger.scriptParsed', ({ params: { scriptId, url, hasSourceURL } }) => {
    scripts[scriptId] = url
    if (!isWatched || first === '') return
    const place = url === '' || hasSourceURL ? cause() : undefined
    if (place !== undefined) reached(place, 'evaluates a text', true)
  })
  post('Debugger.enable', {})
  isWatched = true
}

function watch() {
  try {
    const asked = JSON.parse(readFileSync(join(__dirname, 'snp_lines.json'), 'utf8'))
    for (const [path, numbers] of Object.entries(asked).filter(([each]) => /\.[cm]?js$/.test(each))) {
      lines[path] = Object.fromEntries(numbers.map((each) => [each, true]))
      first = first || path
    }
  } catch {} // the clean project
  for (const [object, name, what, after] of [
    [process, 'reallyExit', () => 'ends the process'], [process, 'abort', () => 'ends the process'],
    [process, 'kill', () => 'sends a signal'], [process, 'dlopen', () => 'loads a library'],
    [process, 'binding', () => 'reaches the interpreter'], [process, '_linkedBinding', () => 'reaches the interpreter'],
    [Module, '_load', ([name]) => (tested(LOADS, `${name}`) === null ? '' : `loads ${name}`), compareModules],
    [process.stdout, 'write', ([chunk]) => {
      if (spent < SEEN_MS) compare()
      return typeof chunk === 'object' && chunk?.[0] === 255 ? 'writes to the runner' : ''
    }],
  ]) watchCall(object, name, what, after)
  const all = [['process', process], ['Buffer', Buffer], ['Iterator', getPrototypeOf(getPrototypeOf([].values()))]]
  for (const name of ownKeys(globalThis)) {
    const { value } = getOwnPropertyDescriptor(globalThis, name)
    if (typeof value === 'function' || typeof value === 'object') all.push([String(name), value])
  }
  for (const each of [[].values(), new Map().values(), new Set().values(), ''[Symbol.iterator](), async () => 1,
    function* () {}, async function* () {}]) all.push([`${each}`, getPrototypeOf(each)])
  for (const name of TOOLS) {
    const tool = require(`node:${name}`)
    all.push([name, tool], ...Object.entries(tool).filter(([, value]) => typeof value === 'function'))
  }
  for (const [name, value] of all) {
    if (value !== null && !before.some((each) => each.object === value)) keep(name, value)
    const { prototype } = getOwnPropertyDescriptor(value ?? {}, 'prototype')?.value === undefined ? {} : value
    if (prototype !== undefined && !before.some((each) => each.object === prototype)) keep(`${name}.prototype`, prototype)
  }
  watchTexts()
  process.on('exit', () => {
    compare()
    write({ ended: process.argv[1] })
  })
}

if (process.env.NODE_TEST_CONTEXT !== undefined && require('node:worker_threads').isMainThread) watch()
