'use strict'

const { EventEmitter } = require('node:events')
const { inspect } = require('node:util')
const { promise } = require('../promise')
const { called, read } = require('./calls')
const { isNothing } = require('./codec')
const { Caller } = require('./flight')
const { inTurn } = require('./large')
const { isYoungEnough, spread, written } = require('./load')
const { cacheOptions, callTerms, checkKey, checkLoader, checkReserved, lifetime } = require('./options')
const { Shared } = require('./shared')
const { CacheStatistics } = require('./statistics')

// Values that are loaded once in the whole fleet.

/** @typedef {import('../inner').Inner} Inner */
/** @typedef {import('./load').Loader} Loader */

class Cache extends EventEmitter {
  #open
  #settings
  /** @type {Shared | undefined} */
  #shared

  /**
   * @param {() => Inner} open
   * @param {any} options
   */
  constructor(open, options) {
    super()
    if (typeof open !== 'function') throw new TypeError('a Cache is made by cache() of a manager')
    this.#open = open
    this.#settings = cacheOptions(options)
  }

  /**
   * @param {string} key
   * @param {Loader} loader
   * @param {any} [options]
   * @returns {Promise<any>}
   */
  getOrSet(key, loader, options) {
    return this.#load('getOrSet', key, loader, options)
  }

  /**
   * @param {string} key
   * @param {Loader} loader
   * @param {any} [options]
   * @returns {Promise<any>}
   */
  refresh(key, loader, options) {
    return this.#load('refresh', key, loader, options)
  }

  /**
   * @param {string} key
   * @param {any} [options]
   * @returns {Promise<any>}
   */
  async get(key, options) {
    checkKey(key)
    const terms = callTerms('get', options, this.#settings.terms)
    const shared = this.#ready(key)
    const answer = await read(shared.inner, shared.full(key), shared.codec)
    if (answer.state === 'unavailable' || answer.state === 'closed') throw answer.error
    const { entry } = answer
    if (!entry || !shared.isKnown(key, entry)) return undefined
    if (entry.fresh <= 0 && !isYoungEnough(entry, terms)) return undefined
    try {
      const value = shared.codec.read(entry)
      shared.count(key, entry.fresh > 0 ? 'hit' : 'stale')
      return value
    } catch (error) {
      shared.failedToRead(key, error)
      return undefined
    }
  }

  /**
   * @param {string} key
   * @param {any} value
   * @param {any} [options]
   * @returns {Promise<void>}
   */
  async set(key, value, options) {
    checkKey(key)
    const terms = callTerms('set', options, this.#settings.terms)
    const shared = this.#ready(key)
    const { kind, payload } = shared.codec.write(key, value)
    const ttl = (isNothing(kind) ? terms.negativeTtl : undefined) ?? lifetime(terms)
    const entry = { kind, payload, spent: 0, fresh: spread(ttl, terms.ttlJitter) }
    await inTurn(shared.inner.largeValues, payload, () =>
      this.#overrule(key, shared, (addon, number, slot, full, lock) =>
        addon.setValue(number, slot, full, lock, written(entry, terms)),
      ),
    )
  }

  /**
   * @param {string} key
   * @returns {Promise<boolean>}
   */
  async delete(key) {
    checkKey(key)
    return this.#overrule(key, this.#ready(key), (addon, number, slot, full, lock) =>
      addon.dropValue(number, slot, full, lock, false),
    )
  }

  /**
   * @param {string} key
   * @returns {Promise<boolean>}
   */
  async expire(key) {
    checkKey(key)
    return this.#overrule(key, this.#ready(key), (addon, number, slot, full, lock) =>
      addon.dropValue(number, slot, full, lock, true),
    )
  }

  stats() {
    return (this.#shared?.statistics ?? new CacheStatistics()).snapshot()
  }

  /**
   * The manager is closed.
   * @param {Cache} cache
   * @param {Error} error
   */
  static close(cache, error) {
    cache.#shared?.close(error)
  }

  /**
   * @param {'getOrSet' | 'refresh'} call
   * @param {string} key
   * @param {Loader} loader
   * @param {any} options
   * @returns {Promise<any>}
   */
  #load(call, key, loader, options) {
    try {
      checkKey(key)
      checkLoader(loader)
      const terms = callTerms(call, options, this.#settings.terms)
      lifetime(terms)
      const shared = this.#ready(key)
      const promised = new Promise(promise.capture)
      shared.enter(key, new Caller(loader, terms, promise.resolve, promise.reject), call === 'refresh')
      return promised
    } catch (error) {
      return Promise.reject(error)
    }
  }

  /** @param {string} key */
  #ready(key) {
    const inner = this.#open()
    this.#shared ??= new Shared(this, inner, this.#settings)
    checkReserved(key, this.#shared.reserved)
    return this.#shared
  }

  /**
   * @param {string} key
   * @param {Shared} shared
   * @param {(addon: any, number: number, slot: number, full: string, lock: string) => void} ask
   * @returns {Promise<boolean>}
   */
  async #overrule(key, shared, ask) {
    const full = shared.full(key)
    // Who comes from now on doesn't join a load that has begun before.
    shared.reads.delete(key)
    shared.flights.delete(key)
    shared.refreshes.delete(key)
    shared.succeeded(key)
    const { state, error } = await called(shared.inner, full, shared.codec, (addon, number, { slot }) =>
      ask(addon, number, slot, full, shared.lockOf(key)),
    )
    if (error) throw error
    return state === 'done'
  }

  [inspect.custom]() {
    return `Cache { '${this.#settings.prefix}' }`
  }
}

module.exports = { Cache }
