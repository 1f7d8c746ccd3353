'use strict'

const { inspect } = require('node:util')
const { checkTtl } = require('./checks')
const { LockLostError } = require('./errors')
const { extension } = require('./extension')

/** @typedef {import('./claim').Claim} Claim */

/** A held lock, as callers see it. Nested holds of a reentrant lock are handles of one claim. */
class Lock {
  /** @type {Claim} */
  #claim
  /** @type {Promise<boolean> | undefined} */
  #released

  /** @param {Claim} claim */
  constructor(claim) {
    if (typeof claim?.settle !== 'function') throw new TypeError('a Lock is made by acquire()')
    this.#claim = claim
  }

  get key() {
    return this.#claim.key
  }

  get keys() {
    return this.#claim.keys
  }

  get token() {
    return this.#claim.token
  }

  get fencingToken() {
    return this.#claim.fence
  }

  get waited() {
    return this.#claim.waited
  }

  get holdCount() {
    return this.#released ? 0 : this.#claim.holdCount
  }

  get held() {
    return !this.#released && this.#claim.held
  }

  get remaining() {
    return this.#released ? 0 : this.#claim.remaining
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
    this.#assertNotReleased()
    const why = this.#claim.whyNotHeld()
    if (why) throw why
  }

  async extend(ttl = this.#claim.ttl) {
    checkTtl('ttl', ttl)
    this.#assertNotReleased()
    return extension('extend', this.#claim, ttl)
  }

  async detach(ttl = this.#claim.ttl) {
    checkTtl('ttl', ttl)
    this.#assertNotReleased()
    return extension('detach', this.#claim, ttl)
  }

  release() {
    this.#released ??= this.#claim.releaseOne()
    return this.#released
  }

  async [Symbol.asyncDispose]() {
    // A failure is an event; here it would hide the error of the block.
    await this.release().catch(() => {})
  }

  /** A handle of a reentrant lock can be given back while others are held. */
  #assertNotReleased() {
    const { loss, wanted } = this.#claim
    if (this.#released) throw loss ?? new LockLostError(wanted, 'released')
  }

  /**
   * The acquisition behind a lock.
   * @param {Lock} lock
   */
  static claimOf(lock) {
    return lock.#claim
  }

  [inspect.custom](/** @type {number} */ _depth, /** @type {import('node:util').InspectOptions} */ options) {
    const { keys, fencingToken, held, remaining } = this
    const name = keys.length === 1 ? { key: keys[0] } : { keys }
    return `Lock ${inspect({ ...name, fencingToken, held, remaining }, options)}`
  }

  get [Symbol.toStringTag]() {
    return 'Lock'
  }
}

module.exports = { Lock }
