'use strict'

const { Cache } = require('./lib/cache/cache')
const cacheErrors = require('./lib/cache/errors')
const defaults = require('./lib/default-manager')
const errors = require('./lib/errors')
const { Lock } = require('./lib/lock')
const { LockManager } = require('./lib/manager')

// Written out, so that `import { withLock } from 'holdfast'` finds the names.
module.exports = {
  withLock: defaults.withLock,
  tryWithLock: defaults.tryWithLock,
  acquire: defaults.acquire,
  tryAcquire: defaults.tryAcquire,
  release: defaults.release,
  locks: defaults.locks,
  configure: defaults.configure,
  createLocks: defaults.createLocks,
  Lock,
  LockManager,
  LockError: errors.LockError,
  LockTimeoutError: errors.LockTimeoutError,
  LockLostError: errors.LockLostError,
  LockUnavailableError: errors.LockUnavailableError,
  LockClosedError: errors.LockClosedError,
  LockDeadlockError: errors.LockDeadlockError,
  LockWrongTypeError: errors.LockWrongTypeError,
  LockBindingError: errors.LockBindingError,
  isLockError: errors.isLockError,
  Cache,
  CacheError: cacheErrors.CacheError,
  CacheLoadError: cacheErrors.CacheLoadError,
  CacheTimeoutError: cacheErrors.CacheTimeoutError,
  CacheValueError: cacheErrors.CacheValueError,
  CacheDeadlockError: cacheErrors.CacheDeadlockError,
}
