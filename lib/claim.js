'use strict'

const { CODE, begin, detail, end, fetchSoon, flushSoon, freeSlot, takeSlot } = require('./bridge')
const {
  LockClosedError,
  LockLostError,
  LockTimeoutError,
  LockUnavailableError,
  LockWrongTypeError,
} = require('./errors')
const { Lock } = require('./lock')

// One acquisition, from the call until the lock is given back or lost: the state behind a Lock.

const ONCE = 1
const RENEWED = 2
const FOREVER = -1

const WAITING = 0
const HELD = 1
const RELEASING = 2
const RELEASED = 3
const LOST = 4

/** @type {('spinning' | 'queued' | 'connecting')[]} */
const PHASES = ['spinning', 'queued', 'connecting']
/** @type {('expired' | 'taken' | 'unreachable' | 'closed')[]} */
const REASONS = ['expired', 'taken', 'unreachable', 'closed']

/** @typedef {import('./manager').LockManager} LockManager */
/** @typedef {import('./options').CallOptions} CallOptions */

/** @type {(value: any) => void} */
let resolvePromise
/** @type {(reason: any) => void} */
let rejectPromise
/**
 * The executor of every promise: one closure for all of them.
 * @param {(value: any) => void} resolve
 * @param {(reason: any) => void} reject
 */
const capture = (resolve, reject) => {
  resolvePromise = resolve
  rejectPromise = reject
}

class Claim {
  /**
   * @param {import('./manager').Inner} manager
   * @param {string} key
   * @param {CallOptions} options
   * @param {boolean} once try: a lock that is taken is no error
   */
  constructor(manager, key, options, once) {
    this.manager = manager
    this.key = key
    this.ttl = options.ttl
    this.once = once
    this.state = WAITING
    this.id = 0
    this.slot = 0
    this.fence = 0
    this.waited = 0
    this.turn = 0
    this.resolve = resolvePromise
    this.reject = rejectPromise
    /** @type {(() => void) | undefined} */
    this.forgetSignal = undefined
    /** @type {LockLostError | undefined} */
    this.loss = undefined
    /** @type {AbortController | undefined} */
    this.controller = undefined
    /** @type {Promise<boolean> | undefined} */
    this.releasing = undefined
    /** @type {any} the caller's reason to stop waiting, if it came while the grant was on its way */
    this.unwanted = undefined
  }

  /**
   * @param {number} code
   * @param {number} a
   * @param {number} b
   * @param {number} c
   */
  settle(code, a, b, c) {
    if (code === CODE.GRANTED) return this.granted(a, b, c)
    if (code === CODE.RELEASED) return this.released(a === 1)
    if (code === CODE.LOST) return this.lost(REASONS[a])
    if (this.state === RELEASING) return this.releaseFailed(detail(this.slot, code))
    const slot = this.slot
    this.stopWaiting(RELEASED)
    freeSlot(slot)
    this.refused(code, a, b, c)
  }

  /** @param {number} state */
  stopWaiting(state) {
    this.state = state
    this.forgetSignal?.()
    this.forgetSignal = undefined
    end()
  }

  /**
   * @param {number} fence
   * @param {number} waited
   * @param {number} turn
   */
  granted(fence, waited, turn) {
    this.fence = fence
    this.waited = waited
    this.turn = turn
    this.stopWaiting(HELD)
    this.manager.held++
    if (this.unwanted === undefined) return this.resolve(new Lock(this))
    // The caller gave up, or the manager was closed, while this was on its way.
    this.reject(this.unwanted)
    this.release().catch(() => {})
  }

  /**
   * @param {number} code
   * @param {number} a
   * @param {number} b
   * @param {number} c
   */
  refused(code, a, b, c) {
    const { key, manager } = this
    switch (code) {
      case CODE.BUSY:
      case CODE.TIMED_OUT: {
        const { holder } = detail(this.slot, code)
        if (this.once) return this.resolve(null)
        return this.reject(new LockTimeoutError(key, { waited: a, attempts: b, phase: PHASES[c], holder }))
      }
      case CODE.WRONG_TYPE:
        return this.reject(new LockWrongTypeError(key, detail(this.slot, code)))
      case CODE.CLOSED:
        return this.reject(new LockClosedError(key))
      default:
        return this.reject(new LockUnavailableError(manager.place, detail(this.slot, code), { key }))
    }
  }

  /**
   * The caller doesn't want it any more.
   * @param {any} reason
   */
  cancel(reason) {
    if (this.state !== WAITING) return
    if (!this.manager.addon.cancel(this.manager.number, this.id)) {
      // Answered already; the record is on its way.
      this.unwanted ??= reason
      return
    }
    flushSoon(this.manager.number)
    const slot = this.slot
    this.stopWaiting(RELEASED)
    freeSlot(slot)
    this.reject(reason)
  }

  /** @param {AbortSignal} signal */
  listen(signal) {
    const abort = () => this.cancel(signal.reason)
    signal.addEventListener('abort', abort, { once: true })
    this.forgetSignal = () => {
      try {
        signal.removeEventListener('abort', abort)
      } catch {
        // Not a signal of Node's: then its trouble is its own.
      }
    }
  }

  get held() {
    return this.state === HELD && this.manager.addon.remaining(this.manager.number, this.id) > 0
  }

  get remaining() {
    return this.state === HELD ? this.manager.addon.remaining(this.manager.number, this.id) : 0
  }

  /** @returns {LockLostError | undefined} why it isn't held */
  whyNotHeld() {
    if (this.loss) return this.loss
    if (this.state !== HELD) return new LockLostError(this.key, 'released')
    // Its deadline has passed, in this very turn of the loop; the record is on its way.
    return this.held ? undefined : new LockLostError(this.key, 'expired')
  }

  /** @returns {Promise<boolean>} */
  release() {
    if (this.releasing) return this.releasing
    if (this.state !== HELD) return Promise.resolve(false)
    const said = this.manager.addon.release(this.manager.number, this.id)
    if (said === 0) {
      // Lost; the record of that is on its way, and frees the slot.
      this.releasing = Promise.resolve(false)
      return this.releasing
    }
    this.state = RELEASING
    begin()
    this.releasing = new Promise(capture)
    this.resolve = resolvePromise
    this.reject = rejectPromise
    if (said & 2) fetchSoon()
    flushSoon(this.manager.number)
    return this.releasing
  }

  /** @param {boolean} mine */
  released(mine) {
    const { resolve } = this
    this.ended(RELEASED)
    end()
    resolve(mine)
  }

  /** @param {{ code?: string, message?: string }} trouble */
  releaseFailed(trouble) {
    const { reject, key, manager } = this
    this.ended(RELEASED)
    end()
    const error = new LockUnavailableError(manager.place, trouble, { key, doing: 'no confirmed release of' })
    manager.announce('releaseFailed', error)
    reject(error)
  }

  /** @param {'expired' | 'taken' | 'unreachable' | 'closed'} reason */
  lost(reason) {
    this.ended(LOST)
    if (this.loss) return
    this.loss = new LockLostError(this.key, reason)
    this.manager.announce('lost', this.loss)
    this.controller?.abort(this.loss)
  }

  /** @param {number} state */
  ended(state) {
    this.state = state
    freeSlot(this.slot)
    this.manager.held--
    this.manager.onIdle?.()
  }

  /** The manager is closed: the holder is told before the lock goes. */
  close() {
    if (this.state !== HELD) return this.releasing
    this.loss = new LockLostError(this.key, 'closed')
    this.manager.announce('lost', this.loss)
    const released = this.release()
    this.controller?.abort(this.loss)
    return released
  }

  /**
   * @param {number} ttl
   * @returns {Promise<void>}
   */
  extend(ttl) {
    const why = this.whyNotHeld()
    if (why) return Promise.reject(why)
    return Extension.begin(this, ttl)
  }
}

/** One call of extend. */
class Extension {
  /** @param {Claim} claim */
  constructor(claim) {
    this.claim = claim
    this.slot = 0
    this.resolve = resolvePromise
    this.reject = rejectPromise
  }

  /**
   * @param {Claim} claim
   * @param {number} ttl
   */
  static begin(claim, ttl) {
    const promise = new Promise(capture)
    const extension = new Extension(claim)
    extension.slot = takeSlot(extension)
    begin()
    if (claim.manager.addon.extend(claim.manager.number, claim.id, extension.slot, ttl)) {
      flushSoon(claim.manager.number)
    } else {
      extension.done()
      extension.reject(claim.whyNotHeld() ?? new LockLostError(claim.key, 'expired'))
    }
    return promise
  }

  /**
   * @param {number} code
   * @param {number} a
   */
  settle(code, a) {
    const { claim, slot } = this
    const trouble = code === CODE.UNAVAILABLE ? detail(slot, code) : {}
    this.done()
    if (code === CODE.EXTENDED) return this.resolve(undefined)
    if (code === CODE.LOST) return this.reject(claim.loss ?? new LockLostError(claim.key, REASONS[a]))
    const doing = 'no confirmed extension of the lock on'
    this.reject(new LockUnavailableError(claim.manager.place, trouble, { key: claim.key, doing }))
  }

  done() {
    freeSlot(this.slot)
    end()
  }
}

/**
 * Begins an acquisition.
 * @param {import('./manager').Inner} manager
 * @param {string} key
 * @param {CallOptions} options
 * @param {boolean} once
 */
function claim(manager, key, options, once) {
  const { signal, timeout, ttl } = options
  if (signal?.aborted) return Promise.reject(signal.reason)
  const promise = new Promise(capture)
  const made = new Claim(manager, key, options, once)
  if (signal) made.listen(signal)
  const slot = takeSlot(made)
  made.slot = slot
  const flags = (once || timeout === 0 ? ONCE : 0) | (options.autoExtend ? RENEWED : 0)
  made.id = manager.addon.acquire(
    manager.number,
    slot,
    key,
    ttl,
    timeout === Infinity ? FOREVER : timeout,
    flags,
  )
  begin()
  flushSoon(manager.number)
  return promise
}

module.exports = { Claim, claim }
