'use strict'

const { setMaxListeners } = require('node:events')
const { setTimeout: sleep } = require('node:timers/promises')
const cpu = require('./cpu.js')
const { now } = require('./shared-clock.js')
const { Samples } = require('./samples.js')
const { TimerWatch } = require('./timer-watch.js')

/**
 * Callers of this process that want the same key: each takes it, holds it for `hold` ms and gives it back, again and
 * again, until it is told to stop. What they do is measured from one instant to another, in the midst of it.
 */
class Competitors {
  #lock
  #key
  #hold
  #options
  #stop = new AbortController()
  #running
  #failure
  /** Of each caller, since when it waits; NaN while it doesn't. */
  #waitingSince
  #holders = 0
  #pairs = 0
  #overlaps = 0
  #notOurs = 0
  /** Times of grant and of release in turn, where they are asked for. */
  #intervals
  #waits = new Samples()
  #timers = new TimerWatch()

  /** `options` go to every acquire, of libraries that take any. */
  constructor(lock, { key, callers, hold, options }) {
    this.#lock = lock
    this.#key = key
    this.#hold = hold
    this.#waitingSince = new Float64Array(callers).fill(NaN)
    this.#options = options && { ...options, signal: this.#stop.signal }
    // One listener for each caller is no leak.
    setMaxListeners(0, this.#stop.signal)
  }

  start() {
    this.#running = Promise.all(Array.from(this.#waitingSince, (_, caller) => this.#compete(caller)))
    this.#running.catch((error) => {
      this.#failure = error
    })
  }

  /** Those who wait stop waiting, those who hold give back. For libraries whose acquire takes a signal. */
  async stop() {
    this.#stop.abort()
    await this.#running
  }

  /**
   * What happens from `from` to `until`, ms on the shared clock. The waits are those that ended in between, each from its
   * very beginning. Who waited all the time is `starved`, and has waited at least so long. Durations are ms, CPU is µs.
   * `everything`: all waits and the intervals in which somebody held, instead of the quantiles.
   */
  async measure({ from, until, timers = false, everything = false }) {
    // This process's own clock is cheaper to read.
    const offset = now() - performance.now()
    await reached(from - offset)
    const before = this.#spent()
    this.#begin(before.clock, { timers, everything })
    await reached(until - offset)
    const after = this.#spent()
    this.#timers.stop()
    const waits = [...this.#waits.all()]
    const starved = [...this.#waitingSince]
      .filter((since) => since < before.clock)
      .map((since) => after.clock - since)
    if (this.#failure) throw this.#failure

    return {
      pairs: this.#pairs,
      ms: after.clock - before.clock,
      threadCpu: before.thread === undefined ? undefined : after.thread - before.thread,
      processCpu: after.process - before.process,
      machineCpu: after.machine - before.machine,
      commands: before.commands === undefined ? undefined : after.commands - before.commands,
      timerP99: timers ? this.#timers.quantile(0.99) : undefined,
      overlaps: this.#overlaps,
      notOurs: this.#notOurs,
      starved: starved.length,
      ...(everything
        ? { waits, starvedWaits: starved, intervals: this.#held(after.clock).map((time) => time + offset) }
        : quantiles([...waits, ...starved])),
    }
  }

  #begin(from, { timers, everything }) {
    this.#waits.clear()
    this.#pairs = 0
    this.#intervals = undefined
    if (everything) this.#intervals = this.#holders > 0 ? [from] : []
    if (timers) this.#timers.start()
  }

  /** When somebody held: beginnings and ends in turn. Who holds at the end does so until then. */
  #held(end) {
    const intervals = this.#intervals
    this.#intervals = undefined
    if (intervals.length % 2 === 1) intervals.push(end)
    return intervals
  }

  #spent() {
    return {
      commands: this.#lock.commands?.(),
      machine: cpu.ofThisMachine(),
      thread: cpu.ofThisThread(),
      process: cpu.ofThisProcess(),
      clock: performance.now(),
    }
  }

  async #compete(caller) {
    const lock = this.#lock
    const key = this.#key
    const hold = this.#hold
    const options = this.#options
    const { signal } = this.#stop
    while (!signal.aborted) {
      const asked = performance.now()
      this.#waitingSince[caller] = asked
      let handle
      try {
        handle = await lock.acquire(key, options)
      } catch (error) {
        if (signal.aborted) return
        throw error
      }
      this.#granted(caller, asked)
      if (hold > 0) await sleep(hold)
      this.#holders--
      this.#intervals?.push(performance.now())
      const released = await lock.release(handle)
      if (released === false || released === 0) this.#notOurs++
      this.#pairs++
    }
  }

  #granted(caller, asked) {
    const granted = performance.now()
    this.#waitingSince[caller] = NaN
    if (this.#holders++ !== 0) this.#overlaps++
    this.#intervals?.push(granted)
    this.#waits.add(granted - asked)
  }
}

/** Resolves at that time, or at once if it is over. */
function reached(time) {
  return sleep(Math.max(0, time - performance.now()))
}

function quantiles(waits) {
  const samples = new Samples()
  for (const wait of waits) samples.add(wait)
  const [waitP50, waitP99, waitMax] = samples.quantiles(0.5, 0.99, 1)
  return { waitP50, waitP99, waitMax }
}

module.exports = { Competitors }
