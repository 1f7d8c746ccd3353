'use strict'

const { Redis } = require('ioredis')
const { versionOf } = require('../installed.js')

// Set: ttl. All else is the default: waits for ever, retry every 250 ms.
async function create({ url, ttl }) {
  const { LockFactory } = await import('@verrou/core')
  const { redisStore } = await import('@verrou/core/drivers/redis')
  const redis = new Redis(url)
  const factory = new LockFactory(redisStore({ connection: redis }).factory())

  async function acquire(key) {
    const lock = factory.createLock(key, ttl)
    if (!(await lock.acquire())) throw new Error(`'${key}' stayed taken`)
    return lock
  }

  async function tryAcquire(key) {
    const lock = factory.createLock(key, ttl)
    return (await lock.acquireImmediately()) ? lock : null
  }

  async function hold(key, work) {
    const lock = await acquire(key)
    try {
      return await work(() => lock.isExpired())
    } finally {
      await lock.release()
    }
  }

  return { acquire, tryAcquire, release: (lock) => lock.release(), hold, close: () => redis.quit() }
}

module.exports = {
  name: 'verrou',
  version: versionOf('@verrou/core'),
  renews: null,
  redisKey: (key) => key,
  create,
}
