'use strict'

const { CODE, begin, detail, end, flushSoon, freeSlot, takeSlot } = require('./bridge')
const { LOSSES, LockLostError, LockUnavailableError } = require('./errors')
const { promise } = require('./promise')

// Calls about a lock that is held: extend and detach.

/** @typedef {import('./claim').Claim} Claim */

class Extension {
  /**
   * @param {Claim} claim
   * @param {number} ttl
   */
  constructor(claim, ttl) {
    this.claim = claim
    this.ttl = ttl
    this.slot = 0
    this.resolve = promise.resolve
    this.reject = promise.reject
  }

  /**
   * @param {number} code
   * @param {number} a
   */
  settle(code, a) {
    const { claim, slot } = this
    const { token = '', ...trouble } =
      code === CODE.UNAVAILABLE || code === CODE.DETACHED ? detail(slot, code) : {}
    this.done()
    switch (code) {
      case CODE.EXTENDED:
        return this.resolve(undefined)
      case CODE.DETACHED:
        claim.detached()
        return this.resolve(ticket(claim, token, this.ttl))
      case CODE.LOST:
        return this.reject(this.whyNot(LOSSES[a]))
    }
    const doing = 'no confirmed change of the lock on'
    this.reject(new LockUnavailableError(claim.manager.place, trouble, { wanted: claim.wanted, doing }))
  }

  /** @param {import('./errors').Loss} reason */
  whyNot(reason) {
    const { claim } = this
    return claim.loss ?? new LockLostError(claim.wanted, claim.releasing ? 'released' : reason)
  }

  done() {
    freeSlot(this.slot)
    end()
  }
}

/**
 * @param {Claim} claim
 * @param {string} token
 * @param {number} ttl
 */
function ticket({ keys, fence, owner }, token, ttl) {
  return { keys: [...keys], token, fencingToken: fence, ttl, ...(owner === undefined ? {} : { owner }) }
}

/**
 * @param {'extend' | 'detach'} call
 * @param {Claim} claim
 * @param {number} ttl
 * @returns {Promise<any>}
 */
async function extension(call, claim, ttl) {
  // What comes during a detach depends on whether that succeeds.
  while (claim.detaching) await claim.detaching.catch(() => {})
  if (call === 'extend') return begun(call, claim, ttl)
  claim.detaching = begun(call, claim, ttl).finally(() => {
    claim.detaching = undefined
  })
  return claim.detaching
}

/**
 * @param {'extend' | 'detach'} call
 * @param {Claim} claim
 * @param {number} ttl
 * @returns {Promise<any>}
 */
function begun(call, claim, ttl) {
  const why = claim.whyNotHeld()
  if (why) return Promise.reject(why)
  const promised = new Promise(promise.capture)
  const made = new Extension(claim, ttl)
  made.slot = takeSlot(made)
  begin()
  if (claim.manager.addon[call](claim.manager.number, claim.id, made.slot, ttl)) {
    flushSoon(claim.manager.number)
  } else {
    made.done()
    made.reject(claim.whyNotHeld() ?? made.whyNot('expired'))
  }
  return promised
}

module.exports = { extension }
