'use strict'

const { Redis } = require('ioredis')
const { randomUUID } = require('node:crypto')
const { setTimeout: sleep } = require('node:timers/promises')
const { versionOf } = require('../installed.js')

const RETRY_EVERY = 10

// The lock that people write by hand: SET NX PX with a random token, and a script that deletes the key only if it still
// holds that token. The script is loaded once: the server outlives the run. ioredis with its defaults.
const COMPARE_AND_DELETE = `
if redis.call('GET', KEYS[1]) == ARGV[1] then
  return redis.call('DEL', KEYS[1])
end
return 0`

async function create({ url, ttl, timeout }) {
  const redis = new Redis(url)
  const compareAndDelete = await redis.script('LOAD', COMPARE_AND_DELETE)

  async function tryAcquire(key) {
    const token = randomUUID()
    const reply = await redis.set(key, token, 'PX', ttl, 'NX')
    return reply === 'OK' ? { key, token } : null
  }

  async function acquire(key) {
    const token = randomUUID()
    const giveUp = performance.now() + timeout
    while ((await redis.set(key, token, 'PX', ttl, 'NX')) !== 'OK') {
      if (performance.now() >= giveUp) throw new Error(`'${key}' stayed taken for ${timeout} ms`)
      await sleep(RETRY_EVERY)
    }
    return { key, token }
  }

  function release({ key, token }) {
    return redis.evalsha(compareAndDelete, 1, key, token)
  }

  async function hold(key, work) {
    const handle = await acquire(key)
    try {
      return await work(() => undefined)
    } finally {
      await release(handle)
    }
  }

  return { acquire, tryAcquire, release, hold, close: () => redis.quit() }
}

module.exports = {
  name: 'hand-written',
  version: `ioredis ${versionOf('ioredis')}`,
  renews: null,
  redisKey: (key) => key,
  create,
}
