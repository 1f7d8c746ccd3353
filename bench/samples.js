'use strict'

/** Durations of one window. Grows by doubling, so that adding one costs next to nothing and none is dropped. */
class Samples {
  #values = new Float64Array(1 << 16)
  #length = 0

  add(value) {
    if (this.#length === this.#values.length) {
      const larger = new Float64Array(this.#values.length * 2)
      larger.set(this.#values)
      this.#values = larger
    }
    this.#values[this.#length++] = value
  }

  clear() {
    this.#length = 0
  }

  /** In the order in which they came. */
  all() {
    return this.#values.subarray(0, this.#length)
  }

  /** The given quantiles (0 to 1), by nearest rank. */
  quantiles(...wanted) {
    const sorted = this.#values.slice(0, this.#length).sort()
    return wanted.map((q) => sorted[Math.max(0, Math.ceil(q * sorted.length) - 1)])
  }
}

module.exports = { Samples }
