'use strict'

const { LOSSES } = require('./errors')

// The figures of a manager, as `stats()` shows them.

/** @typedef {import('../index').Stats} Stats */

/** Fewer holds don't tell what a ttl should be. */
const ENOUGH_HOLDS = 20
/** A ttl of this many times the p99 of the holds outlives nearly all of them even without renewal. */
const TTL_PER_HOLD = 3
const SHORTEST_TTL = 100

/**
 * @param {any} counters of the addon
 * @returns {Stats}
 */
function statsOf(counters) {
  const {
    attempts,
    phased,
    losses: counted,
    nativeCpu,
    waits,
    holds,
    wonSpinning,
    leftSpinning,
    choseSpin,
    choseBackoff,
    choseHybrid,
    ...same
  } = counters
  const { acquired, polled, timeouts, busy, waiting, spinning } = same
  /** @type {any} */
  const losses = {}
  for (const [place, reason] of LOSSES.entries()) losses[reason] = counted[place]
  const held = distribution(holds)
  return {
    ...same,
    contentionFailureRate: ratio(timeouts + busy, acquired + timeouts + busy),
    attemptsPerAcquisition: ratio(attempts, polled),
    wonSpinning: ratio(wonSpinning, phased),
    leftSpinning: ratio(leftSpinning, phased),
    adaptive: { spin: choseSpin, backoff: choseBackoff, hybrid: choseHybrid },
    lost: counted.reduce((/** @type {number} */ sum, /** @type {number} */ count) => sum + count, 0),
    losses,
    queued: waiting - spinning,
    waits: distribution(waits),
    holds: held,
    suggestedTtl:
      held.count < ENOUGH_HOLDS || held.p99 === undefined
        ? undefined
        : Math.max(SHORTEST_TTL, Math.ceil(TTL_PER_HOLD * held.p99)),
    nativeCpu,
  }
}

/**
 * @param {number} part
 * @param {number} whole
 */
function ratio(part, whole) {
  return whole === 0 ? undefined : part / whole
}

/** @param {{ count: number, p50: number, p90: number, p99: number, max: number }} given */
function distribution({ count, p50, p90, p99, max }) {
  return count === 0
    ? { count, p50: undefined, p90: undefined, p99: undefined, max: undefined }
    : { count, p50, p90, p99, max }
}

const EMPTY = { count: 0, p50: 0, p90: 0, p99: 0, max: 0 }

/** Of a manager that hasn't been used. */
const NOTHING = statsOf({
  acquired: 0,
  atOnce: 0,
  handedOn: 0,
  fromQueue: 0,
  polled: 0,
  attempts: 0,
  phased: 0,
  wonSpinning: 0,
  leftSpinning: 0,
  choseSpin: 0,
  choseBackoff: 0,
  choseHybrid: 0,
  abandoned: 0,
  timeouts: 0,
  busy: 0,
  failed: 0,
  released: 0,
  losses: LOSSES.map(() => 0),
  held: 0,
  waiting: 0,
  spinning: 0,
  waits: EMPTY,
  holds: EMPTY,
  commands: 0,
  renewals: 0,
  reconnects: 0,
  nativeCpu: 0,
})

module.exports = { NOTHING, statsOf }
