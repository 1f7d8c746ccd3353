'use strict'

const { LockLostError } = require('./errors')
const { Lock } = require('./lock')
const { inside } = require('./nesting')

// The callbacks of withLock and tryWithLock.

/**
 * @param {Lock} lock
 * @param {import('./options').CallOptions} options
 * @param {(lock: Lock) => unknown} fn
 */
async function run(lock, { ifLost, detectDeadlock }, fn) {
  let result
  try {
    result = await (detectDeadlock ? inside(Lock.claimOf(lock), () => fn(lock)) : fn(lock))
  } catch (error) {
    await lock.release().catch(() => {})
    throw error
  }
  const lost = await giveBack(lock)
  if (lost && ifLost === 'reject') {
    // An error of its own: the one that the signal and the event have is shared, and has no result.
    const error = new LockLostError(lock.keys, lost.reason, lost)
    error.result = result
    throw error
  }
  return result
}

/**
 * @param {Lock} lock
 * @returns {Promise<any>} the loss, if there was one; a release that wasn't confirmed is an event
 */
async function giveBack(lock) {
  try {
    lock.assertHeld()
  } catch (error) {
    // Released by the callback itself: then there is nothing to give back, and nothing was lost.
    if (/** @type {LockLostError} */ (error).reason === 'released') return undefined
    await lock.release().catch(() => {})
    return error
  }
  const mine = await lock.release().catch(() => true)
  return mine ? undefined : new LockLostError(lock.key, 'taken')
}

module.exports = { run }
