'use strict'

// Loads the package both ways and compares.

const required = require('../..')
const { tell } = require('../support/parent')

async function main() {
  const imported = await import('../../index.mjs')
  const names = Object.keys(required).sort()
  const different = names.filter((name) => imported[name] !== required[name])
  const missing = Object.keys(imported).filter((name) => name !== 'default' && !names.includes(name))
  const locks = imported.createLocks({ url: 'memory:' })
  const lock = await locks.acquire('k')
  const error = await required
    .createLocks({ url: 'memory:' })
    .acquire('k', { timeout: 0 })
    .catch((reason) => reason)
  await tell('compared', {
    names,
    different,
    missing,
    isLock: lock instanceof required.Lock,
    isLockError: error instanceof imported.LockTimeoutError,
  })
}

main()
