'use strict'

const { Redis } = require('ioredis')
const { createLock, IoredisAdapter } = require('redlock-universal')
const { versionOf } = require('../installed.js')

const RETRY_DELAY = 100

// Set: ttl, and retryAttempts so that it waits for `timeout` (the default gives up after 0.3 s). All else is the
// default: retry every 100 ms. A lock object belongs to a key and may be used by many callers at once. Each new one
// sends a PING first, so they are kept: with an object per acquisition a pair would cost three commands.
async function create({ url, ttl, timeout }) {
  const redis = new Redis(url)
  const adapter = new IoredisAdapter(redis)
  const retryAttempts = Math.ceil(timeout / RETRY_DELAY)
  const locks = new Map()

  function lockOf(key) {
    let lock = locks.get(key)
    if (!lock) {
      lock = createLock({ adapter, key, ttl, retryAttempts })
      locks.set(key, lock)
    }
    return lock
  }

  async function tryAcquire(key) {
    try {
      return await createLock({ adapter, key, ttl, retryAttempts: 0 }).acquire()
    } catch (error) {
      if (error.cause?.message.endsWith('is already held')) return null
      throw error
    }
  }

  return {
    acquire: (key) => lockOf(key).acquire(),
    tryAcquire,
    release: (handle) => lockOf(handle.key).release(handle),
    hold: (key, work) => lockOf(key).using((signal) => work(() => signal.aborted)),
    close: () => redis.quit(),
  }
}

module.exports = {
  name: 'redlock-universal',
  version: versionOf('redlock-universal'),
  renews: 'using(), at 0.8 × ttl',
  renewsEvery: (ttl) => ttl * 0.8,
  redisKey: (key) => key,
  create,
}
