'use strict'

// Uses the functions that go by the default manager, step by step, and reports what each step gave.

const holdfast = require('../..')
const { RespClient } = require('../support/resp')
const { settings, tell } = require('../support/parent')

const steps = {
  configure: () => holdfast.configure({ url: settings.url }),

  // `during` is the type of the key in the expected server while the lock is held.
  async withLock() {
    let during
    const result = await holdfast.withLock('default', async () => {
      const client = new RespClient({ port: Number(new URL(settings.url).port) })
      during = await client.command('TYPE', 'lock:default')
      client.close()
      return 'value'
    })
    return { result, during }
  },

  async everything() {
    const { acquire, tryAcquire, release, withLock, tryWithLock, locks } = holdfast
    const lock = await acquire('default')
    const busy = await tryAcquire('default')
    const skipped = await tryWithLock('default', () => 1)
    const acquired = lock.held
    const released = await release(lock)
    const result = await withLock('default', { ttl: 5_000 }, () => 1)
    return {
      acquired,
      busy,
      released,
      result,
      skipped: { acquired: skipped.acquired },
      same: locks.stats().acquired === 2,
    }
  },
}

async function main() {
  const results = []
  for (const name of settings.steps) {
    try {
      results.push(await steps[name]())
    } catch (error) {
      results.push({ name: error.name, code: error.code, message: error.message })
    }
  }
  await tell('results', { results })
}

main()
