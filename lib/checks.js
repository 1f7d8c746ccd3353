'use strict'

const { invalidType, invalidValue, outOfRange } = require('./invalid')

// Single options: their types and ranges.

const LARGEST_TTL = 2_147_483_647
const LONGEST_KEY = 65_536

/** Options that are planned and would be missed if they were ignored. */
const LATER = new Set(['cluster', 'quorum', 'replicas', 'sentinel'])
/** What may be asked of createLocks() alone. */
const OF_MANAGERS = new Set([
  'url',
  'username',
  'password',
  'db',
  'tls',
  'keyPrefix',
  'commandTimeout',
  'detectDeadlock',
  'captureStacks',
])

/**
 * @param {readonly string[]} allowed
 * @param {any} given
 * @param {string} what
 * @param {string} call
 */
function checkNames(allowed, given, what, call) {
  if (typeof given !== 'object' || given === null || Array.isArray(given)) {
    throw invalidType(what, given, `an object of ${call}'s options`)
  }
  for (const name in given) {
    if (allowed.includes(name) || given[name] === undefined) continue
    if (LATER.has(name)) throw unknownOption(name, call, 'is not available in this version')
    const near = allowed.find((other) => distance(name.toLowerCase(), other.toLowerCase()) <= 2)
    if (near) throw unknownOption(name, call, `does not exist: did you mean \`${near}\`?`)
    const elsewhere = OF_MANAGERS.has(name) ? ' It belongs to createLocks().' : ''
    throw unknownOption(name, call, `does not exist.${elsewhere} There are: ${allowed.join(', ')}`)
  }
}

/**
 * @param {string} name
 * @param {string} call
 * @param {string} why
 */
function unknownOption(name, call, why) {
  return Object.assign(new TypeError(`the option \`${name}\` of ${call} ${why}`), {
    code: 'ERR_INVALID_ARG_VALUE',
  })
}

/**
 * @param {string} name
 * @param {unknown} value
 */
function checkTtl(name, value) {
  if (typeof value !== 'number') throw invalidType(name, value, 'a number of milliseconds')
  if (Number.isInteger(value) && value >= 100 && value <= LARGEST_TTL) return value
  const hint = value > 0 && value < 100 ? `; \`${name}\` is in milliseconds` : ''
  throw outOfRange(name, value, `an integer of milliseconds from 100 to ${LARGEST_TTL}${hint}`)
}

/**
 * @param {string} name
 * @param {unknown} value
 */
function checkTimeout(name, value) {
  if (typeof value !== 'number') throw invalidType(name, value, 'a number of milliseconds')
  if (value >= 0) return value
  throw outOfRange(name, value, 'a number of milliseconds from 0, or Infinity')
}

/**
 * @param {string} name
 * @param {unknown} value
 * @param {number} min
 * @param {number} max
 * @param {string} [or] what else is allowed, and seen to by the caller
 */
function checkInteger(name, value, min, max, or = '') {
  if (typeof value !== 'number') throw invalidType(name, value, 'a number')
  if (Number.isInteger(value) && value >= min && value <= max) return value
  throw outOfRange(name, value, `an integer from ${min} to ${max}${or}`)
}

/**
 * What every key must be, of a lock or a value.
 * @param {string} key
 */
function checkKeyText(key) {
  if (key.length === 0) throw outOfRange('key', key, 'a string that is not empty')
  if (key.length * 3 > LONGEST_KEY && Buffer.byteLength(key) > LONGEST_KEY) {
    const bytes = Buffer.byteLength(key)
    throw outOfRange('key', key, `a string of at most 64 KiB, in UTF-8; it has ${bytes} bytes`)
  }
  if (!(/** @type {any} */ (key).isWellFormed())) {
    throw invalidValue('key', key, 'a well-formed string: one without lone surrogates')
  }
}

/**
 * @param {string} name
 * @param {unknown} value
 */
function checkBoolean(name, value) {
  if (typeof value !== 'boolean') throw invalidType(name, value, 'true or false')
  return value
}

/**
 * @param {string} name
 * @param {unknown} value
 */
function checkText(name, value) {
  if (typeof value !== 'string') throw invalidType(name, value, 'a string')
  if (value.length > 1_024 || !(/** @type {any} */ (value).isWellFormed())) {
    throw invalidValue(name, value, 'a well-formed string of at most 1 024 characters')
  }
  return value
}

/** @param {any} value @returns {AbortSignal} */
function checkSignal(value) {
  // By shape: a signal may come from another realm, or from a package that has its own.
  if (
    typeof value !== 'object' ||
    value === null ||
    typeof value.aborted !== 'boolean' ||
    typeof value.addEventListener !== 'function'
  ) {
    throw invalidType('signal', value, 'an AbortSignal')
  }
  return value
}

/**
 * A duration without end or of this many milliseconds at least.
 * @param {string} name
 * @param {unknown} value
 * @param {number} min
 */
function checkDuration(name, value, min) {
  if (typeof value !== 'number') throw invalidType(name, value, 'a number of milliseconds')
  if (value >= min) return value
  throw outOfRange(name, value, `a number of milliseconds from ${min}, or Infinity`)
}

/**
 * How many letters must be added, dropped or changed to turn one word into the other (Levenshtein 1965).
 * @param {string} a
 * @param {string} b
 */
function distance(a, b) {
  let row = Array.from({ length: b.length + 1 }, (_, i) => i)
  for (let i = 1; i <= a.length; i++) {
    const next = [i]
    for (let j = 1; j <= b.length; j++) {
      next[j] = Math.min(row[j] + 1, next[j - 1] + 1, row[j - 1] + (a[i - 1] === b[j - 1] ? 0 : 1))
    }
    row = next
  }
  return row[b.length]
}

module.exports = {
  OF_MANAGERS,
  checkBoolean,
  checkDuration,
  checkInteger,
  checkKeyText,
  checkNames,
  checkSignal,
  checkText,
  checkTimeout,
  checkTtl,
}
