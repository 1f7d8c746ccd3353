'use strict'

const { Samples } = require('./samples.js')

/** A quantile that those who are still waiting could raise by more than this isn't known. */
const SLACK = 1.05

/** What several processes measured of one key in the same time, as the figures of one cell. */
function cellOf(measured, { from, until, serverCpu }) {
  const sum = (figure) => measured.reduce((total, process) => total + process[figure], 0)
  const all = (list) => measured.flatMap((process) => process[list])
  const acquisitions = all('waits').length
  const { held, overlaps } = heldShare(measured, from, until)
  return {
    acquisitions,
    starved: sum('starved'),
    ...waitsOf(all('waits'), all('starvedWaits')),
    held,
    overlaps: overlaps + sum('overlaps'),
    commands: sum('commands') / acquisitions,
    clientCpu: sum('processCpu') / acquisitions,
    serverCpu: serverCpu / acquisitions,
  }
}

/** Quantiles of waits, ms. `atLeast` tells of each whether those who are still waiting could make it longer. */
function waitsOf(waits, starved) {
  const quantiles = (values) => {
    const samples = new Samples()
    for (const value of values) samples.add(value)
    return samples.quantiles(0.5, 0.99, 1)
  }
  const known = quantiles([...waits, ...starved])
  const worst = quantiles([...waits, ...starved.map(() => Infinity)])
  const [p50, p99, max] = known
  const [p50AtLeast, p99AtLeast, maxAtLeast] = known.map((value, n) => worst[n] > value * SLACK)
  return { p50, p99, max, atLeast: { p50: p50AtLeast, p99: p99AtLeast, max: maxAtLeast } }
}

/** How much of the time somebody held the key, in %, and how often two did. */
function heldShare(measured, from, until) {
  const intervals = measured.flatMap(({ intervals }) =>
    Array.from({ length: intervals.length / 2 }, (_, n) => [intervals[2 * n], intervals[2 * n + 1]]),
  )
  intervals.sort(([one], [other]) => one - other)
  let held = 0
  let overlaps = 0
  let free = -Infinity
  for (const [granted, left] of intervals) {
    if (granted < free) overlaps++
    free = Math.max(free, left)
    held += Math.max(0, Math.min(left, until) - Math.max(granted, from))
  }
  return { held: (100 * held) / (until - from), overlaps }
}

module.exports = { cellOf }
