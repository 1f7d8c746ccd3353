'use strict'

const { Samples } = require('./samples.js')

/** A quantile that those who are still waiting could raise by more than this isn't known. */
const SLACK = 1.05

/** What several processes measured of one key in the same time, as figures. Times are ms, CPU is µs per acquisition. */
function contention(measured, { from, until, serverCpu }) {
  const sum = (figure) => measured.reduce((total, process) => total + process[figure], 0)
  const held = acquisitionsOf(measured, until)
  const began = held.filter(({ granted }) => granted >= from && granted < until)
  const acquisitions = began.length
  const stillWaiting = starvedWaits(measured, { from, until })
  const waits = waitsOf(
    began.map(({ asked, granted }) => granted - asked),
    stillWaiting,
  )
  const meanHold = mean(held.filter(({ ended }) => ended).map(({ granted, left }) => left - granted))
  const callers = sum('callers')
  return {
    acquisitions,
    perSecond: acquisitions / ((until - from) / 1_000),
    starved: stillWaiting.length,
    ...waits,
    // First come, first served, and no time lost: everybody else once.
    toIdeal: waits.p99 / ((callers - 1) * meanHold),
    meanHold,
    ...heldShare(held, from, until),
    notOurs: sum('notOurs'),
    ...fairness(measured, began),
    handOffs: handOffs(measured, held, { from, until }),
    commands: sum('commands') / acquisitions,
    clientCpu: sum('processCpu') / acquisitions,
    serverCpu: serverCpu / acquisitions,
  }
}

/** In order of their grants. Who still holds does so until the end. */
function acquisitionsOf(measured, end) {
  return measured
    .flatMap(({ acquisitions }, process) =>
      acquisitions.map(([caller, asked, granted, left]) => ({
        process,
        caller,
        asked,
        granted,
        left: left ?? Math.max(granted, end),
        ended: left !== null,
      })),
    )
    .sort((one, other) => one.granted - other.granted)
}

/** How long those have waited that waited all the time. */
function starvedWaits(measured, { from, until }) {
  return measured
    .flatMap(({ waiting }) => waiting.map(([, since]) => since))
    .filter((since) => since < from)
    .map((since) => until - since)
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
function heldShare(acquisitions, from, until) {
  let held = 0
  let overlaps = 0
  let free = -Infinity
  for (const { granted, left } of acquisitions) {
    if (granted < free) overlaps++
    held += Math.max(0, Math.min(left, until) - Math.max(granted, free, from))
    free = Math.max(free, left)
  }
  return { held: (100 * held) / (until - from), overlaps }
}

/** Jain's index of how many acquisitions each process and each caller had: 1 is perfectly even. */
function fairness(measured, began) {
  const processes = measured.map(() => 0)
  const callers = measured.map((process) => new Array(process.callers).fill(0))
  for (const { process, caller } of began) {
    processes[process]++
    callers[process][caller]++
  }
  return { jainProcesses: jain(processes), jainCallers: jain(callers.flat()) }
}

function jain(counts) {
  const sum = counts.reduce((total, count) => total + count, 0)
  const squares = counts.reduce((total, count) => total + count * count, 0)
  return squares === 0 ? null : (sum * sum) / (counts.length * squares)
}

/**
 * From each call of release to the next acquire that is resolved, ms, wherever that is; only of releases at which
 * somebody was waiting.
 */
function handOffs(measured, acquisitions, { from, until }) {
  const asked = acquisitions.map((acquisition) => acquisition.asked)
  for (const { waiting } of measured) for (const [, since] of waiting) asked.push(since)
  // The later ones: whoever of them had asked before the release was waiting then.
  let earliest = Infinity
  const waitingAfter = new Array(acquisitions.length)
  for (const since of asked.slice(acquisitions.length)) earliest = Math.min(earliest, since)
  for (let n = acquisitions.length - 1; n >= 0; n--) {
    waitingAfter[n] = earliest
    earliest = Math.min(earliest, asked[n])
  }
  const latencies = []
  for (let n = 0; n < acquisitions.length - 1; n++) {
    const { left } = acquisitions[n]
    if (left < from || left >= until || waitingAfter[n] > left) continue
    latencies.push(Math.max(0, acquisitions[n + 1].granted - left))
  }
  return latencies
}

function mean(values) {
  return values.reduce((sum, value) => sum + value, 0) / values.length
}

module.exports = { contention, acquisitionsOf, starvedWaits }
