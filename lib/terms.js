'use strict'

/**
 * What a call asks for, as the addon takes it.
 * @param {import('./options').CallOptions} options
 */
function terms({ ttl, autoExtend, maxHold, maxStall, minHold, turn, fair, strategy }) {
  return {
    ttl,
    autoExtend,
    maxHold: bounded(maxHold),
    maxStall: bounded(maxStall),
    minHold,
    turnHolders: fair ? 1 : bounded(turn.holders),
    turnDuration: turn.duration === undefined ? -1 : Math.min(turn.duration, 1e12),
    strategy,
  }
}

/** @param {number} millis */
function bounded(millis) {
  return millis === Infinity ? -1 : millis
}

module.exports = { bounded, terms }
