'use strict'

const { Redis } = require('ioredis')
const { Mutex } = require('redis-semaphore')
const { versionOf } = require('../installed.js')

// Set: lockTimeout (ttl) and acquireTimeout. A Mutex object is one owner of one key, so every acquisition makes one.
// All else is the default: retry every 10 ms, refresh at 0.8 × ttl.
async function create({ url, ttl, timeout }) {
  const redis = new Redis(url)
  const waiting = { lockTimeout: ttl, acquireTimeout: timeout }
  const once = { lockTimeout: ttl, acquireTimeout: timeout, acquireAttemptsLimit: 1 }

  async function acquire(key) {
    const mutex = new Mutex(redis, key, waiting)
    await mutex.acquire()
    return mutex
  }

  async function tryAcquire(key) {
    const mutex = new Mutex(redis, key, once)
    return (await mutex.tryAcquire()) ? mutex : null
  }

  async function hold(key, work) {
    let lost = false
    // The default of onLockLost throws where nobody can catch, which ends the process.
    const onLockLost = () => {
      lost = true
    }
    const mutex = new Mutex(redis, key, { ...waiting, onLockLost })
    await mutex.acquire()
    try {
      return await work(() => lost || !mutex.isAcquired)
    } finally {
      await mutex.release()
    }
  }

  return { acquire, tryAcquire, release: (mutex) => mutex.release(), hold, close: () => redis.quit() }
}

module.exports = {
  name: 'redis-semaphore',
  version: versionOf('redis-semaphore'),
  renews: 'refresh at 0.8 × ttl',
  renewsEvery: (ttl) => ttl * 0.8,
  redisKey: (key) => `mutex:${key}`,
  create,
}
