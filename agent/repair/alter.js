// SPDX-License-Identifier: Apache-2.0
// Altered forms of tests in JavaScript, like those of alter.py, by node's own parser (--expose-internals). The tests
// are not run here. Standard input: {"form", "files": {PATH: TEXT}}; output: {PATH: {"text", "names"}}, without
// unchanged files; for `fails`, names are those of the tests that end with a failure, "ABOVE > NAME".
'use strict'
const acorn = require('internal/deps/acorn/acorn/dist/acorn')
const { readFileSync } = require('node:fs')

const FAR = 1009
const FAILS = 'throw new Error()' // the same in all forms: code cannot tell the form from it
const TESTS = new Set(['test', 'it'])
const GROUPS = new Set(['describe', 'suite'])
const FUNCTIONS = new Set(['FunctionExpression', 'ArrowFunctionExpression', 'FunctionDeclaration'])
// The condition of an assertion with values l and r, by operators: code can replace functions such as Object.is. Loose
// deep equality has no separate function.
const IS = '(l === r ? l !== 0 || 1 / l === 1 / r : l !== l && r !== r)'
const HOLDS = {
  strictEqual: IS, notStrictEqual: `!${IS}`, equal: 'l == r', notEqual: 'l != r',
  deepStrictEqual: 'DEEP(l, r)', notDeepStrictEqual: '!DEEP(l, r)', ok: 'l', assert: 'l',
}
const EQUAL = new Set(['strictEqual', 'equal', 'deepStrictEqual'])

// Another value of the type of v; a new symbol equals nothing.
const OTHER = `((v) => typeof v === 'number' ? (v - v === 0 ? -2 * v - ${FAR} : ${FAR}) : typeof v === 'boolean' ? !v :
  typeof v === 'string' ? '~' + v + '~' : Array.isArray(v) ? [Symbol(), ...v.slice(1)] : Symbol())`

function childrenOf(node) {
  return Object.values(node).flat().filter((each) => each !== null && typeof each === 'object' &&
    typeof each.type === 'string')
}

function parse(text) {
  const options = { ecmaVersion: 'latest', allowHashBang: true }
  try {
    const tree = acorn.parse(text, { ...options, sourceType: 'module' })
    return { tree, isModule: tree.body.some((each) => /^(Import|Export)/.test(each.type)) }
  } catch {
    return { tree: acorn.parse(text, { ...options, sourceType: 'script', allowReturnOutsideFunction: true }),
      isModule: false }
  }
}

// The name of the called function, without its object: test, t.test, assert.strictEqual.
function calledName({ callee }) {
  return callee.type === 'MemberExpression' && !callee.computed ? callee.property.name : callee.name
}

// The assertion of a call; undefined: not an assertion, or an unknown one.
function assertionOf(node) {
  const { callee } = node
  if (node.arguments.length === 0 || node.arguments.some((each) => each.type === 'SpreadElement')) return undefined
  if (callee.type === 'Identifier') return callee.name === 'assert' ? 'assert' : undefined
  const of = callee.type === 'MemberExpression' ? callee.object.property ?? callee.object : {}
  const name = of.name === 'assert' ? calledName(node) : undefined
  return name in HOLDS && (node.arguments.length > 1 || name === 'ok') ? name : undefined
}

class Text {
  constructor(text, form) {
    this.text = text
    this.form = form
    this.edits = []
    this.names = []
    const { tree, isModule } = parse(text)
    this.isModule = isModule
    this.start = tree.body.find((each) => each.directive === undefined)?.start ?? 0
    // Not where a failure may be caught intentionally.
    this.isCounted = form === 'negated' && !/\b(throws|rejects|catch)\b/.test(text)
    if (form === 'order') this.reverse(tree.body)
    else if (form !== 'fails') this.alter(tree)
    if (form === 'fails' || this.isCounted) this.fail(tree, []) // the last edit at a place is the first in the text
  }

  of(node) {
    return this.text.slice(node.start, node.end)
  }

  edit(start, end, text) {
    this.edits.push({ start, end, text })
  }

  isConstant(node) {
    if (node.type === 'Literal') return node.regex === undefined
    if (node.type === 'UnaryExpression') return node.operator === '-' && typeof node.argument.value === 'number'
    if (node.type === 'ArrayExpression') return node.elements.every((each) => each !== null && this.isConstant(each))
    return node.type === 'ObjectExpression' && node.properties.every((each) => each.type === 'Property' &&
      each.kind === 'init' && !each.computed && !each.method && !each.shorthand && this.isConstant(each.value))
  }

  // The constants of an expression replaced by another value, as text.
  different(node) {
    const parts = node.elements ?? node.properties
    if (parts !== undefined) {
      const [open, close] = node.type === 'ArrayExpression' ? '[]' : '{}'
      if (parts.length === 0) return `${open}${open === '[' ? FAR : `snp: ${FAR}`}${close}`
      const last = parts.at(-1).value?.type === undefined ? parts.at(-1) : parts.at(-1).value
      return this.text.slice(node.start, last.start) + this.different(last) + this.text.slice(last.end, node.end)
    }
    const value = node.type === 'UnaryExpression' ? -node.argument.value : node.value
    const isFar = this.form === 'much'
    if (typeof value === 'number') {
      return `(${isFar ? value - FAR : Number.isInteger(value) ? value + 1 : value + (Math.abs(value) + 1) / 100})`
    }
    if (typeof value === 'string') return JSON.stringify(isFar ? `~${[...value].reverse().join('')}~` : `${value}~`)
    return typeof value === 'boolean' ? String(!value) : String(FAR)
  }

  // The replacement of an assertion; undefined: keep it.
  instead(name, { callee, arguments: [left, right] }) {
    // Without semicolons a line that begins with ( would continue the previous line; void does not.
    const fail = this.isCounted ? `{ snpFailed = true; ${FAILS} }` : FAILS
    const check = (holds, ...values) => `void ((l, r) => { if (!(${holds.replace('DEEP', 'snpDeep')})) ` +
      `${fail} })(${values.join(', ')})`
    if (this.form === 'negated') {
      return check(HOLDS[name], this.of(left), ...(right === undefined || HOLDS[name] === 'l' ? [] : [this.of(right)]))
    }
    if (!EQUAL.has(name) || this.isConstant(left) || this.isConstant(right) === (this.form === 'far')) return undefined
    if (this.form === 'far') return check(`!(${HOLDS[name]})`, this.of(left), `${OTHER}(${this.of(right)})`)
    return this.form === 'same' ? `${this.of(callee)}(${this.of(right)}, ${this.of(left)})`
      : check(`!(${HOLDS[name]})`, this.of(left), this.different(right))
  }

  alter(node) {
    if (node.type === 'TryStatement' && node.handler !== null) return // it may fail intentionally
    if (node.type === 'CallExpression') {
      if (/^(throws|rejects|doesNotThrow|doesNotReject)$/.test(calledName(node))) return
      if (this.isCounted && calledName(node) === 'fail') this.edit(node.start, node.start, 'void (snpFailed = true), ')
      const name = assertionOf(node)
      const text = name === undefined ? undefined : this.instead(name, node)
      if (text !== undefined) {
        this.edit(node.start, node.end, text)
        return
      }
    }
    childrenOf(node).forEach((each) => this.alter(each))
  }

  // Reverse the order of tests and groups.
  reverse(statements) {
    const tests = statements.filter(({ expression }) => expression?.type === 'CallExpression' &&
      (TESTS.has(calledName(expression)) || GROUPS.has(calledName(expression))))
    if (tests.length < 2) return
    tests.forEach(({ start, end }, n) => this.edit(start, end, this.of(tests.at(-1 - n))))
  }

  fail(node, above) {
    const name = node.type === 'CallExpression' ? calledName(node) : ''
    const [first] = node.arguments ?? []
    const body = node.arguments?.at(-1)
    let within = above
    if ((TESTS.has(name) || GROUPS.has(name)) && FUNCTIONS.has(body?.type)) {
      within = [...above, typeof first.value === 'string' ? first.value : '?']
      if (TESTS.has(name)) {
        this.end(body)
        this.names.push(within.join(' > '))
      }
    }
    childrenOf(node).forEach((each) => this.fail(each, within))
  }

  // Every exit of a test throws; for `negated`, its end throws if an assertion failed, even if code swallowed that.
  end({ body }) {
    if (this.isCounted) {
      const isBlock = body.type === 'BlockStatement'
      const [start, end] = isBlock ? [body.start + 1, body.end - 1] : [body.start, body.end]
      this.edit(start, start, isBlock ? ' snpFailed = false; ' : '{ snpFailed = false; const snpValue = (')
      this.edit(end, end, isBlock ? '\nsnpEnd()\n' : '); return snpValue?.then?.(snpEnd) ?? snpEnd(snpValue) }')
      return
    }
    if (body.type !== 'BlockStatement') {
      this.edit(body.start, body.start, '{ (')
      this.edit(body.end, body.end, `); ${FAILS} }`)
      return
    }
    const leave = (node) => {
      if (node.type === 'ReturnStatement') {
        this.edit(node.start, node.start, `{ ${FAILS}; `)
        this.edit(node.end, node.end, ' }')
      }
      if (!FUNCTIONS.has(node.type)) childrenOf(node).forEach(leave)
    }
    leave(body)
    this.edit(body.end - 1, body.end - 1, `\n${FAILS}\n`)
  }

  result() {
    if (this.edits.length === 0 && this.form !== 'same') return undefined
    let text = this.text
    for (const { start, end, text: new_ } of this.edits.sort((a, b) => b.start - a.start)) {
      text = text.slice(0, start) + new_ + text.slice(end)
    }
    if (!this.isModule && text.includes('snpDeep')) { // before the code under test can replace it
      const deep = "const snpDeep = require('node:util').isDeepStrictEqual; "
      text = text.slice(0, this.start) + deep + text.slice(this.start)
    }
    if (this.form === 'same' && !text.startsWith('#!')) text = '\n'.repeat(37) + text
    const ending = (this.isModule ? "\nimport { isDeepStrictEqual as snpDeep } from 'node:util'\n" : '') +
      (this.isCounted ? `\nvar snpFailed\nfunction snpEnd(value) { if (snpFailed) ${FAILS}; return value }\n` : '')
    parse(text + ending)
    return { text: text + ending, names: this.names }
  }
}

const { form, files } = JSON.parse(readFileSync(0, 'utf8'))
console.log(JSON.stringify(Object.fromEntries(Object.entries(files).flatMap(([path, text]) => {
  try {
    const result = new Text(text, form).result()
    return result === undefined ? [] : [[path, result]]
  } catch {
    return [] // TypeScript, or invalid syntax
  }
}))))
