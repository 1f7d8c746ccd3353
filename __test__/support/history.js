'use strict'

/**
 * One holding of a lock. Times are from one clock, as numbers or bigints; `process.hrtime.bigint()` is
 * the same for all processes of a machine.
 *
 * @typedef {object} Holding
 * @property {string} key
 * @property {string} owner
 * @property {number | bigint} from when the owner knew that it holds the key
 * @property {number | bigint} until just before it gave the key back, or its deadline if that came first
 * @property {number} fence
 */

/**
 * Checks what holders wrote down against what a lock promises: nobody holds a key while somebody else does,
 * and fences rise strictly in the order in which the key was granted.
 *
 * @param {Holding[]} holdings in any order
 * @returns {{ overlaps: [Holding, Holding][], fences: [Holding, Holding][] }} the pairs that break a promise, earlier one first
 */
function check(holdings) {
  const overlaps = []
  const fences = []
  const byKey = new Map()
  for (const holding of holdings) {
    requireComplete(holding)
    if (!byKey.has(holding.key)) byKey.set(holding.key, [])
    byKey.get(holding.key).push(holding)
  }
  for (const ofKey of byKey.values()) {
    ofKey.sort((a, b) => (a.from < b.from ? -1 : a.from > b.from ? 1 : 0))
    // The one that lasts longest so far, not just the one before: a long holding can cover several short ones.
    let longest = ofKey[0]
    for (let i = 1; i < ofKey.length; i++) {
      const before = ofKey[i - 1]
      const holding = ofKey[i]
      if (holding.from < longest.until) overlaps.push([longest, holding])
      if (holding.fence <= before.fence) fences.push([before, holding])
      if (holding.until > longest.until) longest = holding
    }
  }
  return { overlaps, fences }
}

// A holding without an end or a fence compares as false with everything and would pass unseen.
function requireComplete(holding) {
  const { key, owner, from, until, fence } = holding
  const isTime = (value) => typeof value === 'bigint' || Number.isFinite(value)
  const complete = typeof key === 'string' && owner !== undefined && isTime(from) && isTime(until)
  if (!complete || !Number.isSafeInteger(fence) || until < from) {
    throw new TypeError(`not a complete holding: ${require('node:util').inspect(holding)}`)
  }
}

module.exports = { check }
