'use strict'

/** How often a worker was at it before another one was done. @param {{ from: number, until: number }[]} holdings */
function overlaps(holdings) {
  const ordered = holdings.toSorted((a, b) => a.from - b.from)
  let count = 0
  let latest = Number.NEGATIVE_INFINITY
  for (const { from, until } of ordered) {
    if (from < latest) count += 1
    latest = Math.max(latest, until)
  }
  return count
}

/** The smallest value that at least this share, in percent, doesn't exceed. @param {number[]} values @param {number} share */
function percentile(values, share) {
  const ordered = values.toSorted((a, b) => a - b)
  return ordered[Math.max(0, Math.ceil((share / 100) * ordered.length) - 1)]
}

/** @param {number[]} numbers */
function rises(numbers) {
  return numbers.every((number, i) => i === 0 || number > numbers[i - 1])
}

module.exports = { overlaps, percentile, rises }
