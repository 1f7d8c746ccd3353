'use strict'

const { EventEmitter } = require('node:events')
const timers = require('node:timers')
const { inspect } = require('node:util')
const { CODE, allTargets, begin, close, detail, end, fetchNow, nextTick, open } = require('./bridge')
const { Claim, claim } = require('./claim')
const { LockClosedError, LockLostError, LockUnavailableError } = require('./errors')
const {
  callOptions,
  checkCallback,
  checkKey,
  closeOptions,
  managerOptions,
  readyOptions,
} = require('./options')

const { setTimeout, clearTimeout } = timers

/** @typedef {import('./lock').Lock} Lock */
/** @typedef {{ code?: string, message?: string, definite?: boolean }} Trouble */

/** The connected side of a manager: made at the first call. */
class Inner {
  /**
   * @param {LockManager} manager
   * @param {object} store
   */
  constructor(manager, store) {
    this.manager = manager
    /** How many locks are held. */
    this.held = 0
    /** @type {(() => void) | undefined} */
    this.onIdle = undefined
    /** @type {Set<(trouble: Trouble | null) => void>} who waits for the connection */
    this.watching = new Set()
    this.reported = false
    /** @type {import('../index').Stats | undefined} the counters of a manager that is closed */
    this.last = undefined
    const { addon, number, slot } = open(store, this)
    this.addon = addon
    this.number = number
    this.slot = slot
    const { place, core } = addon.identity(number)
    /** @type {string} */
    this.place = place
    this.identity = `hf1.p.${core}`
  }

  /**
   * Something about the connection.
   * @param {number} code
   * @param {number} again
   */
  settle(code, again) {
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
    if (manager.listenerCount(/** @type {any} */ (name)) === 0) return
    nextTick(() => manager.emit(/** @type {any} */ (name), ...(value === undefined ? [] : [value])))
  }

  /** Those of its claims that are under way. */
  *claims() {
    for (const target of allTargets()) if (target instanceof Claim && target.manager === this) yield target
  }

  counters() {
    return this.last ?? this.addon.counters(this.number)
  }

  leave() {
    this.last = this.counters()
    close(this.number, this.slot)
  }
}

class LockManager extends EventEmitter {
  #source
  /** @type {ReturnType<typeof managerOptions> | undefined} */
  #settings
  /** @type {Inner | undefined} */
  #inner
  /** @type {Promise<void> | undefined} */
  #closing

  /** @param {() => any} source of the options; asked for at the first use */
  constructor(source) {
    super()
    this.#source = source
  }

  /** Checked, and defaults filled in. */
  get #options() {
    this.#settings ??= managerOptions(this.#source(), process.env)
    return this.#settings
  }

  /**
   * With its options checked at once.
   * @param {any} options
   */
  static create(options) {
    const manager = new LockManager(() => options)
    manager.#options
    return manager
  }

  /**
   * Whether its options are fixed.
   * @param {LockManager} manager
   */
  static isUsed(manager) {
    return manager.#settings !== undefined
  }

  /**
   * @param {string} key
   * @param {any} [options]
   * @returns {Promise<Lock>}
   */
  acquire(key, options) {
    return this.#claim('acquire', key, options, false)
  }

  /**
   * @param {string} key
   * @param {any} [options]
   * @returns {Promise<Lock | null>}
   */
  tryAcquire(key, options) {
    return this.#claim('tryAcquire', key, options, true)
  }

  /**
   * @param {string} key
   * @param {any} options
   * @param {any} [fn]
   * @returns {Promise<any>}
   */
  async withLock(key, options, fn) {
    if (fn === undefined && typeof options === 'function') return this.withLock(key, undefined, options)
    checkCallback(fn)
    const { ifLost } = callOptions('withLock', options, this.#options.defaults)
    return run(await this.#claim('withLock', key, options, false), ifLost, fn)
  }

  /**
   * @param {string} key
   * @param {any} options
   * @param {any} [fn]
   * @returns {Promise<any>}
   */
  async tryWithLock(key, options, fn) {
    if (fn === undefined && typeof options === 'function') return this.tryWithLock(key, undefined, options)
    checkCallback(fn)
    const { ifLost } = callOptions('tryWithLock', options, this.#options.defaults)
    const lock = await this.#claim('tryWithLock', key, options, true)
    return lock === null ? { acquired: false } : { acquired: true, result: await run(lock, ifLost, fn) }
  }

  /** @param {any} [options] */
  async ready(options) {
    const { timeout } = readyOptions(options)
    const inner = this.#open()
    if (inner.addon.connect(inner.number) === null) return
    await new Promise((/** @type {(value?: undefined) => void} */ resolve, reject) => {
      /** @type {Trouble} */
      let last = { code: 'ETIMEDOUT', message: `no connection within ${timeout} ms` }
      const finish = (/** @type {Trouble | null} */ trouble) => {
        inner.watching.delete(watch)
        clearTimeout(timer)
        end()
        if (trouble === null) resolve()
        else reject(this.#closing ? new LockClosedError() : new LockUnavailableError(inner.place, trouble))
      }
      const watch = (/** @type {Trouble | null} */ trouble) => {
        if (trouble === null || trouble.definite || this.#closing) finish(trouble)
        else {
          last = trouble
          // Nobody else may want the connection: then it is for us to go on asking.
          inner.addon.connect(inner.number)
        }
      }
      const timer = timeout < 2 ** 31 ? setTimeout(() => finish(last), timeout) : undefined
      inner.watching.add(watch)
      begin()
    })
  }

  stats() {
    return this.#inner?.counters() ?? { ...NOTHING }
  }

  /** @param {any} [options] */
  close(options) {
    try {
      const { drain } = closeOptions(options)
      this.#closing ??= this.#close(drain)
      return this.#closing
    } catch (error) {
      return Promise.reject(error)
    }
  }

  [Symbol.asyncDispose]() {
    return this.close()
  }

  /** @param {number} drain */
  async #close(drain) {
    const inner = this.#inner
    if (!inner) return
    for (const claim of inner.claims()) claim.cancel(new LockClosedError(claim.key))
    // After #closing is set. Grants that were on their way are taken and given back.
    await null
    fetchNow()
    inner.tell({ code: 'ERR_LOCK_CLOSED', message: 'the manager was closed' })
    if (inner.held > 0 && drain > 0) await drained(inner, drain)
    await Promise.allSettled([...inner.claims()].map((claim) => claim.close()))
    inner.leave()
  }

  /**
   * @param {'acquire' | 'tryAcquire' | 'withLock' | 'tryWithLock'} call
   * @param {string} key
   * @param {any} given
   * @param {boolean} once
   * @returns {Promise<any>}
   */
  #claim(call, key, given, once) {
    try {
      checkKey(key)
      const options = callOptions(call, given, this.#options.defaults)
      if (this.#closing) throw new LockClosedError(key)
      return claim(this.#inner ?? this.#open(), key, options, once)
    } catch (error) {
      return Promise.reject(error)
    }
  }

  #open() {
    if (this.#closing) throw new LockClosedError()
    this.#inner ??= new Inner(this, this.#options.store)
    return this.#inner
  }

  [inspect.custom]() {
    if (!this.#settings) return 'LockManager {}'
    const { memory, path, host, port } = /** @type {any} */ (this.#settings.store)
    return `LockManager { ${memory === undefined ? (path ?? `${host}:${port}`) : `memory:${memory}`} }`
  }
}

const NOTHING = {
  acquired: 0,
  handedOn: 0,
  timeouts: 0,
  busy: 0,
  failed: 0,
  released: 0,
  lost: 0,
  held: 0,
  waiting: 0,
  commands: 0,
  renewals: 0,
  reconnects: 0,
}

/**
 * @param {Lock} lock
 * @param {'reject' | 'ignore'} ifLost
 * @param {(lock: Lock) => unknown} fn
 */
async function run(lock, ifLost, fn) {
  let result
  try {
    result = await fn(lock)
  } catch (error) {
    await lock.release().catch(() => {})
    throw error
  }
  const lost = await giveBack(lock)
  if (lost && ifLost === 'reject') {
    lost.result = result
    throw lost
  }
  return result
}

/**
 * @param {Lock} lock
 * @returns {Promise<any>} the loss, if there was one; a release that wasn't confirmed is an event
 */
async function giveBack(lock) {
  try {
    lock.assertHeld()
  } catch (error) {
    // Released by the callback itself: then there is nothing to give back, and nothing was lost.
    if (/** @type {LockLostError} */ (error).reason === 'released') return undefined
    await lock.release().catch(() => {})
    return error
  }
  const mine = await lock.release().catch(() => true)
  return mine ? undefined : new LockLostError(lock.key, 'taken')
}

/**
 * @param {Inner} inner
 * @param {number} millis
 */
function drained(inner, millis) {
  return new Promise((/** @type {(value?: undefined) => void} */ resolve) => {
    begin()
    const finish = () => {
      inner.onIdle = undefined
      clearTimeout(timer)
      end()
      resolve()
    }
    inner.onIdle = () => {
      if (inner.held === 0) finish()
    }
    const timer = millis < 2 ** 31 ? setTimeout(finish, millis) : undefined
  })
}

module.exports = { Inner, LockManager }
