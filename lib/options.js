'use strict'

const {
  checkBoolean,
  checkDuration,
  checkInteger,
  checkKeyText,
  checkNames,
  checkSignal,
  checkText,
  checkTimeout,
  checkTtl,
} = require('./checks')
const { invalidType, invalidValue, outOfRange } = require('./invalid')
const { storeOptions } = require('./store-options')
const { HANDOFF, checkStrategy } = require('./strategy')

// What callers may ask for. Everything is checked here, before it crosses to the addon, which trusts it.

/** @typedef {import('../index').ManagerOptions} ManagerOptions */

/**
 * What a call asks for, with defaults filled in. `own`: something that the addon doesn't take from the manager's defaults; `quiet`:
 * its loss is no event.
 * @typedef {{ ttl: number, timeout: number, autoExtend: boolean, maxHold: number, maxStall: number, minHold: number,
 *   reentrant: boolean, owner?: string, turn: { holders: number, duration?: number }, fair: boolean, strategy: import('./strategy').NativeStrategy, ifLost: 'reject' | 'ignore',
 *   signal?: AbortSignal, detectDeadlock: boolean, captureStacks: boolean, own: boolean, quiet?: boolean }} CallOptions
 */

const MOST_KEYS = 100
/** Beginnings of what stands beside locks in Redis. */
const RESERVED = /^~[a-z]\{/
const LONGEST_OWNER = 200
const LARGEST = 2_147_483_647

/** @type {CallOptions} */
const DEFAULTS = {
  ttl: 10_000,
  timeout: 10_000,
  autoExtend: true,
  maxHold: Infinity,
  maxStall: 30_000,
  minHold: 0,
  reentrant: false,
  owner: undefined,
  turn: { holders: 16 },
  fair: false,
  strategy: HANDOFF,
  ifLost: 'reject',
  signal: undefined,
  detectDeadlock: true,
  captureStacks: false,
  own: false,
}

/** @type {Record<string, (value: any) => any>} */
const CHECKS = {
  ttl: (value) => checkTtl('ttl', value),
  timeout: (value) => checkTimeout('timeout', value),
  autoExtend: (value) => checkBoolean('autoExtend', value),
  maxHold: (value) => checkDuration('maxHold', value, 1),
  maxStall: (value) => checkDuration('maxStall', value, 100),
  minHold: (value) => checkInteger('minHold', value, 0, LARGEST),
  reentrant: (value) => checkBoolean('reentrant', value),
  owner: checkOwner,
  turn: checkTurn,
  fair: (value) => checkBoolean('fair', value),
  strategy: checkStrategy,
  ifLost: checkIfLost,
  signal: checkSignal,
  detectDeadlock: (value) => checkBoolean('detectDeadlock', value),
  captureStacks: (value) => checkBoolean('captureStacks', value),
}

/** Those that a plain acquire of the addon takes from the manager's defaults. */
const OWN = new Set(['maxHold', 'maxStall', 'minHold', 'owner', 'turn', 'fair', 'strategy'])

const HOLDING = ['ttl', 'autoExtend', 'maxHold', 'maxStall']
const LOCK = [...HOLDING, 'minHold', 'reentrant', 'owner', 'turn', 'fair']
const WAITING = ['timeout', 'strategy']
const NAMES = {
  acquire: [...LOCK, ...WAITING, 'signal'],
  tryAcquire: [...LOCK, 'signal'],
  withLock: [...LOCK, ...WAITING, 'signal', 'ifLost'],
  tryWithLock: [...LOCK, 'signal', 'ifLost'],
  adopt: HOLDING,
}
const DEFAULT_NAMES = [
  ...HOLDING,
  'minHold',
  'reentrant',
  'turn',
  'fair',
  ...WAITING,
  'ifLost',
  'detectDeadlock',
  'captureStacks',
]
const MANAGER_NAMES = [
  ...DEFAULT_NAMES,
  'url',
  'username',
  'password',
  'db',
  'tls',
  'keyPrefix',
  'commandTimeout',
]

/**
 * One key, or the keys of an array, each once.
 * @param {unknown} given
 * @returns {string | readonly string[]}
 */
function checkKeys(given) {
  if (typeof given === 'string') return checkKey(given)
  if (!Array.isArray(given)) throw invalidType('key', given, 'a string, or an array of strings')
  const keys = [...new Set(given)]
  if (keys.length === 0 || keys.length > MOST_KEYS) {
    throw outOfRange('key', given, `an array of 1 to ${MOST_KEYS} keys`)
  }
  for (const key of keys) {
    if (typeof key !== 'string') throw invalidType('key', key, 'a string, or an array of strings')
    checkKey(key)
  }
  return keys.length === 1 ? keys[0] : Object.freeze(keys)
}

/** @param {string} key */
function checkKey(key) {
  if (RESERVED.test(key)) {
    throw invalidValue(
      'key',
      key,
      'a string that does not begin with ~f{, ~h{, ~q{ or ~s{, as names of our own do',
    )
  }
  checkKeyText(key)
  return key
}

/** @param {unknown} value */
function checkOwner(value) {
  const owner = checkText('owner', value)
  if (owner.length === 0 || owner.length > LONGEST_OWNER) {
    throw outOfRange('owner', value, `a string of 1 to ${LONGEST_OWNER} characters`)
  }
  return owner
}

/** @param {any} given */
function checkTurn(given) {
  checkNames(['holders', 'duration'], given, 'turn', 'turn')
  const { holders = DEFAULTS.turn.holders, duration } = given
  return {
    holders:
      holders === Infinity ? Infinity : checkInteger('turn.holders', holders, 1, LARGEST, ', or Infinity'),
    duration: duration === undefined ? undefined : checkTimeout('turn.duration', duration),
  }
}

/** @param {unknown} fn */
function checkCallback(fn) {
  if (typeof fn !== 'function') throw invalidType('fn', fn, 'a function, and the last argument')
}

/**
 * @param {keyof typeof NAMES} call
 * @param {any} given
 * @param {CallOptions} defaults
 * @returns {CallOptions}
 */
function callOptions(call, given, defaults) {
  if (given === undefined) return defaults
  checkNames(NAMES[call], given, 'options', call)
  return withGiven(NAMES[call], given, defaults)
}

/**
 * @param {readonly string[]} names
 * @param {any} given
 * @param {CallOptions} defaults
 * @returns {CallOptions}
 */
function withGiven(names, given, defaults) {
  /** @type {any} */
  const options = { ...defaults }
  for (const name of names) {
    const value = given[name]
    if (value === undefined) continue
    options[name] = CHECKS[name](value)
    options.own ||= OWN.has(name)
  }
  if (options.reentrant && !options.detectDeadlock) {
    throw invalidValue('reentrant', true, 'false together with `detectDeadlock: false`')
  }
  if (given.fair && given.turn?.holders !== undefined) {
    throw invalidValue('turn.holders', given.turn.holders, 'absent together with `fair: true`')
  }
  // The bounds of a call go before the manager's `fair`.
  if (given.turn !== undefined && given.fair === undefined) options.fair = false
  if (options.owner !== undefined && options.minHold > 0) {
    throw invalidValue('minHold', options.minHold, 'absent or 0 together with `owner`')
  }
  return options
}

/**
 * @param {any} given
 * @param {NodeJS.ProcessEnv} env
 */
function managerOptions(given, env) {
  if (given === undefined) given = {}
  checkNames(MANAGER_NAMES, given, 'options', 'createLocks')
  const defaults = { ...withGiven(DEFAULT_NAMES, given, DEFAULTS), own: false }
  const { keyPrefix, commandTimeout } = given
  const store = {
    ...storeOptions(given, env),
    keyPrefix: keyPrefix === undefined ? 'lock:' : checkText('keyPrefix', keyPrefix),
    commandTimeout:
      commandTimeout === undefined ? 2_000 : checkInteger('commandTimeout', commandTimeout, 10, 60_000),
  }
  return { defaults, store }
}

/** @param {unknown} value @returns {'reject' | 'ignore'} */
function checkIfLost(value) {
  if (value !== 'reject' && value !== 'ignore') throw invalidValue('ifLost', value, "'reject' or 'ignore'")
  return value
}

/**
 * @param {any} given
 * @returns {import('../index').Ticket & { owner?: string }}
 */
function checkTicket(given) {
  if (typeof given !== 'object' || given === null || !Array.isArray(given.keys)) {
    throw invalidType('ticket', given, 'what detach() returned')
  }
  const { keys, token, fencingToken, ttl, owner } = given
  const checked = checkKeys(keys)
  if (typeof token !== 'string') throw invalidType('ticket.token', token, 'a string')
  checkInteger('ticket.fencingToken', fencingToken, 0, Number.MAX_SAFE_INTEGER)
  checkTtl('ticket.ttl', ttl)
  return {
    keys: typeof checked === 'string' ? [checked] : [...checked],
    token,
    fencingToken,
    ttl,
    ...(owner === undefined ? {} : { owner: checkOwner(owner) }),
  }
}

/** @param {any} given */
function closeOptions(given) {
  if (given === undefined) return { drain: 0 }
  checkNames(['drain'], given, 'options', 'close')
  return { drain: given.drain === undefined ? 0 : checkTimeout('drain', given.drain) }
}

/** @param {any} given */
function readyOptions(given) {
  if (given === undefined) return { timeout: DEFAULTS.timeout }
  checkNames(['timeout'], given, 'options', 'ready')
  return { timeout: given.timeout === undefined ? DEFAULTS.timeout : checkTimeout('timeout', given.timeout) }
}

module.exports = {
  DEFAULTS,
  checkKeys,
  checkCallback,
  checkTicket,
  callOptions,
  managerOptions,
  closeOptions,
  readyOptions,
}
