'use strict'

// The error classes. They are made here and not by the addon, so that they have stacks and belong to the realm of the
// code that catches them.

/** @typedef {import('../index').LockErrorCode} LockErrorCode */

/** Base of all. */
class LockError extends Error {
  /**
   * @param {LockErrorCode} code
   * @param {string} message
   * @param {{ key?: string, cause?: unknown }} [details]
   */
  constructor(code, message, { key, cause } = {}) {
    super(message, cause === undefined ? undefined : { cause })
    this.code = code
    if (key !== undefined) this.key = key
  }
}

class LockTimeoutError extends LockError {
  /**
   * @param {string} key
   * @param {{ waited: number, attempts: number, phase: 'spinning' | 'queued' | 'connecting', holder?: string }} how
   */
  constructor(key, { waited, attempts, phase, holder }) {
    const why = {
      spinning: `it is held by another process${holder ? ` (${holder})` : ''}`,
      queued: 'other callers of this process have it or come first',
      connecting: 'the connection was still being made',
    }
    super('ERR_LOCK_TIMEOUT', `no lock on ${quote(key)} within ${Math.round(waited)} ms: ${why[phase]}`, {
      key,
    })
    this.waited = waited
    this.attempts = attempts
    this.phase = phase
    if (holder !== undefined) this.holder = holder
  }
}

class LockLostError extends LockError {
  /**
   * @param {string} key
   * @param {'expired' | 'taken' | 'unreachable' | 'closed' | 'released'} reason
   */
  constructor(key, reason) {
    const why = {
      expired: 'its time was over before it was renewed',
      taken: 'its key was deleted or taken by somebody else',
      unreachable: 'it could not be renewed until its time was over',
      closed: 'the manager was closed',
      released: 'it was released before',
    }
    super('ERR_LOCK_LOST', `the lock on ${quote(key)} is no longer held: ${why[reason]}`, { key })
    this.reason = reason
  }
}

class LockUnavailableError extends LockError {
  /**
   * @param {string} place
   * @param {{ code?: string, message?: string }} trouble
   * @param {{ key?: string, doing?: string }} [about]
   */
  constructor(place, { code = 'EUNKNOWN', message = 'unknown trouble' }, { key, doing } = {}) {
    const cause = Object.assign(new Error(message), { code })
    const what = key === undefined ? '' : `${doing ?? 'no lock on'} ${quote(key)}: `
    super('ERR_LOCK_UNAVAILABLE', `${what}${place} can't be used: ${message}`, { key, cause })
  }
}

class LockClosedError extends LockError {
  /** @param {string} [key] */
  constructor(key) {
    super('ERR_LOCK_CLOSED', 'the lock manager was closed', { key })
  }
}

class LockDeadlockError extends LockError {
  /** @param {string} key */
  constructor(key) {
    super('ERR_LOCK_DEADLOCK', `waiting for ${quote(key)} would be waiting for oneself`, { key })
  }
}

class LockWrongTypeError extends LockError {
  /**
   * @param {string} key
   * @param {{ code?: string, message?: string }} trouble
   */
  constructor(key, { code, message }) {
    const cause = Object.assign(new Error(message), { code })
    super('ERR_LOCK_WRONG_TYPE', `the key of ${quote(key)} holds data that is no lock`, { key, cause })
  }
}

class LockBindingError extends LockError {
  /**
   * @param {string} message
   * @param {{ platform: string, arch: string, libc?: string, cause?: unknown }} where
   */
  constructor(message, { platform, arch, libc, cause }) {
    super('ERR_NATIVE_BINDING', message, { cause })
    this.platform = platform
    this.arch = arch
    if (libc !== undefined) this.libc = libc
  }
}

for (const type of [
  LockError,
  LockTimeoutError,
  LockLostError,
  LockUnavailableError,
  LockClosedError,
  LockDeadlockError,
  LockWrongTypeError,
  LockBindingError,
]) {
  Object.defineProperty(type.prototype, 'name', { value: type.name, configurable: true, writable: true })
}

const CODES = new Set([
  'ERR_LOCK_TIMEOUT',
  'ERR_LOCK_LOST',
  'ERR_LOCK_UNAVAILABLE',
  'ERR_LOCK_CLOSED',
  'ERR_LOCK_DEADLOCK',
  'ERR_LOCK_WRONG_TYPE',
  'ERR_LOCK_CONFIGURED',
  'ERR_NATIVE_BINDING',
])

/**
 * @param {any} error
 * @param {LockErrorCode} [code]
 */
function isLockError(error, code) {
  // By code and not by class: the error may come from another copy of the package, or another realm.
  if (typeof error !== 'object' || error === null || !CODES.has(error.code)) return false
  return code === undefined || error.code === code
}

/**
 * A key in a message: keys may be long.
 * @param {string} key
 */
function quote(key) {
  return key.length > 200 ? `'${key.slice(0, 200)}…'` : `'${key}'`
}

module.exports = {
  LockError,
  LockTimeoutError,
  LockLostError,
  LockUnavailableError,
  LockClosedError,
  LockDeadlockError,
  LockWrongTypeError,
  LockBindingError,
  isLockError,
}
