// SPDX-License-Identifier: Apache-2.0
// Report the result of each test of node's runner: a reporter. The runner starts a process for each file of tests, so
// tests and code run in other processes.
import { writeFileSync } from 'node:fs'
import { relative, resolve } from 'node:path'

const tests = Object.create(null)
const errors = []

function outcomeOf(type, data) {
  if (data.skip !== undefined && data.skip !== false) return 'skipped'
  if (data.todo !== undefined && data.todo !== false) return 'xfailed'
  return type === 'test:pass' ? 'passed' : 'failed'
}

// A file without tests, or that could not be loaded, is reported itself.
function add(type, data, above) {
  const path = data.file === undefined ? '' : relative('', data.file)
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

export default async function* report(events) {
  const above = []
  for await (const { type, data } of events) {
    if (type === 'test:start') above[data.nesting] = data.name
    else if (type === 'test:pass' || type === 'test:fail') add(type, data, above)
  }
  writeFileSync(new URL('report.json', import.meta.url), JSON.stringify({ tests, errors, given: {} }), { flag: 'wx' })
  yield ''
}
