'use strict'

const { setTimeout: sleep } = require('node:timers/promises')
const caches = require('./caches/index.js')
const cpu = require('./cpu.js')
const clock = require('./machine-clock.js')
const { Samples } = require('./samples.js')

/** Callers of this process that read values through one cache. */
class CacheReaders {
  /** `loadMs`: how long loading a value takes. */
  static async open({ cache, url, ttl, loadMs = 0 }) {
    const readers = new CacheReaders()
    const load = async (key) => {
      readers.#loads++
      if (loadMs > 0) await sleep(loadMs)
      return productOf(key)
    }
    readers.#cache = await caches.load(cache).create({ url, ttl, load })
    return readers
  }

  #cache
  #loads = 0
  #reads = 0
  #wrong = 0
  #times = new Samples()

  /** One caller for each of `keys`, which reads it again and again for `ms`. Times are µs. */
  async window({ keys, ms }) {
    this.#clear()
    const before = spent()
    const until = before.clock + ms
    await Promise.all(keys.map((key) => this.#readUntil(key, until)))
    // Before the quantiles: sorting isn't the library's work.
    const after = spent()

    const [hitP50, hitP99] = this.#times.quantiles(0.5, 0.99)
    return {
      ...this.#counts(),
      ms: after.clock - before.clock,
      hitP50: hitP50 * 1_000,
      hitP99: hitP99 * 1_000,
      threadCpu: before.thread === undefined ? undefined : after.thread - before.thread,
      processCpu: after.process - before.process,
      machineCpu: after.machine - before.machine,
    }
  }

  /** Each of `keys` once: one after the other, or all at once. */
  async readEach({ keys, atOnce = false }) {
    this.#clear()
    if (atOnce) await Promise.all(keys.map((key) => this.#readUntil(key, 0)))
    else for (const key of keys) await this.#readUntil(key, 0)
    return this.#counts()
  }

  /** That many callers of one key, once, at a time on the shared clock. `slowest`: of the last one, ms after that time. */
  async herd({ key, callers, at }) {
    this.#clear()
    const start = at - clock.offset()
    await sleep(Math.max(0, start - performance.now()))
    await Promise.all(Array.from({ length: callers }, () => this.#readUntil(key, 0)))
    return { ...this.#counts(), slowest: performance.now() - start }
  }

  close() {
    return this.#cache.close()
  }

  /** At least once. */
  async #readUntil(key, until) {
    const cache = this.#cache
    let now = performance.now()
    do {
      const asked = now
      const value = await cache.read(key)
      now = performance.now()
      this.#times.add(now - asked)
      this.#reads++
      if (value.key !== key) this.#wrong++
    } while (now < until)
  }

  #clear() {
    this.#times.clear()
    this.#loads = 0
    this.#reads = 0
    this.#wrong = 0
  }

  #counts() {
    return { reads: this.#reads, loads: this.#loads, wrong: this.#wrong }
  }
}

/** About 1 KB of JSON: what an API might say of a product. */
function productOf(key) {
  return {
    key,
    name: 'A chair of oak with a seat of woven cord, made to order',
    price: { amount: 249.5, currency: 'EUR', reduced: false },
    stock: [12, 0, 3, 48, 7],
    tags: ['furniture', 'oak', 'dining', 'outdoor', 'made to order'],
    description:
      'It stands where the others have long given in: in the rain, in the sun and under guests who lean back with a book. '.repeat(
        4,
      ),
    reviews: Array.from({ length: 4 }, (_, n) => ({
      id: 1_000 + n,
      stars: 5 - n,
      text: 'Sits well, and came a day early.',
      helpful: n % 2 === 0,
    })),
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

module.exports = { CacheReaders, productOf }
