'use strict'
// Builds the addon, then runs all tests: those of the Rust crates, those from outside by Jest, and those that
// @verrou/core has for its stores.
//
//   npm test                        everything
//   npm test -- contract -t P6      what Jest makes of these arguments, and nothing else
//
// The last line is the sum, `N passed, N failed`. Fails if anything failed or nothing ran.

const { spawn } = require('node:child_process')
const fs = require('node:fs')
const os = require('node:os')
const path = require('node:path')
const { find } = require('../__test__/support/server-binary.js')

const root = path.join(__dirname, '..')

/** Runs a program in the root, its output shown as it comes. Resolves with the exit code and standard output. */
function run(command, args, env = {}) {
  return new Promise((resolve, reject) => {
    const child = spawn(command, args, {
      cwd: root,
      env: { ...process.env, ...env },
      stdio: ['ignore', 'pipe', 'inherit'],
    })
    let output = ''
    child.stdout.setEncoding('utf8').on('data', (text) => {
      output += text
      process.stdout.write(text)
    })
    child.on('error', reject)
    child.on('close', (code) => resolve({ code, output }))
  })
}

async function build() {
  const { code } = await run(process.execPath, ['scripts/build.js'])
  return { passed: 0, failed: code === 0 ? 0 : 1 }
}

async function rust(env) {
  const { code, output } = await run('cargo', ['test', '--workspace', '--locked', '--no-fail-fast'], env)
  const counts = { passed: 0, failed: 0 }
  for (const [, passed, failed] of output.matchAll(/^test result: \w+\. (\d+) passed; (\d+) failed;/gm)) {
    counts.passed += Number(passed)
    counts.failed += Number(failed)
  }
  // A test binary that didn't compile or crashed has no result line.
  if (code !== 0 && counts.failed === 0) counts.failed = 1
  return counts
}

async function jest(env, args) {
  const folder = fs.mkdtempSync(path.join(os.tmpdir(), 'holdfast-jest-'))
  const file = path.join(folder, 'results.json')
  try {
    const program = require.resolve('jest/bin/jest')
    const { code } = await run(process.execPath, [program, '--json', `--outputFile=${file}`, ...args], env)
    if (!fs.existsSync(file)) return { passed: 0, failed: 1 }
    const results = JSON.parse(fs.readFileSync(file, 'utf8'))
    const counts = {
      passed: results.numPassedTests,
      // A file that couldn't be loaded has no tests to count.
      failed: results.numFailedTests + results.numRuntimeErrorTestSuites,
    }
    if (code !== 0 && counts.failed === 0) counts.failed = 1
    return counts
  } finally {
    fs.rmSync(folder, { recursive: true, force: true })
  }
}

async function verrou(env) {
  const { code, output } = await run(process.execPath, ['__test__/verrou/run.mjs'], env)
  const [, passed, failed] = output.match(/^(\d+) passed, (\d+) failed\n$/m) ?? [null, 0, 1]
  const counts = { passed: Number(passed), failed: Number(failed) }
  if (code !== 0 && counts.failed === 0) counts.failed = 1
  return counts
}

async function main() {
  const args = process.argv.slice(2)
  const env = { HOLDFAST_TEST_REDIS_SERVER: await find() }
  const suites = [
    ['build', build],
    ...(args.length > 0 ? [] : [['Rust', () => rust(env)]]),
    ['Jest', () => jest(env, args)],
    ...(args.length > 0 ? [] : [['verrou', () => verrou(env)]]),
  ]
  const total = { passed: 0, failed: 0 }
  const lines = []
  for (const [name, suite] of suites) {
    const start = Date.now()
    const { passed, failed } = await suite()
    total.passed += passed
    total.failed += failed
    const seconds = Math.round((Date.now() - start) / 1000)
    if (name !== 'build') lines.push(`${name}: ${passed} passed, ${failed} failed (${seconds} s)`)
    if (name === 'build' && failed > 0) break // the rest would test the binary of before
  }
  console.log(['', ...lines, `${total.passed} passed, ${total.failed} failed`].join('\n'))
  if (total.failed > 0 || total.passed === 0) process.exitCode = 1
}

main().catch((error) => {
  console.error(error)
  console.log('0 passed, 1 failed')
  process.exitCode = 1
})
