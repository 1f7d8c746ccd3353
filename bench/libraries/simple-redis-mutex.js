'use strict'

const { createClient } = require('redis')
const { lock, tryLock } = require('simple-redis-mutex')
const { versionOf } = require('../installed.js')

// Set: timeout (ttl). All else is the default: waits for ever, tries again when a release is published and every 10 s.
async function create({ url, ttl }) {
  const redis = createClient({ url })
  await redis.connect()
  const options = { timeout: ttl }

  async function tryAcquire(key) {
    const [acquired, release] = await tryLock(redis, key, options)
    return acquired ? release : null
  }

  async function hold(key, work) {
    const release = await lock(redis, key, options)
    try {
      return await work(() => undefined)
    } finally {
      await release()
    }
  }

  return {
    acquire: (key) => lock(redis, key, options),
    tryAcquire,
    release: (release) => release(),
    hold,
    close: () => redis.close(),
  }
}

module.exports = {
  name: 'simple-redis-mutex',
  version: `${versionOf('simple-redis-mutex')}, redis ${versionOf('redis')}`,
  renews: null,
  redisKey: (key) => `@simple-redis-mutex:lock-${key}`,
  create,
}
