'use strict'

// The error classes. They are made here and not by the addon, so that they have stacks and belong to the realm of the
// code that catches them.

/** @typedef {import('../index').LockErrorCode} LockErrorCode */
/** @typedef {string | readonly string[]} Keys */
/** @typedef {'expired' | 'taken' | 'unreachable' | 'stalled' | 'maxHold' | 'closed'} Loss */

/** Why a lock can be lost, in the order in which the addon counts them. @type {Loss[]} */
const LOSSES = ['expired', 'taken', 'unreachable', 'stalled', 'maxHold', 'closed']

/** Base of all. */
class LockError extends Error {
  /**
   * @param {LockErrorCode} code
   * @param {string} message
   * @param {{ wanted?: Keys, cause?: unknown }} [details]
   */
  constructor(code, message, { wanted, cause } = {}) {
    super(message, cause === undefined ? undefined : { cause })
    this.code = code
    if (wanted !== undefined) this.key = typeof wanted === 'string' ? wanted : wanted[0]
  }
}

class LockTimeoutError extends LockError {
  /**
   * @param {Keys} wanted
   * @param {{ waited: number, attempts: number, phase: 'spinning' | 'queued' | 'connecting', holder?: string }} how
   */
  constructor(wanted, { waited, attempts, phase, holder }) {
    const why = {
      spinning: `it is held by another process${holder ? ` (${holder})` : ''}`,
      queued: 'other callers of this process have it or come first',
      connecting: 'the connection was still being made',
    }
    super('ERR_LOCK_TIMEOUT', `no lock on ${quote(wanted)} within ${Math.round(waited)} ms: ${why[phase]}`, {
      wanted,
    })
    this.waited = waited
    this.attempts = attempts
    this.phase = phase
    if (holder !== undefined) this.holder = holder
  }
}

class LockLostError extends LockError {
  /**
   * @param {Keys} wanted
   * @param {Loss | 'released'} reason
   * @param {LockLostError} [cause]
   */
  constructor(wanted, reason, cause) {
    const why = {
      expired: 'its time was over before it was renewed',
      taken: 'its key was deleted or taken by somebody else',
      unreachable: 'it could not be renewed until its time was over',
      stalled: 'its event loop was silent for longer than `maxStall`, and it was not renewed',
      maxHold: 'it was held for as long as `maxHold` allows',
      closed: 'the manager was closed',
      released: 'it was released before',
    }
    super('ERR_LOCK_LOST', `the lock on ${quote(wanted)} is no longer held: ${why[reason]}`, {
      wanted,
      cause,
    })
    this.reason = reason
    /** @type {unknown} */
    this.result = undefined
  }
}

class LockUnavailableError extends LockError {
  /**
   * @param {string} place
   * @param {{ code?: string, message?: string }} trouble
   * @param {{ wanted?: Keys, doing?: string, what?: string }} [about]
   */
  constructor(
    place,
    { code = 'EUNKNOWN', message = 'unknown trouble' },
    { wanted, doing, what: trouble = "can't be used" } = {},
  ) {
    const cause = Object.assign(new Error(message), { code })
    const what = wanted === undefined ? '' : `${doing ?? 'no lock on'} ${quote(wanted)}: `
    super('ERR_LOCK_UNAVAILABLE', `${what}${place} ${trouble}: ${message}`, { wanted, cause })
  }
}

class LockClosedError extends LockError {
  /** @param {Keys} [wanted] */
  constructor(wanted) {
    super('ERR_LOCK_CLOSED', 'the lock manager was closed', { wanted })
  }
}

class LockDeadlockError extends LockError {
  /**
   * @param {Keys} wanted
   * @param {boolean} [reentrant] that was asked for, but the caller holds some of the keys only
   */
  constructor(wanted, reentrant = false) {
    const sharing = reentrant
      ? 'It holds some of these keys only, and reentrant calls share what is held'
      : '`reentrant: true` shares the lock'
    super(
      'ERR_LOCK_DEADLOCK',
      `waiting for ${quote(wanted)} would be waiting for oneself: the call comes from within a withLock callback that holds it. ` +
        `${sharing}; locks.detached(fn) starts work that outlives the callback`,
      { wanted },
    )
  }
}

class LockWrongTypeError extends LockError {
  /**
   * @param {Keys} wanted
   * @param {{ code?: string, message?: string }} trouble
   */
  constructor(wanted, { code, message }) {
    const cause = Object.assign(new Error(message), { code })
    const what = typeof wanted === 'string' ? 'the key of' : 'a key of'
    super('ERR_LOCK_WRONG_TYPE', `${what} ${quote(wanted)} holds data that is no lock`, { wanted, cause })
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

/** How many keys a message names. */
const NAMED = 3

/**
 * Keys in a message: there may be many, and long ones.
 * @param {Keys} wanted
 */
function quote(wanted) {
  const keys = typeof wanted === 'string' ? [wanted] : wanted
  const named = keys.slice(0, NAMED).map((key) => (key.length > 200 ? `'${key.slice(0, 200)}…'` : `'${key}'`))
  if (keys.length > NAMED) named.push(`${keys.length - NAMED} more`)
  return named.join(', ')
}

module.exports = {
  LOSSES,
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
