'use strict'

const { allTargets, beat, inUse, isHolding } = require('./bridge')
const { outside } = require('./nesting')
const { setInterval, clearInterval } = require('node:timers')

// The pulse of this event loop, while something is held or awaited: without it the native side stops renewing after `maxStall`.

/** A handle that is alive this much later is watched by the garbage collector; locks that are held for less never are. */
const SLOWEST = 1_000
const QUICKEST = 25

let period = SLOWEST
let watched = 0
/** @type {ReturnType<typeof setInterval> | undefined} */
let timer

/**
 * Something is awaited from now on.
 * @param {number} maxStall of whoever waits, ms
 */
function keepBeating(maxStall) {
  if (maxStall < 4 * period) {
    period = Math.max(QUICKEST, maxStall / 4)
    stop()
  }
  if (timer !== undefined) return
  beat()
  // Not in the context of whoever comes first, which it would keep alive.
  timer = outside(() => setInterval(tick, period))
  timer.unref()
}

function tick() {
  if (!inUse()) return end()
  beat()
  const now = performance.now()
  if (!isHolding() || now - watched < SLOWEST) return
  watched = now
  for (const target of allTargets()) target.watch?.()
}

function end() {
  stop()
  period = SLOWEST
}

function stop() {
  clearInterval(timer)
  timer = undefined
}

module.exports = { keepBeating }
