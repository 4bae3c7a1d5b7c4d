// SPDX-License-Identifier: Apache-2.0
// Findings for a reviewer in JavaScript: findings.py's rules, by node's own parser (--expose-internals). The code is
// not run. Standard input: {PATH: {"base", "now"}}, texts or null; standard output:
// [{"path", "line", "why", "blocks"}], some with "imports": a file.
'use strict'
const acorn = require('internal/deps/acorn/acorn/dist/acorn')
const { existsSync, readFileSync } = require('node:fs')
const { join, dirname, normalize } = require('node:path')

const words = (text) => new Set(text.split(/\s+/))
// Modules that give access to the runner, the interpreter, files or programs; modules of the network.
const TOOLS = words(`test assert assert/strict test/reporters module vm v8 worker_threads child_process fs fs/promises
  process inspector async_hooks diagnostics_channel repl cluster perf_hooks trace_events wasi sqlite`)
const NETWORK = words('http https http2 net dgram tls dns')
// Names and keys that give such access, or change the behaviour and comparison of all objects.
const REACH = words(`process globalThis global Function eval Reflect Proxy WebAssembly constructor prototype caller
  callee mainModule prepareStackTrace captureStackTrace stackTraceLimit stack setPrototypeOf getPrototypeOf
  defineProperty defineProperties getOwnPropertyDescriptor getOwnPropertyDescriptors valueOf toPrimitive hasInstance asymmetricMatch
  toStringTag allSettled __filename __dirname`)
const ARITHMETIC = words('+ - * / % ** ^ & | << >> >>>')
const UNITS = new Set([0, 1, 2, 10, 100, 0.5, 24, 60, 1000, 1024, 3600])
const SIMPLE = words('ExpressionStatement VariableDeclaration ReturnStatement ThrowStatement ImportDeclaration')
const LOADED = words('ImportDeclaration ExportNamedDeclaration ExportAllDeclaration ImportExpression')

function childrenOf(node) {
  return Object.entries(node).flatMap(([field, value]) => (Array.isArray(value) ? value : [value])
    .filter((each) => each !== null && typeof each === 'object' && typeof each.type === 'string')
    .map((each) => [field, each]))
}

// [{node, field, up}]: every node, with its field in the parent.
function placesOf(tree) {
  const all = [{ node: tree, field: '', up: null }]
  for (let n = 0; n < all.length; n++) {
    all.push(...childrenOf(all[n].node).map(([field, node]) => ({ node, field, up: all[n] })))
  }
  return all
}

const has = (part, is) => part != null && placesOf(part).some((each) => is(each.node))
const rootOf = (node) => (node?.type === 'MemberExpression' ? rootOf(node.object) : node?.name)
const isRequire = (node) => node?.type === 'CallExpression' && node.callee.name === 'require'
const isCallee = ({ field }) => field === 'callee'
const moduleOf = (source) => (typeof source?.value === 'string' ? source.value.replace(/^node:/, '') : undefined)
const namesOf = (pattern) => placesOf(pattern).map((each) => each.node.name).filter(Boolean)

function isTarget({ node, field, up }) {
  if (['ArrayPattern', 'RestElement', 'UpdateExpression'].includes(up.node.type)) return true
  if (up.node.type === 'UnaryExpression') return up.node.operator === 'delete'
  if (up.node.type === 'Property') return up.up.node.type === 'ObjectPattern' && field === 'value'
  return /^(Assignment|For(In|Of))/.test(up.node.type) && field === 'left' && up.node.left === node
}

class File {
  constructor(path, text, isModule) {
    this.path = path
    this.text = text
    this.places = placesOf(acorn.parse(text, { ecmaVersion: 'latest', sourceType: isModule ? 'module' : 'script',
      locations: true, allowHashBang: true, allowReturnOutsideFunction: !isModule }))
    this.imported = new Set() // names bound by imports
    this.modules = words('Math JSON Object Array Symbol Promise Number String console') // as a whole
    this.tools = new Set() // imports of TOOLS
    for (const { node } of this.places) {
      const names = node.type === 'ImportDeclaration' ? node.specifiers.map((each) => each.local.name)
        : node.type === 'VariableDeclarator' && isRequire(node.init) ? namesOf(node.id) : []
      names.forEach((name) => this.imported.add(name))
      if (TOOLS.has(moduleOf(node.source ?? node.init?.arguments?.[0]))) names.forEach((name) => this.tools.add(name))
      const whole = node.type !== 'ImportDeclaration' ? node.id
        : node.specifiers.find((each) => /Namespace/.test(each.type))?.local
      if (names.length > 0 && whole?.type === 'Identifier') this.modules.add(whole.name)
    }
  }

  // The imported file, or a reason.
  ofImport(source) {
    const name = moduleOf(source)
    if (name === undefined) return { why: 'imports a module with a computed name' }
    if (TOOLS.has(name)) return { why: `imports ${source.value}` }
    if (NETWORK.has(name)) return { why: `uses the network: imports ${source.value}`, blocks: false }
    const at = normalize(join(dirname(this.path), source.value))
    const found = [at, `${at}.js`, `${at}.mjs`, `${at}.cjs`, `${at}/index.js`].find((each) => existsSync(each))
    return source.value.startsWith('.') && found ? { why: `imports from tests: ${found}`, imports: found } : null
  }

  ofName(place) {
    const { node, field, up } = place
    const { name } = node
    const isKey = (field === 'property' || field === 'key') && !up.node.computed
    if (REACH.has(name) || name.startsWith('__')) {
      const isOwn = up.node.type === 'MethodDefinition' && up.node.kind === 'constructor'
      return isOwn ? null : { why: `uses ${name}` }
    }
    if (isKey) return null
    if (name === 'require') return isCallee(place) ? null : { why: 'uses require' }
    if (name === 'module') return up.node.property?.name === 'exports' ? null : { why: 'uses module' }
    if (this.tools.has(name)) return { why: `uses ${name}, which it imports` }
    const isGiven = field === 'arguments' && typeof globalThis[name] !== 'function'
    const isValue = isGiven || /^(init|right)$/.test(field)
    return isValue && this.modules.has(name) ? { why: `uses ${name} as a value` } : null
  }

  ofMember(place) {
    const { node, up } = place
    const root = rootOf(node)
    const isOther = this.imported.has(root) || (root !== undefined && root !== 'module' && root in globalThis)
    if (isOther && isTarget(place)) {
      return { why: `changes ${root}, which is not its own` }
    }
    const isMade = node.computed && has(node.property, (each) => /^(TemplateLiteral|CallExpression)$/.test(each.type) ||
      (each.type === 'BinaryExpression' && each.operator === '+' && has(each, (one) => typeof one.value === 'string')))
    const isUsed = isCallee(place) || (up.node.type === 'MemberExpression' && place.field === 'object')
    return isMade && isUsed ? { why: 'uses an attribute with a computed name' } : null
  }

  // Several constants in one calculation may be chosen to fit the inputs of the tests.
  ofArithmetic({ node, up }) {
    if (!ARITHMETIC.has(node.operator) || ARITHMETIC.has(up.node.operator)) return null
    const known = new Set(placesOf(node).map((each) => each.node.value)
      .filter((each) => typeof each === 'number' && !UNITS.has(each)))
    const text = [...known].sort((a, b) => a - b).join(', ')
    return known.size > 1 ? { why: `calculates with ${text}`, blocks: false } : null
  }

  reason(place) {
    const { node } = place
    if (node.type === 'BinaryExpression') return this.ofArithmetic(place)
    if (node.type === 'Identifier') return this.ofName(place)
    if (node.type === 'MemberExpression') return this.ofMember(place)
    const text = node.type === 'Literal' ? String(node.value) : ''
    if (REACH.has(text) || /^__|\/proc/.test(text)) return { why: `has the text ${text}` }
    if (isRequire(node)) return this.ofImport(node.arguments[0])
    return LOADED.has(node.type) && node.source ? this.ofImport(node.source) : null
  }

  // A node in an unchanged statement has the same key as before.
  findings() {
    return this.places.flatMap((place) => {
      const found = this.reason(place)
      let at = place
      while (at.up !== null && !SIMPLE.has(at.node.type)) at = at.up
      const within = at.up === null ? '' : this.text.slice(at.node.start, at.node.end)
      const key = `${found?.why}\n${this.text.slice(place.node.start, place.node.end)}\n${within}`
      return found === null ? [] : [{ key, path: this.path, line: place.node.loc.start.line, blocks: true, ...found }]
    })
  }
}

// Findings in the text read as a script and as a module, if it parses: package.json and the name decide for node.
const readings = (path, text) => [false, true].flatMap((isModule) => {
  try {
    return [new File(path, text, isModule).findings()]
  } catch {
    return []
  }
})

function findingsOf(path, { base, now }) {
  const known = (base === null ? [] : readings(path, base)[0] ?? []).map((each) => each.key)
  const [first, second = []] = readings(path, now)
  if (first === undefined || /<!--|-->/.test(now)) {
    const why = first === undefined ? 'cannot be read as JavaScript' : 'has <!-- or -->, which may be a comment'
    return [{ path, line: 0, why, blocks: true }]
  }
  return [...first, ...second.filter(({ key }) => !first.some((each) => each.key === key))].filter(({ key }) => {
    const n = known.indexOf(key)
    if (n >= 0) known.splice(n, 1)
    return n < 0
  }).map(({ key, ...each }) => each)
}

const asked = JSON.parse(readFileSync(0, 'utf8'))
console.log(JSON.stringify(Object.entries(asked).flatMap(([path, texts]) => findingsOf(path, texts))))
