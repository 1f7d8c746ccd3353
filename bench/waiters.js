'use strict'

/** Callers that wait for locks which somebody else holds. Whoever gets its lock gives it back at once. */
class Waiters {
  #lock
  #served = 0
  #failed = 0
  #failure
  #all

  constructor(lock) {
    this.#lock = lock
  }

  /** `each` callers for each of `keys`. Resolves with how long the calls themselves took, ms. */
  start({ keys, each }) {
    const from = performance.now()
    const waiting = []
    for (let n = 0; n < each; n++) for (const key of keys) waiting.push(this.#wait(key))
    this.#all = Promise.all(waiting)
    return performance.now() - from
  }

  counts() {
    return { served: this.#served, failed: this.#failed, failure: this.#failure }
  }

  /** Resolves when all have had their turn. */
  async served() {
    await this.#all
    return this.counts()
  }

  async #wait(key) {
    try {
      const handle = await this.#lock.acquire(key)
      await this.#lock.release(handle)
      this.#served++
    } catch (error) {
      this.#failed++
      this.#failure ??= error?.message ?? String(error)
    }
  }
}

module.exports = { Waiters }
