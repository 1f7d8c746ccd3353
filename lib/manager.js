'use strict'

const { EventEmitter } = require('node:events')
const timers = require('node:timers')
const { inspect } = require('node:util')
const { adopt, claim } = require('./acquire')
const { begin, end, fetchNow } = require('./bridge')
const { Cache } = require('./cache/cache')
const { debug } = require('./channels')
const { LockClosedError, LockDeadlockError, LockUnavailableError } = require('./errors')
const { Inner } = require('./inner')
const { invalidValue } = require('./invalid')
const { holderAround, outside } = require('./nesting')
const {
  callOptions,
  checkCallback,
  checkKeys,
  checkTicket,
  closeOptions,
  managerOptions,
  readyOptions,
} = require('./options')
const { run } = require('./run')
const { NOTHING } = require('./statistics')

const { setTimeout, clearTimeout } = timers

/** @typedef {import('./lock').Lock} Lock */
/** @typedef {import('./inner').Trouble} Trouble */
/** @typedef {import('./options').CallOptions} CallOptions */
/** @typedef {string | readonly string[]} Keys */

class LockManager extends EventEmitter {
  #source
  /** @type {ReturnType<typeof managerOptions> | undefined} */
  #settings
  /** @type {Inner | undefined} */
  #inner
  /** @type {Promise<void> | undefined} */
  #closing
  /** @type {Cache[]} */
  #caches = []

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
   * @param {Keys} key
   * @param {any} [options]
   * @returns {Promise<Lock>}
   */
  acquire(key, options) {
    return this.#call('acquire', key, options, false)
  }

  /**
   * @param {Keys} key
   * @param {any} [options]
   * @returns {Promise<Lock | null>}
   */
  tryAcquire(key, options) {
    return this.#call('tryAcquire', key, options, true)
  }

  /**
   * @param {Keys} key
   * @param {any} options
   * @param {any} [fn]
   * @returns {Promise<any>}
   */
  async withLock(key, options, fn) {
    if (fn === undefined && typeof options === 'function') return this.withLock(key, undefined, options)
    checkCallback(fn)
    const checked = callOptions('withLock', options, this.#options.defaults)
    return run(await this.#claim(key, checked, false), checked, fn)
  }

  /**
   * @param {Keys} key
   * @param {any} options
   * @param {any} [fn]
   * @returns {Promise<any>}
   */
  async tryWithLock(key, options, fn) {
    if (fn === undefined && typeof options === 'function') return this.tryWithLock(key, undefined, options)
    checkCallback(fn)
    const checked = callOptions('tryWithLock', options, this.#options.defaults)
    const lock = await this.#claim(key, checked, true)
    return lock === null ? { acquired: false } : { acquired: true, result: await run(lock, checked, fn) }
  }

  /**
   * @param {any} ticket
   * @param {any} [options]
   * @returns {Promise<Lock>}
   */
  async adopt(ticket, options) {
    const checked = checkTicket(ticket)
    const { defaults } = this.#options
    const given = callOptions('adopt', options, { ...defaults, ttl: checked.ttl, minHold: 0 })
    const inner = this.#open()
    if (!inner.addon.isToken(checked.token)) {
      throw invalidValue('ticket.token', checked.token, 'what detach() returned')
    }
    return adopt(inner, checked, given)
  }

  /**
   * @template T
   * @param {() => T} fn
   * @returns {T}
   */
  detached(fn) {
    checkCallback(fn)
    return outside(fn)
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

  /** @param {any} [options] */
  cache(options) {
    const cache = new Cache(() => this.#open(), options)
    this.#caches.push(cache)
    return cache
  }

  stats() {
    return this.#inner?.stats() ?? structuredClone(NOTHING)
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
    debug('%s: close, %d held, drain %d ms', inner.place, inner.held, drain)
    for (const cache of this.#caches) Cache.close(cache, new LockClosedError())
    for (const claim of inner.claims()) claim.cancel(new LockClosedError(claim.wanted))
    // After #closing is set. Grants that were on their way are taken and given back.
    await null
    fetchNow()
    inner.tell({ code: 'ERR_LOCK_CLOSED', message: 'the manager was closed' })
    if (inner.held > 0 && drain > 0) await drained(inner, drain)
    await Promise.allSettled([...inner.claims()].map((claim) => claim.close()))
    inner.leave()
  }

  /**
   * @param {'acquire' | 'tryAcquire'} call
   * @param {Keys} key
   * @param {any} given
   * @param {boolean} once
   * @returns {Promise<any>}
   */
  #call(call, key, given, once) {
    try {
      return this.#claim(key, callOptions(call, given, this.#options.defaults), once)
    } catch (error) {
      return Promise.reject(error)
    }
  }

  /**
   * @param {Keys} key
   * @param {CallOptions} options
   * @param {boolean} once
   * @returns {Promise<any>}
   */
  #claim(key, options, once) {
    const wanted = checkKeys(key)
    if (this.#closing) throw new LockClosedError(wanted)
    const inner = this.#inner ?? this.#open()
    if (options.detectDeadlock) {
      const keys = typeof wanted === 'string' ? [wanted] : wanted
      const holder = holderAround(inner.space, keys, options.owner)
      if (holder) return nested(holder, keys, options, once)
    }
    return claim(inner, wanted, options, once)
  }

  #open() {
    if (this.#closing) throw new LockClosedError()
    this.#inner ??= new Inner(this, this.#options.store, this.#options.defaults)
    return this.#inner
  }

  [inspect.custom]() {
    if (!this.#settings) return 'LockManager {}'
    const { memory, path, host, port } = /** @type {any} */ (this.#settings.store)
    return `LockManager { ${memory === undefined ? (path ?? `${host}:${port}`) : `memory:${memory}`} }`
  }
}

/**
 * A call that comes from within a callback which holds what it asks for.
 * @param {import('./claim').Claim} holder
 * @param {readonly string[]} keys
 * @param {CallOptions} options
 * @param {boolean} once
 * @returns {Promise<Lock | null>}
 */
async function nested(holder, keys, { reentrant, signal }, once) {
  if (signal?.aborted) throw signal.reason
  if (reentrant && keys.every((key) => holder.keys.includes(key))) {
    const why = holder.whyNotHeld()
    if (why) throw why
    return holder.share()
  }
  if (once) return null
  throw new LockDeadlockError(keys, reentrant)
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

module.exports = { LockManager }
