'use strict'

/** The executor of every promise: one closure for all of them, which leaves the two ends of the last one here. */
const promise = {
  /** @type {(value: any) => void} */
  resolve: () => {},
  /** @type {(reason: any) => void} */
  reject: () => {},
  /**
   * @param {(value: any) => void} resolve
   * @param {(reason: any) => void} reject
   */
  capture(resolve, reject) {
    promise.resolve = resolve
    promise.reject = reject
  },
}

module.exports = { promise }
