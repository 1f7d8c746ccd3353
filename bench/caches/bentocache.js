'use strict'

const { Redis } = require('ioredis')
const { versionOf } = require('../installed.js')

// Set: ttl, and Redis as the only layer. All else is the default.
async function create({ url, ttl, load }) {
  const { BentoCache, bentostore } = await import('bentocache')
  const { redisDriver } = await import('bentocache/drivers/redis')
  const redis = new Redis(url)
  await redis.ping()
  const store = bentostore().useL2Layer(redisDriver({ connection: redis }))
  const cache = new BentoCache({ default: 'redis', ttl, stores: { redis: store } })

  return {
    read: (key) => cache.getOrSet({ key, factory: () => load(key) }),
    close: () => cache.disconnectAll(),
  }
}

module.exports = { name: 'bentocache', version: versionOf('bentocache'), create }
