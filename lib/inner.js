'use strict'

const { CODE, allTargets, close, detail, nextTick, open } = require('./bridge')
const { debug } = require('./channels')
const { Traffic } = require('./cache/large')
const { Claim } = require('./claim')
const { LockUnavailableError } = require('./errors')
const { statsOf } = require('./statistics')
const { terms } = require('./terms')

/** @typedef {import('./manager').LockManager} LockManager */
/** @typedef {{ code?: string, message?: string, definite?: boolean }} Trouble */

/** The connected side of a manager: made at the first call. */
class Inner {
  /**
   * @param {LockManager} manager
   * @param {any} store
   * @param {import('./options').CallOptions} defaults
   */
  constructor(manager, store, defaults) {
    this.manager = manager
    this.defaults = defaults
    /** How many locks are held. */
    this.held = 0
    /** @type {(() => void) | undefined} */
    this.onIdle = undefined
    /** @type {Set<(trouble: Trouble | null) => void>} who waits for the connection */
    this.watching = new Set()
    this.reported = false
    /** How many locks were taken from their holders by close(). */
    this.closed = 0
    /** It is over: the addon doesn't know it any more. */
    this.left = false
    /** Of caches. */
    this.largeValues = new Traffic()
    /** @type {import('../index').Stats | undefined} the counters of a manager that is closed */
    this.last = undefined
    const { addon, number, slot } = open(store, terms(defaults), this)
    this.addon = addon
    this.number = number
    this.slot = slot
    const { place, core } = addon.identity(number)
    /** @type {string} */
    this.place = place
    this.identity = `hf1.p.${core}`
    this.prefix = store.keyPrefix
    /** What its keys belong to: equal for managers whose keys are the same. */
    this.space = `${place} ${store.db} ${store.keyPrefix}`
  }

  /**
   * Something about the connection.
   * @param {number} code
   * @param {number} again
   */
  settle(code, again) {
    if (code === CODE.ADAPTED) return this.adapted(detail(this.slot, code))
    if (code === CODE.FALLBACK) {
      // The right to a channel is what is missing most often, and an ACL names it apart from keys.
      const what =
        "can't tell this process when its turn comes, which it finds by looking once a second at the most " +
        `(it needs +subscribe, and the channels &${this.prefix}*)`
      const error = new LockUnavailableError(this.place, detail(this.slot, code), { what })
      return this.announce('fallback', error)
    }
    if (code === CODE.STORE_AVAILABLE) {
      this.reported = false
      if (again === 1) this.announce('reconnected')
      return this.tell(null)
    }
    const trouble = detail(this.slot, code)
    if (!this.reported) {
      this.reported = true
      this.announce('unavailable', new LockUnavailableError(this.place, trouble))
    }
    this.tell(trouble)
  }

  /** @param {{ key?: string, choice?: string, p99?: number }} how */
  adapted({ key = '', choice, p99 }) {
    this.announce('adapted', { key: key.slice(this.prefix.length), strategy: choice, p99 })
  }

  /** @param {Trouble | null} trouble */
  tell(trouble) {
    for (const each of this.watching) each(trouble)
  }

  /**
   * An event, in a turn of its own: what a listener throws is the listener's.
   * @param {string} name
   * @param {unknown} [value]
   */
  announce(name, value) {
    const { manager } = this
    debug('%s: %s %s', this.place, name, value instanceof Error ? value.message : (value ?? ''))
    if (manager.listenerCount(/** @type {any} */ (name)) === 0) return
    nextTick(() => manager.emit(/** @type {any} */ (name), ...(value === undefined ? [] : [value])))
  }

  /** Those of its claims that are under way. */
  *claims() {
    for (const target of allTargets()) if (target instanceof Claim && target.manager === this) yield target
  }

  stats() {
    return this.last ?? statsOf(this.addon.counters(this.number))
  }

  leave() {
    // What was taken from holders at the end is lost to them, although it was given back.
    const { losses, lost, released, ...same } = this.stats()
    const closed = Math.min(this.closed, released)
    this.last = {
      ...same,
      losses: { ...losses, closed: losses.closed + closed },
      lost: lost + closed,
      released: released - closed,
    }
    this.left = true
    close(this.number, this.slot)
  }
}

module.exports = { Inner }
