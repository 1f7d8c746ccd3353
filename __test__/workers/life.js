'use strict'

// Short lives of a process with locks: the scenario of settings.scenario. No message is listened to, so that nothing
// but Holdfast decides how long the process lives.

const { createLocks } = require('../..')
const { settings, tell } = require('../support/parent')

const { url, key } = settings
// A lease that outlives the test by far: a key that is gone was given back.
const ttl = settings.ttl ?? 600_000
const locks = createLocks({ url, ttl, commandTimeout: 300 })

const scenarios = {
  async 'waits for a lock'() {
    await tell('waiting')
    await locks.acquire(key, { timeout: 60_000 })
    await tell('got')
  },

  async 'waits for an answer'() {
    const lock = await locks.acquire(key)
    await tell('held')
    // The test makes sure that no answer comes.
    await new Promise((resolve) => setTimeout(resolve, 300))
    const release = await lock.release().catch((error) => error.code)
    // Of a manager that was never connected, so that nothing is known yet.
    const fresh = createLocks({ url, commandTimeout: 200 })
    const ready = await fresh.ready({ timeout: 300 }).catch((error) => error.code)
    await tell('answers', { release, ready })
  },

  async 'holds a lock and has nothing more to do'() {
    const lock = await locks.acquire(key)
    lock.signal.addEventListener('abort', () => {})
    locks.on('lost', () => {})
    await tell('held')
  },

  async 'is connected and idle'() {
    await locks.withLock(key, () => {})
    await tell('idle')
  },

  async 'calls process.exit() while it holds locks'() {
    await Promise.all(Array.from({ length: 50 }, (_, i) => locks.acquire(`${key}:${i}`)))
    await locks.acquire(key)
    await tell('held')
    process.exit(3)
  },

  async 'calls process.exit() while it holds locks of every kind'() {
    await locks.acquire([`${key}:a`, `${key}:b`])
    await locks.acquire(`${key}:c`, { owner: 'somebody' })
    await locks.acquire([`${key}:d`, `${key}:e`], { owner: 'somebody' })
    await locks.adopt(await (await locks.acquire(`${key}:f`)).detach())
    await tell('held')
    process.exit(3)
  },

  async 'calls process.exit() within withLock'() {
    await locks.withLock(key, async () => {
      await tell('held')
      process.exit(3)
    })
  },

  async 'calls process.exit() while it waits, and while a lock is on its way'() {
    locks.acquire(settings.taken)
    await tell('held')
    locks.acquire(key)
    process.exit(3)
  },

  async 'throws what nobody catches'() {
    await locks.acquire(key)
    await tell('held')
    setTimeout(() => {
      throw new Error('nobody catches this')
    })
  },

  async 'rejects what nobody handles'() {
    await locks.acquire(key)
    await tell('held')
    Promise.reject(new Error('nobody handles this'))
  },

  async 'is killed while it holds a lock'() {
    await locks.acquire(key)
    await tell('held')
    setInterval(() => {}, 1_000)
  },

  async 'calls process.exit() when it is asked to end'() {
    process.once('SIGTERM', () => process.exit(0))
    await locks.acquire(key)
    await tell('held')
    setInterval(() => {}, 1_000)
  },

  async 'closes when it is asked to end'() {
    process.once('SIGTERM', () => locks.close().then(() => process.exit(0)))
    await locks.acquire(key)
    await tell('held')
    setInterval(() => {}, 1_000)
  },
}

scenarios[settings.scenario]()
