'use strict'

const { setTimeout: sleep } = require('node:timers/promises')
const cpu = require('./cpu.js')
const { Samples } = require('./samples.js')

/** Callers in a closed loop: each takes its key, holds it for `hold` ms and gives it back, again and again. */
class Workload {
  #lock
  #keys
  #hold
  /** For each caller, the place of its key in `#holders`. */
  #places
  /** How many callers hold each key at this moment, by their own account. */
  #holders
  #acquireTimes = new Samples()
  #pairTimes = new Samples()
  #pairs = 0
  #overlaps = 0
  #notOurs = 0

  /** One caller for each of `keys`; those with equal keys want the same lock. */
  constructor(lock, keys, hold = 0) {
    this.#lock = lock
    this.#keys = keys
    this.#hold = hold
    const distinct = new Map()
    for (const key of keys) if (!distinct.has(key)) distinct.set(key, distinct.size)
    this.#places = keys.map((key) => distinct.get(key))
    this.#holders = new Uint32Array(distinct.size)
  }

  /** Runs for `ms`, then until the last caller has given its key back. Times are µs. */
  async window(ms) {
    this.#clear()
    const before = spent()
    const until = before.clock + ms
    await this.#everyCaller((caller) => this.#callUntil(caller, until))
    // Before the quantiles: sorting isn't the library's work.
    const after = spent()

    const [acquireP50, acquireP99] = this.#acquireTimes.quantiles(0.5, 0.99)
    const [pairP50, pairP99] = this.#pairTimes.quantiles(0.5, 0.99)
    return {
      pairs: this.#pairs,
      ms: after.clock - before.clock,
      acquireP50: acquireP50 * 1_000,
      acquireP99: acquireP99 * 1_000,
      pairP50: pairP50 * 1_000,
      pairP99: pairP99 * 1_000,
      threadCpu: before.thread === undefined ? undefined : after.thread - before.thread,
      processCpu: after.process - before.process,
      machineCpu: after.machine - before.machine,
      overlaps: this.#overlaps,
      notOurs: this.#notOurs,
    }
  }

  /** Exactly `each` pairs by every caller. */
  async pairs(each) {
    this.#clear()
    await this.#everyCaller(async (caller) => {
      for (let n = 0; n < each; n++) await this.#callUntil(caller, 0)
    })
    return { pairs: this.#pairs, overlaps: this.#overlaps, notOurs: this.#notOurs }
  }

  #clear() {
    this.#acquireTimes.clear()
    this.#pairTimes.clear()
    this.#pairs = 0
    this.#overlaps = 0
    this.#notOurs = 0
  }

  #everyCaller(call) {
    return Promise.all(this.#keys.map((_, caller) => call(caller)))
  }

  /** At least one pair. */
  async #callUntil(caller, until) {
    const lock = this.#lock
    const key = this.#keys[caller]
    const hold = this.#hold
    const holders = this.#holders
    const place = this.#places[caller]
    let now = performance.now()
    do {
      const asked = now
      const handle = await lock.acquire(key)
      this.#acquireTimes.add(performance.now() - asked)
      if (holders[place]++ !== 0) this.#overlaps++
      if (hold > 0) await sleep(hold)
      holders[place]--
      const released = await lock.release(handle)
      now = performance.now()
      if (released === false || released === 0) this.#notOurs++
      this.#pairTimes.add(now - asked)
      this.#pairs++
    } while (now < until)
  }
}

function spent() {
  return {
    machine: cpu.ofThisMachine(),
    thread: cpu.ofThisThread(),
    process: cpu.ofThisProcess(),
    clock: performance.now(),
  }
}

module.exports = { Workload }
