'use strict'

// The simulated fleet at length: `npm run simulate [cases]`, 10 000 by default. What fails prints its seed, with which
// PROPTEST_RNG_SEED repeats it.

const { spawnSync } = require('node:child_process')
const path = require('node:path')

const cases = process.argv[2] ?? '10000'
if (!/^\d+$/.test(cases)) {
  console.error(`the number of cases is an integer, not '${cases}'`)
  process.exit(2)
}
const { status } = spawnSync(
  'cargo',
  ['test', '--package', 'holdfast-core', '--release', '--locked', '--test', 'exclusion'],
  {
    cwd: path.join(__dirname, '..'),
    stdio: 'inherit',
    env: { ...process.env, PROPTEST_CASES: cases },
  },
)
process.exit(status ?? 1)
