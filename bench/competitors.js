'use strict'

const { setMaxListeners } = require('node:events')
const { setTimeout: sleep } = require('node:timers/promises')
const cpu = require('./cpu.js')
const clock = require('./machine-clock.js')
const { Samples } = require('./samples.js')
const { TimerWatch } = require('./timer-watch.js')

/**
 * Callers of this process that want the same key: each takes it, holds it for `hold` ms, gives it back and thinks for up
 * to `think` ms, again and again, until it is told to stop. What they do is measured from one instant to another, in the
 * midst of it.
 */
class Competitors {
  #lock
  #key
  #hold
  #think
  #options
  #stop = new AbortController()
  #running
  #failure
  /** Of each caller, when it asked for the lock that it waits for or holds; NaN while it does neither. */
  #asked
  /** Of each caller, when it got the lock that it holds; NaN while it holds none. */
  #granted
  #holders = 0
  #pairs = 0
  #overlaps = 0
  #notOurs = 0
  /** `[caller, asked, granted, left]` of each acquisition that ended, where they are asked for. */
  #acquisitions
  #waits = new Samples()
  #timers = new TimerWatch()

  /** `options` go to every acquire, of libraries that take any. */
  constructor(lock, { key, callers, hold, think = 0, options }) {
    this.#lock = lock
    this.#key = key
    this.#hold = hold
    this.#think = think
    this.#asked = new Float64Array(callers).fill(NaN)
    this.#granted = new Float64Array(callers).fill(NaN)
    this.#options = options && { ...options, signal: this.#stop.signal }
    // One listener for each caller is no leak.
    setMaxListeners(0, this.#stop.signal)
  }

  start() {
    this.#running = Promise.all(Array.from(this.#asked, (_, caller) => this.#compete(caller)))
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
   * `everything`: instead of the quantiles, every acquisition that had begun or ended in between, and who still waits.
   */
  async measure({ from, until, timers = false, everything = false }) {
    const offset = clock.offset()
    await reached(from - offset)
    const before = this.#spent()
    this.#begin({ timers, everything })
    await reached(until - offset)
    const after = this.#spent()
    this.#timers.stop()
    const starved = [...this.#asked]
      .filter((since, caller) => this.#isWaiting(caller) && since < before.clock)
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
      ...(everything ? this.#everything(offset) : quantiles([...this.#waits.all(), ...starved])),
    }
  }

  #begin({ timers, everything }) {
    this.#waits.clear()
    this.#pairs = 0
    this.#acquisitions = everything ? [] : undefined
    if (timers) this.#timers.start()
  }

  /** On the shared clock. Who holds or waits at this moment has no end yet. */
  #everything(offset) {
    const ended = this.#acquisitions
    this.#acquisitions = undefined
    const callers = [...this.#asked.keys()]
    const holding = callers.filter((caller) => !Number.isNaN(this.#granted[caller]))
    const held = holding.map((caller) => [caller, this.#asked[caller], this.#granted[caller], null])
    return {
      callers: callers.length,
      acquisitions: [...ended, ...held].map(([caller, asked, granted, left]) => [
        caller,
        asked + offset,
        granted + offset,
        left === null ? null : left + offset,
      ]),
      waiting: callers
        .filter((caller) => this.#isWaiting(caller))
        .map((caller) => [caller, this.#asked[caller] + offset]),
    }
  }

  #isWaiting(caller) {
    return !Number.isNaN(this.#asked[caller]) && Number.isNaN(this.#granted[caller])
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
    const think = this.#think
    const options = this.#options
    const { signal } = this.#stop
    while (!signal.aborted) {
      const asked = performance.now()
      this.#asked[caller] = asked
      let handle
      try {
        handle = await lock.acquire(key, options)
      } catch (error) {
        if (signal.aborted) return
        throw error
      }
      const granted = this.#grant(caller, asked)
      if (hold > 0) await sleep(hold)
      this.#leave(caller, asked, granted)
      const released = await lock.release(handle)
      if (released === false || released === 0) this.#notOurs++
      this.#pairs++
      // Whole milliseconds, like the timers: none of them means that the caller comes back at once.
      const pause = Math.floor(Math.random() * (think + 1))
      if (pause > 0) await sleep(pause)
    }
  }

  #grant(caller, asked) {
    const granted = performance.now()
    this.#granted[caller] = granted
    if (this.#holders++ !== 0) this.#overlaps++
    this.#waits.add(granted - asked)
    return granted
  }

  #leave(caller, asked, granted) {
    this.#holders--
    this.#acquisitions?.push([caller, asked, granted, performance.now()])
    this.#asked[caller] = NaN
    this.#granted[caller] = NaN
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
