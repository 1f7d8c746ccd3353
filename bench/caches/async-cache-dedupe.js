'use strict'

const { Redis } = require('ioredis')
const { createCache } = require('async-cache-dedupe')
const { versionOf } = require('../installed.js')

// Set: ttl, which it takes in seconds, and Redis as storage. All else is the default.
async function create({ url, ttl, load }) {
  const redis = new Redis(url)
  await redis.ping()
  const cache = createCache({ ttl: ttl / 1_000, storage: { type: 'redis', options: { client: redis } } })
  cache.define('value', (key) => load(key))

  return { read: (key) => cache.value(key), close: () => redis.quit() }
}

module.exports = { name: 'async-cache-dedupe', version: versionOf('async-cache-dedupe'), create }
