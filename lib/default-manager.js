'use strict'

const { LockError } = require('./errors')
const { LockManager } = require('./manager')
const { invalidType } = require('./invalid')
const { Lock } = require('./lock')

// The manager behind the functions of the module: made at its first use, from `configure()` or the environment.

/** @type {any} */
let options
/** @type {LockManager | undefined} */
let made

function manager() {
  made ??= new LockManager(options)
  return made
}

/** @param {any} given */
function configure(given) {
  if (made) {
    throw new LockError('ERR_LOCK_CONFIGURED', 'configure() must come before the first use of the default manager')
  }
  // Checked now, where the caller can see it.
  new LockManager(given)
  options = given
}

/** @param {any} given */
function createLocks(given) {
  return new LockManager(given)
}

/** The default manager, made when it is first touched. */
const locks = /** @type {any} */ (
  new Proxy(/** @type {any} */ (Object.create(LockManager.prototype)), {
    get(_target, name) {
      const real = /** @type {any} */ (manager())
      const value = real[name]
      return typeof value === 'function' ? value.bind(real) : value
    },
  })
)

module.exports = {
  configure,
  createLocks,
  locks,
  acquire: (/** @type {any} */ key, /** @type {any} */ given) => lazily((real) => real.acquire(key, given)),
  tryAcquire: (/** @type {any} */ key, /** @type {any} */ given) => lazily((real) => real.tryAcquire(key, given)),
  withLock: (/** @type {any} */ key, /** @type {any} */ given, /** @type {any} */ fn) =>
    lazily((real) => real.withLock(key, given, fn)),
  tryWithLock: (/** @type {any} */ key, /** @type {any} */ given, /** @type {any} */ fn) =>
    lazily((real) => real.tryWithLock(key, given, fn)),
  release: (/** @type {any} */ lock) =>
    lock instanceof Lock ? lock.release() : Promise.reject(invalidType('lock', lock, 'a Lock')),
}

/**
 * Environment variables are read at the first call; what is wrong with them rejects it.
 * @param {(real: LockManager) => Promise<any>} call
 */
async function lazily(call) {
  return call(manager())
}
