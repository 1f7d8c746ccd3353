'use strict'

const { monitorEventLoopDelay } = require('node:perf_hooks')
const { setTimeout: sleep } = require('node:timers/promises')
const { setFlagsFromString } = require('node:v8')
const { runInNewContext } = require('node:vm')
const cpu = require('./cpu.js')

/** What this process uses while it does whatever it does for `ms`: CPU in % of one core. */
async function usage(ms) {
  const before = { clock: performance.now(), process: cpu.ofThisProcess() }
  await sleep(ms)
  const took = performance.now() - before.clock
  return { ms: took, cpu: (cpu.ofThisProcess() - before.process) / 10 / took }
}

/**
 * The delay of its event loop, ms: how long after each other a timer of 1 ms fires. Looking so often costs 2 to 3 % of a
 * core, so this is never measured together with CPU.
 */
async function loopDelay(ms) {
  const monitor = monitorEventLoopDelay({ resolution: 1 })
  monitor.enable()
  await sleep(ms)
  monitor.disable()
  const of = (percentile) => monitor.percentile(percentile) / 1e6
  return { p50: of(50), p99: of(99), max: monitor.max / 1e6 }
}

/** Memory in use after everything that isn't has been collected, bytes. */
function memory() {
  setFlagsFromString('--expose-gc')
  const collect = runInNewContext('gc')
  // What finalizers let go of falls to the second.
  collect()
  collect()
  const { rss, heapUsed } = process.memoryUsage()
  return { rss, heapUsed }
}

module.exports = { usage, loopDelay, memory }
