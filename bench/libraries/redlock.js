'use strict'

const { Redis } = require('ioredis')
const { default: Redlock, ResourceLockedError } = require('redlock')
const { versionOf } = require('../installed.js')

const RETRY_DELAY = 200

// Set: retryCount so that it waits for about `timeout` (the default gives up after about 2 s). All else is the default:
// retry every 200 ± 100 ms.
async function create({ url, ttl, timeout }) {
  const redis = new Redis(url)
  const redlock = new Redlock([redis], { retryCount: Math.ceil(timeout / RETRY_DELAY) })
  const once = { retryCount: 0 }

  async function tryAcquire(key) {
    try {
      return await redlock.acquire([key], ttl, once)
    } catch (error) {
      if (await onlyTaken(error)) return null
      throw error
    }
  }

  return {
    acquire: (key) => redlock.acquire([key], ttl),
    tryAcquire,
    release: (lock) => lock.release(),
    hold: (key, work) => redlock.using([key], ttl, (signal) => work(() => signal.aborted)),
    close: () => redis.quit(),
  }
}

// `taken` and `the server can't be used` are the same error; the reasons stand in its votes.
async function onlyTaken(error) {
  if (!error.attempts) return false
  for (const attempt of error.attempts) {
    const { votesAgainst } = await attempt
    for (const reason of votesAgainst.values()) {
      if (!(reason instanceof ResourceLockedError)) return false
    }
  }
  return true
}

module.exports = {
  name: 'redlock',
  version: versionOf('redlock'),
  renews: 'using(), 500 ms before the end',
  renewsEvery: (ttl) => ttl - 500,
  redisKey: (key) => key,
  create,
}
