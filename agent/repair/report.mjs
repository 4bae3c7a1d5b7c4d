// SPDX-License-Identifier: Apache-2.0
// Report the result of each test of node's runner: a reporter. The runner starts a process for each file of tests, so
// tests and code run in other processes, where watch.cjs reports what changed lines reach.
import { readFileSync, readdirSync, writeFileSync } from 'node:fs'
import { relative, resolve } from 'node:path'

const tests = Object.create(null)
const errors = []
const files = new Set()

function outcomeOf(type, data) {
  if (data.skip !== undefined && data.skip !== false) return 'skipped'
  if (data.todo !== undefined && data.todo !== false) return 'xfailed'
  return type === 'test:pass' ? 'passed' : 'failed'
}

// A file without tests, or that could not be loaded, is reported itself.
function add(type, data, above) {
  const path = data.file === undefined ? '' : relative('', data.file)
  files.add(resolve(path))
  const isFile = data.nesting === 0 && data.file !== undefined && resolve(data.name) === resolve(data.file)
  const name = isFile ? path : `${path}::${[...above.slice(0, data.nesting), data.name].join(' > ')}`
  if (isFile && type === 'test:fail') {
    errors.push(path)
    return
  }
  let id = name
  for (let n = 2; id in tests; n++) id = `${name} (${n})`
  tests[id] = outcomeOf(type, data)
}

// What changed lines reached. A process that they ended reported no tests.
function reachedRows() {
  const names = readdirSync(new URL('.', import.meta.url)).filter((name) => name.startsWith('reached-'))
  const texts = names.map((name) => readFileSync(new URL(name, import.meta.url), 'utf8'))
  const rows = [...new Set(texts.join('').split('\n'))].filter((line) => line !== '').map((line) => JSON.parse(line))
  const ended = rows.map((row) => row.ended)
  const others = [...files].filter((path) => !ended.includes(path) && !rows.some((row) => row.ends))
    .map((path) => ({ path: relative('', path), line: 0, what: 'ended before changes of its process were compared' }))
  return [...rows.filter((row) => row.ended === undefined), ...others]
}

export default async function* report(events) {
  const above = []
  for await (const { type, data } of events) {
    if (type === 'test:start') above[data.nesting] = data.name
    else if (type === 'test:pass' || type === 'test:fail') add(type, data, above)
  }
  const reached = reachedRows()
  const found = { tests: reached.some((row) => row.ends) ? {} : tests, errors, given: {}, reached }
  writeFileSync(new URL('report.json', import.meta.url), JSON.stringify(found), { flag: 'wx' })
  yield ''
}
