// Runs the suite, and prints as its last line what came of it: `N passed, N failed`. Fails if a test failed or none ran.
//
//   npm run test:verrou

import { fileURLToPath } from 'node:url'
import { assert } from '@japa/assert'
import { configure, run } from '@japa/runner'
import { spec } from '@japa/runner/reporters'

let summary

const keepSummary = {
  name: 'keep summary',
  handler(runner, emitter) {
    emitter.on('runner:end', () => {
      summary = runner.getSummary().aggregates
    })
  },
}

configure({
  cwd: fileURLToPath(new URL('.', import.meta.url)),
  files: ['suite.mjs'],
  plugins: [assert()],
  reporters: { activated: ['spec', keepSummary.name], list: [spec(), keepSummary] },
  timeout: 30_000,
})
await run()

// Without a summary the runner has ended early, and a group that couldn't be set up is no failed test of its own.
const { passed = 0, failed = 0, total = 0 } = summary ?? {}
const notPassed = Math.max(failed, total - passed, process.exitCode || passed === 0 ? 1 : 0)
console.log(`\n${passed} passed, ${notPassed} failed`)
if (notPassed > 0) process.exitCode = 1
