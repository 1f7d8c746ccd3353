'use strict'

const { Samples } = require('./samples.js')

/**
 * How late a timer fires that is due every millisecond. After a long silence all that were due meanwhile count, each
 * with its own lateness: otherwise a loop that stands still for a second would show as one late timer among many.
 */
class TimerWatch {
  #lateness = new Samples()
  /** Nothing is due unless started. */
  #due = Infinity
  #timer

  start() {
    this.#lateness.clear()
    this.#due = performance.now() + 1
    this.#arm()
  }

  /** Those that were due until now count, fired or not. */
  stop() {
    clearTimeout(this.#timer)
    this.#look()
    this.#due = Infinity
  }

  /** The lateness that this share of all due times stayed within, ms. */
  quantile(share) {
    return this.#lateness.quantiles(share)[0]
  }

  #arm() {
    this.#timer = setTimeout(() => {
      this.#look()
      this.#arm()
    }, 1)
  }

  #look() {
    const now = performance.now()
    for (; this.#due <= now; this.#due++) this.#lateness.add(now - this.#due)
  }
}

module.exports = { TimerWatch }
