'use strict'

const {
  checkDuration,
  checkInteger,
  checkKeyText,
  checkNames,
  checkText,
  checkTimeout,
  checkTtl,
} = require('../checks')
const { invalidType, invalidValue, outOfRange } = require('../invalid')
const { Codec } = require('./codec')

// What callers may ask of a cache; checked before anything is done.

/**
 * What a call asks for, with defaults filled in.
 * @typedef {{ ttl: number | undefined, ttlJitter: number, staleFor: number, staleIfError: number | undefined,
 *   earlyRefresh: 'xfetch' | number | false, beta: number, refreshEvery: number | undefined, negativeTtl: number | undefined,
 *   errorBackoff: number, loadTimeout: number, waitTimeout: number, onWaitTimeout: 'load' | 'stale' | 'throw',
 *   fallback: unknown, hasFallback: boolean, lockTtl: number }} Terms
 */

const LARGEST = 2_147_483_647

/** @type {Terms} */
const DEFAULTS = {
  ttl: undefined,
  ttlJitter: 0.1,
  staleFor: 0,
  staleIfError: undefined,
  earlyRefresh: 'xfetch',
  beta: 1,
  refreshEvery: undefined,
  negativeTtl: undefined,
  errorBackoff: 10_000,
  loadTimeout: 30_000,
  waitTimeout: 5_000,
  onWaitTimeout: 'load',
  fallback: undefined,
  hasFallback: false,
  lockTtl: 10_000,
}

/** @type {Record<string, (value: any) => any>} */
const CHECKS = {
  ttl: (value) => checkLifetime('ttl', value),
  ttlJitter: (value) => checkShare('ttlJitter', value, 'from 0 to 0.9', 0, 0.9),
  staleFor: (value) => checkInteger('staleFor', value, 0, LARGEST),
  staleIfError: (value) => checkInteger('staleIfError', value, 0, LARGEST),
  earlyRefresh: checkEarlyRefresh,
  beta: (value) => checkShare('beta', value, 'from 0 to 100', 0, 100),
  refreshEvery: (value) => checkTtl('refreshEvery', value),
  negativeTtl: (value) => checkLifetime('negativeTtl', value),
  errorBackoff: (value) => checkInteger('errorBackoff', value, 0, LARGEST),
  loadTimeout: (value) => checkDuration('loadTimeout', value, 1),
  waitTimeout: (value) => checkTimeout('waitTimeout', value),
  onWaitTimeout: checkOnWaitTimeout,
  fallback: (value) => value,
  lockTtl: (value) => checkTtl('lockTtl', value),
}

const TERMS = Object.keys(CHECKS)
const SET = ['ttl', 'ttlJitter', 'staleFor', 'staleIfError', 'negativeTtl']
const NAMES = { getOrSet: TERMS, refresh: TERMS, set: SET, get: ['staleFor'] }

/**
 * @param {any} given
 * @returns {{ prefix: string, codec: Codec, terms: Terms }}
 */
function cacheOptions(given) {
  if (given === undefined) given = {}
  checkNames(['prefix', 'codec', ...TERMS], given, 'options', 'cache')
  const { prefix, codec } = given
  return {
    prefix: prefix === undefined ? 'cache:' : checkText('prefix', prefix),
    codec: new Codec(codec === undefined ? 'json' : checkCodec(codec)),
    terms: withGiven(given, DEFAULTS),
  }
}

/**
 * @param {keyof typeof NAMES} call
 * @param {any} given
 * @param {Terms} defaults
 * @returns {Terms}
 */
function callTerms(call, given, defaults) {
  if (given === undefined) return defaults
  checkNames(NAMES[call], given, 'options', call)
  return withGiven(given, defaults)
}

/**
 * @param {any} given
 * @param {Terms} defaults
 * @returns {Terms}
 */
function withGiven(given, defaults) {
  /** @type {any} */
  const terms = { ...defaults }
  for (const name of TERMS) {
    if (given[name] !== undefined) terms[name] = CHECKS[name](given[name])
  }
  terms.hasFallback ||= given.fallback !== undefined
  return terms
}

/**
 * How keys of a cache must not begin, since locks have such names: nothing, with nearly every prefix.
 * @param {string} prefix
 * @param {string} keyPrefix
 */
function reservedFor(prefix, keyPrefix) {
  return [`${keyPrefix}load:`, `${keyPrefix}~`]
    .filter((name) => name.startsWith(prefix))
    .map((name) => name.slice(prefix.length))
}

/**
 * @param {string} key
 * @param {string[]} reserved
 */
function checkReserved(key, reserved) {
  for (const name of reserved) {
    if (key.startsWith(name))
      throw invalidValue('key', key, `a string that does not begin with ${name}, as names of locks do`)
  }
}

/**
 * @param {unknown} key
 * @returns {asserts key is string}
 */
function checkKey(key) {
  if (typeof key !== 'string') throw invalidType('key', key, 'a string')
  checkKeyText(key)
}

/** @param {unknown} loader */
function checkLoader(loader) {
  if (typeof loader !== 'function') throw invalidType('loader', loader, 'a function')
}

/**
 * How long what is stored is fresh.
 * @param {Terms} terms
 */
function lifetime({ ttl, refreshEvery }) {
  const given = refreshEvery ?? ttl
  if (given === undefined) {
    throw invalidValue('ttl', given, 'given, to the cache or to the call: milliseconds, or Infinity')
  }
  return given
}

/**
 * @param {string} name
 * @param {any} value
 */
function checkLifetime(name, value) {
  return value === Infinity ? value : checkTtl(name, value)
}

/**
 * @param {string} name
 * @param {unknown} value
 * @param {string} allowed
 * @param {number} min
 * @param {number} max
 */
function checkShare(name, value, allowed, min, max) {
  if (typeof value !== 'number') throw invalidType(name, value, 'a number')
  if (value >= min && value <= max) return value
  throw outOfRange(name, value, `a number ${allowed}`)
}

/** @param {any} value */
function checkEarlyRefresh(value) {
  if (value === false || value === 'xfetch') return value
  if (typeof value === 'number')
    return checkShare('earlyRefresh', value, 'from 0 to 1: a share of `ttl`', 0, 1)
  throw invalidType('earlyRefresh', value, "'xfetch', a share of `ttl` from 0 to 1, or false")
}

/** @param {any} value */
function checkOnWaitTimeout(value) {
  if (['load', 'stale', 'throw'].includes(value)) return value
  throw invalidValue('onWaitTimeout', value, "'load', 'stale' or 'throw'")
}

/** @param {any} value */
function checkCodec(value) {
  const custom = typeof value?.encode === 'function' && typeof value.decode === 'function'
  if (value === 'json' || value === 'buffer' || custom) return value
  throw invalidType('codec', value, "'json', 'buffer', or { encode, decode }")
}

module.exports = { cacheOptions, callTerms, checkKey, checkLoader, checkReserved, lifetime, reservedFor }
