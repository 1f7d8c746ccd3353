'use strict'

const { setTimeout: pause } = require('node:timers/promises')

/**
 * The schedule. In an example everything is a little faster than in life, where `every` may be an hour.
 * @typedef {object} Task
 * @property {string} name
 * @property {number} every the period, ms: its ticks are the multiples of it, by the clock of the machine
 * @property {number} ttl the lease, ms: how long the others wait if the process that runs it is killed
 * @property {(signal: AbortSignal) => Promise<void>} run ends early when `signal` aborts: the lock is lost
 */

/** @type {Task[]} */
const tasks = [
  { name: 'report', every: 500, ttl: 1_000, run: (signal) => work(100, signal) },
  // Takes longer than its ttl and than its period: it is renewed for as long as it runs, and the ticks in between are skipped.
  { name: 'backup', every: 1_500, ttl: 1_000, run: (signal) => work(2_500, signal) },
]

function work(duration, signal) {
  return pause(duration, undefined, { signal })
}

module.exports = { tasks }
