'use strict'

// What depends on the server's version, against others than the one that `npm test` finds: `npm run test:servers`. A server
// that can't be had is left out, with a message. The last line is the sum, `N passed, N failed`.

const { spawnSync } = require('node:child_process')
const path = require('node:path')
const { OTHERS, copyOf, reasonOf } = require('../__test__/support/server-binary.js')

const root = path.join(__dirname, '..')
const CARGO = ['scripts', 'shared_script', 'queueing', 'stores', 'values']
const JEST = ['contract', 'handoff.test', 'lease.test', 'several-keys', 'owner', 'cache.test']

function run(command, args, server) {
  const { stdout, stderr, status } = spawnSync(command, args, {
    cwd: root,
    encoding: 'utf8',
    maxBuffer: 64e6,
    env: { ...process.env, HOLDFAST_TEST_REDIS_SERVER: server },
  })
  return { text: `${stdout}${stderr}`, status }
}

/** Passed and failed by all lines of a report that say so. */
function sum(text, pattern) {
  const numbers = [...text.matchAll(pattern)].map(([, one, other]) => [Number(one ?? 0), Number(other ?? 0)])
  return numbers.reduce((all, [passed, failed]) => [all[0] + passed, all[1] + failed], [0, 0])
}

function report({ text, status }, [passed, failed]) {
  if (status === 0) return [passed, failed]
  console.log(text)
  return [passed, Math.max(failed, 1)]
}

async function main() {
  let total = [0, 0]
  for (const [name, wheel] of Object.entries(OTHERS)) {
    let server
    try {
      server = await copyOf(wheel)
    } catch (error) {
      console.log(`${name} is left out: ${reasonOf(error)}`)
      continue
    }
    const cargo = run(
      'cargo',
      [
        'test',
        '--package',
        'holdfast-core',
        '--locked',
        '--no-fail-fast',
        ...CARGO.flatMap((each) => ['--test', each]),
      ],
      server,
    )
    const jest = run(process.execPath, ['node_modules/jest/bin/jest.js', ...JEST], server)
    const failedAndPassed = sum(jest.text, /^Tests:(?: +(\d+) failed,)?.*? (\d+) passed/gm)
    const parts = [
      report(cargo, sum(cargo.text, /^test result: .*? (\d+) passed; (\d+) failed/gm)),
      report(jest, [failedAndPassed[1], failedAndPassed[0]]),
    ]
    const [passed, failed] = parts.reduce((all, part) => [all[0] + part[0], all[1] + part[1]])
    console.log(`${name}: ${passed} passed, ${failed} failed`)
    total = [total[0] + passed, total[1] + failed]
  }
  console.log(`${total[0]} passed, ${total[1]} failed`)
  process.exitCode = total[1] === 0 ? 0 : 1
}

main()
