'use strict'

// Errors of caches. See lib/errors.js for those of locks, which caches pass on where it is Redis that fails.

/** @typedef {'ERR_CACHE_LOAD' | 'ERR_CACHE_TIMEOUT' | 'ERR_CACHE_VALUE' | 'ERR_CACHE_DEADLOCK'} CacheErrorCode */

class CacheError extends Error {
  /**
   * @param {CacheErrorCode} code
   * @param {string} key
   * @param {string} message
   * @param {unknown} [cause]
   */
  constructor(code, key, message, cause) {
    super(message, cause === undefined ? undefined : { cause })
    this.code = code
    this.key = key
  }
}

/** The loader failed. */
class CacheLoadError extends CacheError {
  /**
   * @param {string} key
   * @param {unknown} cause
   */
  constructor(key, cause) {
    super('ERR_CACHE_LOAD', key, `${quote(key)} could not be loaded: ${messageOf(cause)}`, cause)
  }
}

/** It took too long. */
class CacheTimeoutError extends CacheError {
  /**
   * @param {string} key
   * @param {number} millis
   * @param {'waiting' | 'loading'} phase
   */
  constructor(key, millis, phase) {
    const what = phase === 'loading' ? 'its loader took longer' : 'the load that was waited for took longer'
    super('ERR_CACHE_TIMEOUT', key, `no value of ${quote(key)} within ${millis} ms: ${what}`)
    this.phase = phase
  }
}

/** A value that can't be kept, or be read again. */
class CacheValueError extends CacheError {
  /**
   * @param {string} key
   * @param {string} why
   * @param {unknown} [cause]
   */
  constructor(key, why, cause) {
    super('ERR_CACHE_VALUE', key, `the value of ${quote(key)} ${why}`, cause)
  }
}

/** A load would wait for itself. */
class CacheDeadlockError extends CacheError {
  /** @param {string} key */
  constructor(key) {
    super(
      'ERR_CACHE_DEADLOCK',
      key,
      `waiting for ${quote(key)} would be waiting for oneself: the call comes from within the loader of that key. ` +
        'locks.detached(fn) starts work that outlives the loader',
    )
  }
}

for (const type of [CacheError, CacheLoadError, CacheTimeoutError, CacheValueError, CacheDeadlockError]) {
  Object.defineProperty(type.prototype, 'name', { value: type.name, configurable: true, writable: true })
}

const LONGEST_MESSAGE = 1_000
const LONGEST_NAME = 100

/**
 * An error as it goes to other processes: its name, message and code.
 * @param {unknown} error
 */
function toWords(error) {
  const message = messageOf(error)
  try {
    const { name, code } = /** @type {any} */ (error ?? {})
    const words = { name: String(name ?? typeof error).slice(0, LONGEST_NAME), message }
    return JSON.stringify(typeof code === 'string' ? { ...words, code: code.slice(0, LONGEST_NAME) } : words)
  } catch {
    // Anything can be thrown, also what can't be looked at.
    return JSON.stringify({ name: 'Error', message })
  }
}

/**
 * What callers get if a load ends by this.
 * @param {string} key
 * @param {unknown} cause
 */
function asLoadError(key, cause) {
  try {
    if (cause instanceof CacheError && cause.key === key) return cause
  } catch {}
  return new CacheLoadError(key, cause)
}

/**
 * What another process said of its error.
 * @param {string} words
 */
function fromWords(words) {
  try {
    const { name, message, code } = JSON.parse(words)
    const error = new Error(String(message))
    Object.defineProperty(error, 'name', { value: String(name), configurable: true, writable: true })
    return code === undefined ? error : Object.assign(error, { code })
  } catch {
    return new Error(words)
  }
}

/** @param {unknown} error */
function messageOf(error) {
  let text = 'unknown error'
  try {
    text = String(/** @type {any} */ (error)?.message ?? error)
  } catch {}
  return text.length > LONGEST_MESSAGE ? `${text.slice(0, LONGEST_MESSAGE)}…` : text
}

/** @param {string} key */
function quote(key) {
  return key.length > 200 ? `'${key.slice(0, 200)}…'` : `'${key}'`
}

module.exports = {
  CacheError,
  CacheLoadError,
  CacheTimeoutError,
  CacheValueError,
  CacheDeadlockError,
  asLoadError,
  toWords,
  fromWords,
}
