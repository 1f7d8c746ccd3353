'use strict'
// What a consumer's program does with the package, whichever way it got hold of it.

const assert = require('node:assert/strict')

/** The stores to try: the embedded one, and the server that the caller of this program has started. */
const urls = ['memory:', process.env.CONSUMER_REDIS_URL]

/**
 * @param {typeof import('holdfast')} holdfast
 * @param {string} url
 */
async function exercise({ createLocks, Lock, LockLostError }, url) {
  const manager = createLocks({ url })
  const fence = await manager.withLock('consumer', async (lock) => {
    assert.ok(lock instanceof Lock)
    assert.equal(lock.held, true)
    assert.equal(await manager.tryAcquire('consumer'), null)
    return lock.fencingToken
  })
  const lock = await manager.acquire('consumer', { timeout: 5_000 })
  assert.ok(lock.fencingToken > fence)
  assert.equal(await lock.release(), true)
  assert.equal(lock.held, false)
  assert.throws(() => lock.assertHeld(), LockLostError)
  await manager.close()
}

module.exports = { exercise, urls }
