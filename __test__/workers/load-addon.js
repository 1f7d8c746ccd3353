'use strict'

// Loads the package with whatever HOLDFAST_NATIVE_PATH names, and tells how each first call fares.

const { tell } = require('../support/parent')

const describe = (error) => ({
  name: error.name,
  code: error.code,
  message: error.message,
  platform: error.platform,
  arch: error.arch,
  cause: error.cause?.message,
})

async function main() {
  const holdfast = require('../..')
  const { LockBindingError, createLocks } = holdfast
  const outcomes = []
  const calls = [
    () => createLocks({ url: 'memory:' }).acquire('k'),
    () => createLocks({ url: 'redis://127.0.0.1:1' }).tryAcquire('k'),
    () => createLocks({ url: 'memory:' }).ready(),
    () => createLocks({ url: 'memory:' }).withLock('k', () => {}),
  ]
  for (const call of calls) {
    const error = await call().catch((reason) => reason)
    outcomes.push({ ...describe(error), isBindingError: error instanceof LockBindingError })
  }
  await createLocks({ url: 'memory:' }).close()
  await tell('outcomes', { outcomes })
}

main()
