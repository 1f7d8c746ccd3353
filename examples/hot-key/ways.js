'use strict'

const { createLocks } = require('holdfast')
const { Redis } = require('ioredis')

// Three ways to have an answer that is expensive: from Redis, or else from the database and then in Redis for a minute.

const PREFIX = 'hot-key:'
const TTL = 60_000

/**
 * Each way has `get(key, load)`, and `put(key, value, ms)` to begin with an entry that is about to expire. Its entries are
 * at `prefix` + key.
 * @param {string} url
 */
function openWays(url) {
  const redis = new Redis(url)
  // Each command that fails says so itself.
  redis.on('error', () => {})
  const locks = createLocks({ url, keyPrefix: `${PREFIX}lock:` })
  const ways = {
    'no lock': byHand(redis, `${PREFIX}no-lock:`),
    'single flight': singleFlight(byHand(redis, `${PREFIX}single-flight:`)),
    holdfast: withHoldfast(locks, `${PREFIX}holdfast:`),
  }
  return {
    ways,
    async isThere(way, key) {
      return (await redis.exists(way.prefix + key)) === 1
    },
    async close() {
      await locks.close()
      await redis.quit().catch(() => redis.disconnect())
    },
  }
}

/** What everybody writes first. */
function byHand(redis, prefix) {
  const put = (key, value, ms) => redis.set(prefix + key, JSON.stringify(value), 'PX', ms)
  return {
    prefix,
    put,
    async get(key, load) {
      const cached = await redis.get(prefix + key)
      if (cached !== null) return JSON.parse(cached)
      const value = await load()
      await put(key, value, TTL)
      return value
    },
  }
}

/** The same, but requests of one process that come while one is under way share its answer. */
function singleFlight(way) {
  const flights = new Map()
  return {
    ...way,
    get(key, load) {
      const known = flights.get(key)
      if (known) return known
      const flight = way.get(key, load).finally(() => flights.delete(key))
      flights.set(key, flight)
      return flight
    },
  }
}

/** The same for requests of all processes. */
function withHoldfast(locks, prefix) {
  const cache = locks.cache({ prefix, ttl: TTL })
  return {
    prefix,
    put: (key, value, ms) => cache.set(key, value, { ttl: ms, ttlJitter: 0 }),
    get: (key, load) => cache.getOrSet(key, load),
  }
}

module.exports = { PREFIX, openWays }
