'use strict'

const assert = require('node:assert/strict')
const { LibraryProcess } = require('./library-process.js')

const TTL = 10_000
/** A library may let the key live a little longer than the ttl it counts with itself. */
const GRACE = 1.05

/**
 * Before anything is timed: does the library lock at all, on this server? Two processes, one key. A lock that excludes
 * nobody would win every benchmark.
 */
async function prove(library, server) {
  const options = { url: server.url, ttl: TTL, timeout: TTL }
  const [one, other] = await Promise.all([
    LibraryProcess.open(library.name, options),
    LibraryProcess.open(library.name, options),
  ])
  try {
    const key = `bench:${library.name}:proof`
    const stored = library.redisKey(key)

    await one.order('acquire', { key })
    const pttl = await server.control.pttl(stored)
    assert.ok(
      pttl > 0 && pttl <= TTL * GRACE,
      `${stored} should live for ${TTL} ms or less; its PTTL is ${pttl}`,
    )
    assert.equal(await one.order('tryAcquire', { key }), false, 'its own process got the lock a second time')
    assert.equal(await other.order('tryAcquire', { key }), false, 'another process got the lock, too')

    assert.equal(await one.order('release', { key }), true, 'release says that the lock was lost')
    assert.equal(await server.control.exists(stored), 0, `${stored} is still there after the release`)

    assert.equal(await other.order('tryAcquire', { key }), true, 'another process did not get the free lock')
    await other.order('release', { key })
    await Promise.all([one.close(), other.close()])
  } catch (error) {
    one.kill()
    other.kill()
    throw error
  }
}

module.exports = { prove }
