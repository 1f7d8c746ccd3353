'use strict'

const { inspect } = require('node:util')
const { checkTtl } = require('./options')

/** @typedef {import('./claim').Claim} Claim */

/** A held lock, as callers see it. */
class Lock {
  /** @type {Claim} */
  #claim

  /** @param {Claim} claim */
  constructor(claim) {
    if (typeof claim?.settle !== 'function') throw new TypeError('a Lock is made by acquire()')
    this.#claim = claim
  }

  get key() {
    return this.#claim.key
  }

  get keys() {
    return [this.#claim.key]
  }

  get token() {
    const { manager, turn, fence } = this.#claim
    return `${manager.identity}.${turn}.${fence}`
  }

  get fencingToken() {
    return this.#claim.fence
  }

  get waited() {
    return this.#claim.waited
  }

  get held() {
    return this.#claim.held
  }

  get remaining() {
    return this.#claim.remaining
  }

  get signal() {
    const claim = this.#claim
    if (!claim.controller) {
      // An AbortController costs more than taking and releasing the lock: only for those who look.
      claim.controller = new AbortController()
      if (claim.loss) claim.controller.abort(claim.loss)
    }
    return claim.controller.signal
  }

  assertHeld() {
    const why = this.#claim.whyNotHeld()
    if (why) throw why
  }

  async extend(ttl = this.#claim.ttl) {
    return this.#claim.extend(checkTtl('ttl', ttl))
  }

  release() {
    return this.#claim.release()
  }

  async [Symbol.asyncDispose]() {
    // A failure is an event; here it would hide the error of the block.
    await this.#claim.release().catch(() => {})
  }

  [inspect.custom](/** @type {number} */ _depth, /** @type {import('node:util').InspectOptions} */ options) {
    const { key, fencingToken, held, remaining } = this
    return `Lock ${inspect({ key, fencingToken, held, remaining }, options)}`
  }

  get [Symbol.toStringTag]() {
    return 'Lock'
  }
}

module.exports = { Lock }
