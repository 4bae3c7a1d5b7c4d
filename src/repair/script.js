// SPDX-License-Identifier: Apache-2.0
// What speaks against JavaScript: the counterpart of what judge.py does with Python, run by it with node's own parser
// (--expose-internals). Nothing that it reads is run. Standard input: {PATH: {"base", "now", "module"}}, texts or null,
// and whether node takes it as a module; standard output: [{"path", "line", "why"}], some with "imports": a file.
//
// Tests and code share a process, and whoever holds Function, a prototype or an object of the runner can say anything.
// No value here leads there but by a name, so names are a list, and `a[k]` needs a k that is a number.
'use strict'
const acorn = require('internal/deps/acorn/acorn/dist/acorn')
const { existsSync, readFileSync } = require('node:fs')
const { join, dirname, normalize } = require('node:path')

const TYPES = new Set(`Program ExpressionStatement BlockStatement EmptyStatement ReturnStatement IfStatement
  SwitchStatement SwitchCase ThrowStatement TryStatement CatchClause WhileStatement DoWhileStatement ForStatement
  ForInStatement ForOfStatement BreakStatement ContinueStatement LabeledStatement FunctionDeclaration
  VariableDeclaration VariableDeclarator ThisExpression ArrayExpression ObjectExpression Property FunctionExpression
  ArrowFunctionExpression UnaryExpression UpdateExpression BinaryExpression AssignmentExpression LogicalExpression
  MemberExpression ConditionalExpression CallExpression NewExpression SequenceExpression YieldExpression
  AwaitExpression TemplateLiteral TemplateElement SpreadElement RestElement ObjectPattern ArrayPattern
  AssignmentPattern ClassDeclaration ClassExpression ClassBody MethodDefinition PropertyDefinition Super
  PrivateIdentifier ImportDeclaration ImportSpecifier ImportDefaultSpecifier ExportNamedDeclaration
  ExportDefaultDeclaration ExportSpecifier Literal Identifier ChainExpression`.split(/\s+/))
// Globals that may be called, and what may be read of them.
const STATICS = {
  Math: Object.getOwnPropertyNames(Math), JSON: ['parse', 'stringify'], Date: ['now', 'UTC', 'parse'],
  Number: Object.getOwnPropertyNames(Number), String: ['raw', 'fromCharCode', 'fromCodePoint'],
  Array: ['isArray', 'from', 'of'], Promise: ['resolve', 'reject', 'all'], Symbol: ['iterator', 'asyncIterator'],
  Object: ['keys', 'values', 'entries', 'fromEntries', 'is', 'freeze', 'isFrozen'],
}
for (const name of `Boolean BigInt Map Set WeakMap WeakSet RegExp Error TypeError RangeError SyntaxError EvalError
  URIError ReferenceError AggregateError Int8Array Uint8Array Int16Array Uint16Array Int32Array Uint32Array
  Float32Array Float64Array parseInt parseFloat isNaN isFinite encodeURIComponent decodeURIComponent encodeURI
  decodeURI`.split(/\s+/)) STATICS[name] = []
const PLAIN = new Set(['undefined', 'NaN', 'Infinity'])
const RESERVED = new Set('require module exports arguments eval __filename __dirname'.split(' '))
// stack names the test that calls, the words after it belong to the runner.
const INNER = new Set(`constructor prototype caller callee arguments mainModule prepareStackTrace captureStackTrace
  stackTraceLimit stack mock skip todo only runOnly assert catch allSettled`.split(/\s+/))
const CAUGHT = new Set(['Number', 'BigInt', 'RegExp', 'parseInt', 'parseFloat', 'decodeURI', 'decodeURIComponent'])
// Methods of what the language has: as values they would be objects of all.
const METHODS = new Set([Array, String, Number, Object, Function, Map, Set, Promise, RegExp, Date, Error, BigInt, Symbol,
  Uint8Array.__proto__, Boolean].flatMap((kind) => Object.entries(Object.getOwnPropertyDescriptors(kind.prototype))
  .filter(([, is]) => typeof is.value === 'function').map(([name]) => name)))
const SIMPLE = new Set(`ExpressionStatement VariableDeclaration ReturnStatement ThrowStatement
  ImportDeclaration`.split(/\s+/))
const ASSIGNED = new Set(['AssignmentExpression', 'AssignmentPattern', 'ForInStatement', 'ForOfStatement'])

function childrenOf(node) {
  return Object.entries(node).flatMap(([field, value]) => (Array.isArray(value) ? value : [value])
    .filter((each) => each !== null && typeof each === 'object' && typeof each.type === 'string')
    .map((each) => [field, each]))
}

// [{node, field, up, below}]: every node, with its place in the one above.
function placesOf(tree) {
  const all = [{ node: tree, field: '', up: null }]
  for (let n = 0; n < all.length; n++) {
    all[n].below = childrenOf(all[n].node).map(([field, node]) => ({ node, field, up: all[n] }))
    all.push(...all[n].below)
  }
  return all
}

function isTarget({ node, field, up }) {
  if (['ArrayPattern', 'ObjectPattern', 'RestElement', 'UpdateExpression'].includes(up.node.type)) return true
  if (up.node.type === 'UnaryExpression') return up.node.operator === 'delete'
  if (up.node.type === 'Property') return up.up.node.type === 'ObjectPattern' && field === 'value'
  return ASSIGNED.has(up.node.type) && field === 'left' && up.node.left === node
}

const isCallee = ({ field, up }) => field === 'callee' && (up.node.type === 'CallExpression' ||
  up.node.type === 'NewExpression')

// Whether an identifier is a value, rather than a word of the grammar.
function isValue({ field, up }) {
  const { type, computed } = up.node
  if (type === 'MemberExpression') return field === 'object' || computed
  if (/^(Property|MethodDefinition|PropertyDefinition)$/.test(type)) return field === 'value' || computed
  if (type === 'ImportSpecifier' || type === 'ExportSpecifier') return field === 'local'
  return !['LabeledStatement', 'BreakStatement', 'ContinueStatement'].includes(type)
}

// Whether an identifier gives its name a meaning.
function isBinding(place) {
  const { node, field, up } = place
  if (!isValue(place) || up.node.type === 'ExportSpecifier') return false
  if (field === 'id' || field === 'params' || field === 'param' || field === 'local') return true
  for (let at = place; at.up !== null; at = at.up) { // a pattern of a declaration
    const above = at.up.node
    if (above.type === 'VariableDeclarator') return at.field === 'id'
    if (at.field === 'params' || at.field === 'param') return true
    if (above.type === 'AssignmentPattern' && at.field === 'right') return false
    if (above.type === 'MemberExpression' || (above.type === 'Property' && at.field === 'key' && above.computed)) return false
    if (!['ObjectPattern', 'ArrayPattern', 'RestElement', 'AssignmentPattern', 'Property'].includes(above.type)) return false
  }
  return false
}

const isRequire = (node) => node?.type === 'CallExpression' && node.callee.name === 'require'

class File {
  constructor(path, text, isModule) {
    this.path = path
    this.text = text
    this.places = placesOf(acorn.parse(text, { ecmaVersion: 'latest', sourceType: isModule ? 'module' : 'script',
      locations: true, allowHashBang: true, allowReturnOutsideFunction: !isModule }))
    this.bound = new Set(['undefined'])
    this.imported = new Set()
    this.numbers = new Map() // name -> what it is given; null: something else
    for (const place of this.places) this.learn(place)
    this.foreign = new Set() // names and keys of what is not known to be harmless, as the file had them before
    for (let n = -1; n !== this.foreign.size;) {
      n = this.foreign.size
      for (const place of this.places) this.spread(place)
    }
  }

  // What is given something that is a finding is one itself wherever it is used. What functions do is trusted.
  spread({ node, below, up }) {
    if (/^(Import|Export).*Declaration$/.test(node.type) && node.source) {
      if (typeof this.importOf(node.source) === 'string') this.mark(below)
      return
    }
    const at = (field) => below.filter((each) => each.field === field)
    const from = [...at('init'), ...at('right'), ...at('value'),
      ...(node.type === 'VariableDeclarator' && /^For(In|Of)/.test(up.up.node.type)
        ? up.up.below.filter((each) => each.field === 'right') : [])]
    if (!/^(VariableDeclarator|Assignment.*|For(In|Of)Statement|Property|PropertyDefinition)$/.test(node.type) ||
        (node.type === 'Property' && up.node.type === 'ObjectPattern') || !this.hasFinding(from)) return
    this.mark([...at('id'), ...at('left'), ...at('key')])
  }

  mark(places) {
    for (const place of places) {
      const { node, field } = place
      if (node.type === 'Identifier' && (isBinding(place) || isTarget(place) || field === 'key' || field === 'property')) {
        this.foreign.add(node.name)
      }
      this.mark(place.below)
    }
  }

  hasFinding(places) {
    return places.some((place) => !/Function/.test(place.node.type) &&
      (typeof this.whyNot(place) === 'string' || this.hasFinding(place.below)))
  }

  learn(place) {
    const { node, field, up } = place
    if (node.type === 'Identifier' && isBinding(place)) this.bound.add(node.name)
    if (node.type === 'Identifier' && (isBinding(place) || isTarget(place))) {
      const { type, init, right, operator } = up.node
      const given = this.numbers.get(node.name) ?? []
      if (type === 'VariableDeclarator') {
        const loop = up.up.up.node
        given.push(up.up.field === 'left' && /^For(In|Of)/.test(loop.type) ? null : init === null ? 0 : init)
      } else if (type === 'AssignmentExpression') {
        given.push(['=', '+=', '??=', '||=', '&&='].includes(operator) ? right : 0)
      } else if (type !== 'UpdateExpression') {
        given.push(null)
      }
      this.numbers.set(node.name, given)
    }
    for (let at = place; node.type === 'Identifier' && isBinding(place) && at.up !== null; at = at.up) {
      const above = at.up.node
      if (/^Import/.test(above.type) || (above.type === 'VariableDeclarator' && isRequire(above.init))) {
        this.imported.add(node.name)
      }
      if (!/Pattern$|^(Property|RestElement|VariableDeclarator)$/.test(above.type)) break
    }
  }

  isNumber(node, seen = new Set()) {
    if (node === 0) return true
    if (node === null) return false
    const both = (...all) => all.every((each) => this.isNumber(each, seen))
    switch (node.type) {
      case 'Literal': return typeof node.value === 'number'
      case 'UnaryExpression': return ['+', '-', '~'].includes(node.operator)
      case 'UpdateExpression': return true
      case 'ConditionalExpression': return both(node.consequent, node.alternate)
      case 'BinaryExpression': return node.operator === '+' ? both(node.left, node.right) :
        ['-', '*', '/', '%', '**', '|', '&', '^', '<<', '>>', '>>>'].includes(node.operator)
      case 'CallExpression': return node.callee.type === 'MemberExpression' && node.callee.object.name === 'Math' &&
        !this.bound.has('Math')
      case 'Identifier': {
        const given = this.numbers.get(node.name)
        if (given === undefined) return false
        return seen.has(node.name) || given.every((each) => this.isNumber(each, new Set([...seen, node.name])))
      }
      default: return false
    }
  }

  whyNotName(name, isRead) {
    if (this.foreign.has(name) && isRead !== undefined) return `uses ${name}, which is not known to be harmless`
    if (name.startsWith('__') || INNER.has(name)) return `uses ${name}`
    return isRead && METHODS.has(name) ? `uses ${name} as a value` : null
  }

  whyNotKey(place) {
    const { node } = place
    const isMember = node.type === 'MemberExpression'
    const key = isMember ? node.property : node.key
    const isTaken = isMember || (node.type === 'Property' && place.up.node.type === 'ObjectPattern')
    const isRead = isTaken ? !isCallee(place) : undefined
    if (key.type === 'PrivateIdentifier') return null
    if (!node.computed && key.type === 'Identifier') {
      return node.type === 'MethodDefinition' && node.kind === 'constructor' ? null : this.whyNotName(key.name, isRead)
    }
    if (key.type === 'Literal') return this.whyNotName(String(key.value), isRead)
    const isIterator = key.type === 'MemberExpression' && key.object.name === 'Symbol'
    return isIterator || this.isNumber(key) ? null : 'has a key that is not known to be a number'
  }

  whyNotIdentifier(place) {
    const { node, field, up } = place
    const { name } = node
    if (!isValue(place)) return null
    if (isBinding(place)) {
      return name in globalThis || RESERVED.has(name) ? `gives the name ${name} another meaning` : null
    }
    if (this.foreign.has(name)) return `uses ${name}, which is not known to be harmless`
    if (name === 'module') {
      const own = up.node.property?.name === 'exports' && !up.node.computed && field === 'object'
      const to = isTarget(up) || (up.up?.node.type === 'MemberExpression' && up.field === 'object' && isTarget(up.up))
      return own && to ? null : 'uses module'
    }
    if (name === 'exports') return up.node.type === 'MemberExpression' && isTarget(up) ? null : 'uses exports'
    if (name === 'require') return isCallee(place) && up.up.node.type === 'VariableDeclarator' ? null : 'uses require'
    if (this.imported.has(name)) {
      const isMember = up.node.type === 'MemberExpression' && field === 'object'
      const at = isMember ? up : place
      const isFine = isCallee(at) || at.up.node.type === 'BinaryExpression' || at.field === 'superClass' ||
        at.up.node.type === 'ExportSpecifier'
      return isFine && !isTarget(at) ? null : `uses the import ${name} as a value`
    }
    if (this.bound.has(name)) return null
    if (PLAIN.has(name)) return isTarget(place) ? `uses ${name}` : null
    if (!Object.hasOwn(STATICS, name)) return `uses ${name}, which is not known to be harmless`
    if (up.node.type === 'MemberExpression' && field === 'object') {
      const key = up.node.computed ? '' : up.node.property.name
      const isFine = isCallee(up) || typeof globalThis[name][key] !== 'function'
      return STATICS[name].includes(key) && isFine && !isTarget(up) ? null : `uses ${name}.${key}`
    }
    const isAsked = up.node.type === 'BinaryExpression' && up.node.operator === 'instanceof' && field === 'right'
    const isAbove = field === 'superClass' && name.endsWith('Error')
    return isCallee(place) || isAsked || isAbove ? null : `uses ${name} as a value`
  }

  // What could swallow the failure of a test.
  whyNotTry({ node }) {
    const has = (part, is) => part != null && placesOf(part).some((each) => is(each.node))
    const isOurs = ({ callee, arguments: given }) => CAUGHT.has(callee.name) ||
      (callee.object?.name === 'JSON' && given.length === 1)
    if (node.handler !== null && has(node.block, (each) => /^(Yield|Await|ForOf)/.test(each.type) ||
        /^(Spread|ArrayPattern|TemplateL)/.test(each.type) || (/^(Call|New)/.test(each.type) && !isOurs(each)))) {
      return 'catches what the code that it calls raises'
    }
    return has(node.finalizer, (each) => /^(Return|Break|Continue|Yield)/.test(each.type))
      ? 'leaves a finally block, and forgets what was raised' : null
  }

  // The file that is meant; a text: why it may not be.
  importOf(source) {
    if (typeof source?.value !== 'string') return 'imports what is not a text'
    const at = normalize(join(dirname(this.path), source.value))
    if (!/^\.\.?\//.test(source.value) || /^\.\.|(^|\/)node_modules(\/|$)/.test(at)) return `imports ${source.value}`
    const found = [at, `${at}.js`, `${at}.mjs`, `${at}.cjs`, `${at}/index.js`].find((each) => /\.[cm]?js$/.test(each) &&
      (existsSync(each) || Object.hasOwn(asked, each)))
    return found === undefined ? `imports ${source.value}, which is no JavaScript here` : { imports: found }
  }

  whyNot(place) {
    const { node, up } = place
    if (!TYPES.has(node.type)) return `has a ${node.type}, which is not known to be harmless`
    if (node.type === 'Identifier') return this.whyNotIdentifier(place)
    if (node.type === 'TryStatement') return this.whyNotTry(place)
    if (isRequire(node)) return this.importOf(node.arguments[0])
    if (/^(Import|Export).*Declaration$/.test(node.type) && node.source) return this.importOf(node.source)
    if (node.type === 'CallExpression' && node.callee.property?.name === 'then' && node.arguments.length !== 1) {
      return 'catches what the code that it calls raises'
    }
    if (node.type === 'ThisExpression') {
      for (let at = up; at !== null; at = at.up) if (at.node.type === 'ClassBody') return null
      return 'uses this outside a class'
    }
    if (/^Class(Decl|Expr)/.test(node.type) && node.superClass !== null &&
        !['Identifier', 'MemberExpression'].includes(node.superClass.type)) return 'is a class of a value'
    return /^(MemberExpression|Property|MethodDefinition|PropertyDefinition)$/.test(node.type) ? this.whyNotKey(place) : null
  }

  // [{key, line, why, imports}]; what stands in the same statement as before has the same key.
  findings() {
    return this.places.flatMap((place) => {
      const found = this.whyNot(place)
      const { why, imports } = found?.imports === undefined ? { why: found } : { why: 'imports from tests', ...found }
      let at = place
      while (at.up !== null && !SIMPLE.has(at.node.type)) at = at.up
      const within = at.up === null ? '' : this.text.slice(at.node.start, at.node.end)
      return why === null ? [] : [{ key: `${why}\n${this.text.slice(place.node.start, place.node.end)}\n${within}`,
        line: place.node.loc.start.line, why, imports }]
    })
  }
}

function findingsOf(path, { base, now, module }) {
  if (now === null) return []
  const known = []
  try {
    known.push(...(base === null ? [] : new File(path, base, module).findings().map((each) => each.key)))
  } catch {
    // It could not be read before either: all of it is new.
  }
  try {
    if (/<!--|-->/.test(now)) return [{ path, line: 0, why: 'has <!-- or -->, which may be a comment' }]
    return new File(path, now, module).findings().filter(({ key }) => {
      const n = known.indexOf(key)
      if (n >= 0) known.splice(n, 1)
      return n < 0
    }).map(({ line, why, imports }) => ({ path, line, why, imports }))
  } catch (error) {
    return [{ path, line: 0, why: `cannot be read as JavaScript (${error.name})` }]
  }
}

const asked = JSON.parse(readFileSync(0, 'utf8'))
console.log(JSON.stringify(Object.entries(asked).flatMap(([path, texts]) => findingsOf(path, texts))))
