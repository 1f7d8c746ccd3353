'use strict'

const {
  CODE,
  begin,
  detail,
  end,
  fetchNow,
  fetchSoon,
  flushSoon,
  freeSlot,
  hold,
  letGo,
  observeRenewals,
} = require('./bridge')
const { channels, debug } = require('./channels')
const { watchHandle } = require('./collected')
const { LOSSES, LockLostError, LockTimeoutError, LockUnavailableError } = require('./errors')
const { Lock } = require('./lock')
const { promise } = require('./promise')
const { refusal } = require('./refusal')
const { bounded, terms } = require('./terms')

// One acquisition, from the call until the lock is given back or lost: the state behind a Lock.

const ONCE = 1
const RENEWED = 2

const WAITING = 0
const HELD = 1
const RELEASING = 2
const RELEASED = 3
const LOST = 4

/** @typedef {import('./manager').LockManager} LockManager */
/** @typedef {import('./options').CallOptions} CallOptions */

const nothing = () => {}

class Claim {
  /**
   * @param {import('./inner').Inner} manager
   * @param {string | readonly string[]} wanted
   * @param {CallOptions} options
   * @param {boolean} once try: a lock that is taken is no error
   */
  constructor(manager, wanted, options, once) {
    this.manager = manager
    this.wanted = wanted
    this.options = options
    this.once = once
    /** It turns a ticket into a lock. */
    this.adopts = false
    /** It was granted, and the time was over when this was heard: it asks again when that is settled. */
    this.late = false
    this.state = WAITING
    this.id = 0
    this.slot = 0
    this.fence = 0
    this.waited = 0
    this.turn = 0
    /** How many handles share it. */
    this.count = 1
    /** How many holds its owner had when it was granted. */
    this.holds = 1
    /** @type {string | undefined} what the keys hold, if that isn't told by the turn */
    this.value = undefined
    this.resolve = promise.resolve
    this.reject = promise.reject
    /** @type {(() => void) | undefined} */
    this.forgetSignal = undefined
    /** @type {LockLostError | undefined} */
    this.loss = undefined
    /** @type {AbortController | undefined} */
    this.controller = undefined
    /** @type {Promise<boolean> | undefined} */
    this.releasing = undefined
    /** @type {Promise<any> | undefined} a call of detach that isn't answered */
    this.detaching = undefined
    /** @type {any} the caller's reason to stop waiting, if it came while the grant was on its way */
    this.unwanted = undefined
    /** @type {Lock | undefined} the handle, until the garbage collector watches it */
    this.handle = undefined
    /** @type {string | undefined} where it was acquired */
    this.stack = undefined
    /** When it was granted, if somebody wants to know how long it was held. */
    this.since = 0
  }

  get key() {
    return typeof this.wanted === 'string' ? this.wanted : this.wanted[0]
  }

  /** @returns {readonly string[]} */
  get keys() {
    return typeof this.wanted === 'string' ? [this.wanted] : this.wanted
  }

  get ttl() {
    return this.options.ttl
  }

  get owner() {
    return this.options.owner
  }

  /** Unique to this acquisition. */
  get token() {
    return `${this.value ?? `${this.manager.identity}.${this.turn}`}.${this.fence}`
  }

  /**
   * @param {number} code
   * @param {number} a
   * @param {number} b
   * @param {number} c
   */
  settle(code, a, b, c) {
    if (code === CODE.GRANTED || code === CODE.LATE) return this.granted(a, b, c, code === CODE.LATE)
    if (code === CODE.RELEASED) return this.released(a === 1)
    if (code === CODE.LOST && this.state !== WAITING) return this.lost(LOSSES[a])
    if (code === CODE.LOST && this.late) return this.askAgain()
    if (code === CODE.RENEWED) return this.renewed()
    if (code === CODE.STALLED) return this.manager.announce('stalled', { keys: this.keys, silent: a })
    if (this.state === RELEASING) return this.releaseFailed(detail(this.slot, code))
    const slot = this.slot
    this.stopWaiting(RELEASED)
    freeSlot(slot)
    this.refused(code, a, b, c)
  }

  /**
   * Begins to wait, for so many milliseconds, -1 for ever.
   * @param {number} patience
   */
  ask(patience) {
    const { manager, slot, wanted, options } = this
    const single = this.once || options.timeout === 0
    if (typeof wanted === 'string' && !options.own) {
      const flags = (single ? ONCE : 0) | (options.autoExtend ? RENEWED : 0)
      this.id = manager.addon.acquire(manager.number, slot, wanted, options.ttl, patience, flags)
    } else {
      const lock = { keys: this.keys, owner: options.owner }
      this.id = manager.addon.acquireLock(manager.number, slot, lock, terms(options), patience, single)
    }
    flushSoon(manager.number)
  }

  /** The process stood still for longer than it had the lock, which counts as if it had not been granted. */
  askAgain() {
    this.late = false
    if (this.unwanted === undefined) {
      return this.ask(bounded(Math.max(0, this.options.timeout - this.waited)))
    }
    const { slot } = this
    this.stopWaiting(RELEASED)
    freeSlot(slot)
    this.reject(this.unwanted)
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
   * @param {boolean} late its time may be over
   */
  granted(fence, waited, turn, late) {
    this.fence = fence
    this.waited = waited
    this.turn = turn
    if (typeof this.wanted !== 'string' || this.owner !== undefined) {
      const { token, holds } = detail(this.slot, CODE.GRANTED)
      this.value = token
      this.holds = holds ?? 1
    }
    if (late && !this.adopts && this.manager.addon.remaining(this.manager.number, this.id) === 0) {
      this.late = true
      return
    }
    this.stopWaiting(HELD)
    this.manager.held++
    hold()
    if (this.unwanted !== undefined) {
      // The caller gave up, or the manager was closed, while this was on its way.
      this.reject(this.unwanted)
      this.release(true).catch(() => {})
      return
    }
    const lock = new Lock(this)
    this.handle = lock
    if (channels.hold.hasSubscribers) this.since = performance.now()
    observeRenewals(channels.renew.hasSubscribers)
    if (channels.acquire.hasSubscribers) this.publish('granted', { waited, fencingToken: fence })
    const { resolve } = this
    if (promise.resolve === resolve) promise.resolve = promise.reject = nothing
    this.resolve = nothing
    this.reject = nothing
    resolve(lock)
  }

  /**
   * @param {number} code
   * @param {number} a
   * @param {number} b
   * @param {number} c
   */
  refused(code, a, b, c) {
    const error = refusal(this, code, a, b, c)
    if (channels.acquire.hasSubscribers) {
      this.publish(error instanceof LockTimeoutError ? (this.once ? 'busy' : 'timeout') : 'failed', { error })
    }
    if (this.once && error instanceof LockTimeoutError) return this.resolve(null)
    debug('%s', error.message)
    this.reject(error)
  }

  /**
   * @param {string} outcome
   * @param {object} more
   */
  publish(outcome, more) {
    channels.acquire.publish({ keys: this.keys, outcome, ...more })
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
    if (channels.acquire.hasSubscribers) this.publish('failed', { error: reason })
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

  /** Neither given back nor lost, as far as this side has heard. */
  get isHeld() {
    return this.state === HELD
  }

  get held() {
    return this.state === HELD && this.manager.addon.remaining(this.manager.number, this.id) > 0
  }

  get remaining() {
    return this.state === HELD ? this.manager.addon.remaining(this.manager.number, this.id) : 0
  }

  get holdCount() {
    if (!this.held) return 0
    return this.owner === undefined ? this.count : this.holds + this.count - 1
  }

  /** @returns {LockLostError | undefined} why it isn't held */
  whyNotHeld() {
    if (this.loss) return this.loss
    if (this.state !== HELD) return new LockLostError(this.wanted, 'released')
    if (this.held) return undefined
    // Its deadline has passed, in this very turn of the loop; the record that says why is there.
    fetchNow()
    return this.loss ?? new LockLostError(this.wanted, this.state === HELD ? 'expired' : 'released')
  }

  /** One more handle of a lock that is held. */
  share() {
    this.count++
    return new Lock(this)
  }

  /**
   * One of the handles is given back; the last one gives the lock back.
   * @returns {Promise<boolean>}
   */
  releaseOne() {
    if (--this.count > 0) return Promise.resolve(this.held)
    return this.release()
  }

  /**
   * @param {boolean} atOnce whatever `minHold`: nobody ever had it
   * @returns {Promise<boolean>}
   */
  release(atOnce = false) {
    if (this.releasing) return this.releasing
    if (this.state !== HELD) return Promise.resolve(false)
    const said = this.manager.addon.release(this.manager.number, this.id, atOnce)
    if (said === 0) {
      // Lost; the record of that is on its way, and frees the slot.
      this.releasing = Promise.resolve(false)
      return this.releasing
    }
    const released = this.beginRelease()
    if (said & 2) fetchSoon()
    return released
  }

  /**
   * Gives it back by a call of the addon that does more than that. `false`: it isn't held any more, and nothing was done.
   * @param {(id: number) => boolean} call
   */
  releaseBy(call) {
    if (this.releasing || this.state !== HELD || !call(this.id)) return false
    // A failure is an event.
    this.beginRelease().catch(() => {})
    return true
  }

  beginRelease() {
    this.state = RELEASING
    begin()
    this.releasing = new Promise(promise.capture)
    this.resolve = promise.resolve
    this.reject = promise.reject
    flushSoon(this.manager.number)
    return this.releasing
  }

  /** @param {boolean} mine */
  released(mine) {
    const { resolve } = this
    this.ended(RELEASED, mine ? 'released' : 'gone')
    end()
    resolve(mine)
  }

  /** @param {{ code?: string, message?: string }} trouble */
  releaseFailed(trouble) {
    const { reject, wanted, manager } = this
    this.ended(RELEASED, 'released')
    end()
    const error = new LockUnavailableError(manager.place, trouble, {
      wanted,
      doing: 'no confirmed release of',
    })
    manager.announce('releaseFailed', error)
    reject(error)
  }

  /** @param {import('./errors').Loss} reason */
  lost(reason) {
    this.ended(LOST, reason)
    if (this.loss) return
    this.loss = new LockLostError(this.wanted, reason)
    this.announceLoss(this.loss)
    this.controller?.abort(this.loss)
  }

  /** @param {LockLostError} loss */
  announceLoss(loss) {
    // A cache's own.
    if (this.options.quiet) return
    if (channels.lost.hasSubscribers) {
      channels.lost.publish({ keys: this.keys, fencingToken: this.fence, error: loss })
    }
    this.manager.announce('lost', loss)
  }

  renewed() {
    if (channels.renew.hasSubscribers) channels.renew.publish({ keys: this.keys, fencingToken: this.fence })
  }

  /**
   * @param {number} state
   * @param {string} outcome
   */
  ended(state, outcome) {
    this.state = state
    this.handle = undefined
    freeSlot(this.slot)
    letGo()
    this.manager.held--
    this.manager.onIdle?.()
    if (channels.hold.hasSubscribers && this.since > 0) {
      const held = performance.now() - this.since
      channels.hold.publish({ keys: this.keys, fencingToken: this.fence, outcome, held })
    }
  }

  /** The lock went over to its ticket. */
  detached() {
    this.ended(RELEASED, 'detached')
  }

  /** The manager is closed: the holder is told before the lock goes. */
  close() {
    if (this.state !== HELD) return this.releasing
    this.loss = new LockLostError(this.wanted, 'closed')
    this.manager.closed++
    this.announceLoss(this.loss)
    const released = this.release()
    this.controller?.abort(this.loss)
    return released
  }

  /** From time to time, while it is under way: a handle that has lived for a while is worth watching. */
  watch() {
    if (this.handle === undefined) return
    watchHandle(this.handle, this)
    this.handle = undefined
  }
}

module.exports = { Claim }
