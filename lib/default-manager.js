'use strict'

const { LockError } = require('./errors')
const { LockManager } = require('./manager')
const { invalidType } = require('./invalid')
const { Lock } = require('./lock')

// The manager behind the functions of the module: made at its first use, from `configure()` or the environment.

/** @type {any} */
let options

const locks = new LockManager(() => options)

/** @param {any} given */
function configure(given) {
  if (LockManager.isUsed(locks)) {
    throw new LockError(
      'ERR_LOCK_CONFIGURED',
      'configure() must come before the first use of the default manager',
    )
  }
  // Checked now, where the caller can see it.
  LockManager.create(given)
  options = given
}

module.exports = {
  configure,
  createLocks: LockManager.create,
  locks,
  acquire: locks.acquire.bind(locks),
  tryAcquire: locks.tryAcquire.bind(locks),
  withLock: locks.withLock.bind(locks),
  tryWithLock: locks.tryWithLock.bind(locks),
  release: (/** @type {any} */ lock) =>
    lock instanceof Lock ? lock.release() : Promise.reject(invalidType('lock', lock, 'a Lock')),
}
