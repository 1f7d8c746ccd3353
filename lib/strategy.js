'use strict'

const { invalidType, invalidValue, outOfRange } = require('./invalid')

// The `strategy` option: checked, and in the form in which it crosses to the addon, which knows the named ones.

/**
 * @typedef {{ interval: number, factor: number, cap: number, jitter: string, low: number, high: number,
 *   maxDuration: number, maxAttempts: number }} Phase
 * @typedef {{ phases: readonly Phase[], after: string }} NativeStrategy
 */

const NAMES = ['adaptive', 'handoff', 'fixed', 'spin', 'backoff', 'hybrid', 'spin-subscribe']
const FIELDS = ['type', 'interval', 'factor', 'cap', 'jitter', 'maxDuration', 'maxAttempts', 'then']
const JITTERS = ['full', 'equal', 'decorrelated']
/** Nobody nests deeper, and an object that contains itself must end. */
const MOST_PHASES = 16
const LONGEST = 2_147_483_647

/** @type {NativeStrategy} */
const HANDOFF = Object.freeze({ phases: Object.freeze([]), after: 'handoff' })

/**
 * @param {any} given
 * @returns {NativeStrategy}
 */
function checkStrategy(given) {
  const phases = []
  let name = 'strategy'
  let next = given
  while (typeof next === 'object' && next !== null) {
    if (phases.length === MOST_PHASES) {
      throw invalidValue('strategy', given, `a strategy of at most ${MOST_PHASES} phases`)
    }
    phases.push(checkPhase(name, next))
    name += '.then'
    next = next.then ?? 'fail'
  }
  const allowed = phases.length === 0 ? NAMES : ['fail', ...NAMES.slice(1)]
  if (!allowed.includes(next)) {
    const names = allowed.map((each) => `'${each}'`).join(', ')
    throw invalidValue(name, next, `one of ${names}, or an object with \`type: 'poll'\``)
  }
  return { phases, after: next }
}

/**
 * @param {string} name
 * @param {any} given
 * @returns {Phase}
 */
function checkPhase(name, given) {
  for (const field in given) {
    if (FIELDS.includes(field) || given[field] === undefined) continue
    throw invalidValue(name, given, `an object of ${FIELDS.join(', ')}, without \`${field}\``)
  }
  if (given.type !== 'poll') throw invalidValue(`${name}.type`, given.type, "'poll'")
  const interval = number(`${name}.interval`, given.interval ?? 50, 0, LONGEST)
  const cap = number(`${name}.cap`, given.cap ?? Math.max(1_000, interval), interval, LONGEST)
  return {
    interval,
    factor: number(`${name}.factor`, given.factor ?? 1, 1, 10),
    cap,
    ...jitter(`${name}.jitter`, given.jitter ?? 0),
    maxDuration: bound(`${name}.maxDuration`, given.maxDuration, false),
    maxAttempts: bound(`${name}.maxAttempts`, given.maxAttempts, true),
  }
}

/**
 * @param {string} name
 * @param {any} given
 */
function jitter(name, given) {
  if (typeof given === 'number') return { jitter: 'up-to', low: number(name, given, 0, 1), high: 0 }
  if (JITTERS.includes(given)) return { jitter: /** @type {string} */ (given), low: 0, high: 0 }
  if (Array.isArray(given) && given.length === 2) {
    const low = number(`${name}[0]`, given[0], 0, 10)
    return { jitter: 'between', low, high: number(`${name}[1]`, given[1], low, 10) }
  }
  throw invalidValue(name, given, "a number from 0 to 1, [low, high], 'full', 'equal' or 'decorrelated'")
}

/**
 * @param {string} name
 * @param {any} value
 * @param {boolean} whole
 */
function bound(name, value, whole) {
  if (value === undefined || value === Infinity) return -1
  if (typeof value !== 'number') throw invalidType(name, value, 'a number')
  if (value >= 1 && value <= LONGEST && (!whole || Number.isInteger(value))) return value
  throw outOfRange(name, value, `${whole ? 'an integer' : 'a number'} from 1 to ${LONGEST}, or Infinity`)
}

/**
 * @param {string} name
 * @param {any} value
 * @param {number} min
 * @param {number} max
 */
function number(name, value, min, max) {
  if (typeof value !== 'number') throw invalidType(name, value, 'a number')
  if (value >= min && value <= max) return value
  throw outOfRange(name, value, `a number from ${min} to ${max}`)
}

module.exports = { HANDOFF, checkStrategy }
