'use strict'

const { createLocks } = require('../..')

// Set: ttl, and timeout. All else is the default.
async function create({ url, ttl, timeout }) {
  const locks = createLocks({ url, ttl, timeout })
  await locks.ready()

  return {
    acquire: (key, options) => locks.acquire(key, options),
    tryAcquire: (key) => locks.tryAcquire(key),
    release: (lock) => lock.release(),
    hold: (key, work) => locks.withLock(key, (lock) => work(() => !lock.held)),
    commands: () => locks.stats().commands,
    close: () => locks.close(),
  }
}

module.exports = {
  name: 'holdfast',
  version: require('../../package.json').version,
  renews: 'always, off the event loop',
  renewsEvery: (ttl) => ttl / 3,
  redisKey: (key) => `lock:${key}`,
  create,
}
