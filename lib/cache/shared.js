'use strict'

const { nextTick } = require('../bridge')
const { channels, debug } = require('../channels')
const { LockClosedError, LockUnavailableError } = require('../errors')
const { read } = require('./calls')
const { CacheLoadError, CacheValueError } = require('./errors')
const { Flight } = require('./flight')
const { isDueEarly, rebuild } = require('./load')
const { Schedule } = require('./schedule')
const { CacheStatistics } = require('./statistics')

// What the parts of a cache share: who is under way, what is remembered, and what is counted and told.

/** @typedef {import('../inner').Inner} Inner */
/** @typedef {import('./cache').Cache} Cache */
/** @typedef {import('./calls').Entry} Entry */
/** @typedef {import('./codec').Codec} Codec */
/** @typedef {import('./flight').Caller} Caller */
/** @typedef {import('./load').Loader} Loader */
/** @typedef {import('./options').Terms} Terms */

/** How many keys a process remembers that failed a while ago. */
const MOST_BACKOFFS = 1_000

class Shared {
  /**
   * @param {Cache} cache
   * @param {Inner} inner
   * @param {{ prefix: string, codec: Codec }} options
   */
  constructor(cache, inner, { prefix, codec }) {
    this.cache = cache
    this.inner = inner
    this.prefix = prefix
    this.codec = codec
    this.statistics = new CacheStatistics()
    this.counters = this.statistics.counters
    /** @type {Map<string, Flight>} those that further callers join */
    this.flights = new Map()
    /** @type {Map<string, Flight>} the same for loads by order */
    this.refreshes = new Map()
    /** @type {Map<string, Promise<unknown>>} loads that nobody waits for */
    this.rebuilds = new Map()
    /** @type {Set<(reason: unknown) => void>} what ends the loaders that run */
    this.loading = new Set()
    /** @type {Map<string, number>} until when a key whose load failed isn't loaded again by who has an older value */
    this.backoffs = new Map()
    this.schedule = new Schedule((key, loader, terms) => this.refreshed(key, loader, terms))
    this.bypassing = false
  }

  /** @param {string} key */
  full(key) {
    return this.prefix + key
  }

  /** @param {string} key */
  lockOf(key) {
    return `load:${this.prefix}${key}`
  }

  /** @param {Flight} flight */
  forget(flight) {
    const { name, forced } = flight
    const flights = forced ? this.refreshes : this.flights
    if (flights.get(name) === flight) flights.delete(name)
  }

  /**
   * Whether there is an entry, and it is written as this cache writes.
   * @param {string} key
   * @param {Entry | undefined} entry
   */
  isKnown(key, entry) {
    if (!entry) return false
    if (this.codec.knows(entry.kind)) return true
    this.failedToRead(key, new CacheValueError(key, 'was written with another codec'))
    return false
  }

  /**
   * Whether an entry can be decoded.
   * @param {string} key
   * @param {Entry | undefined} entry
   */
  isReadable(key, entry) {
    if (!entry || !this.isKnown(key, entry)) return false
    try {
      this.codec.read(entry)
      return true
    } catch (error) {
      this.failedToRead(key, error)
      return false
    }
  }

  /**
   * @param {string} key
   * @param {'hit' | 'stale' | 'loaded' | 'fallback'} outcome
   */
  count(key, outcome) {
    const { counters } = this
    if (outcome === 'hit') counters.hits++
    else if (outcome === 'stale') counters.staleHits++
    else if (outcome === 'fallback') counters.fallbacks++
    if (channels.cache.hasSubscribers) channels.cache.publish({ key: this.full(key), outcome })
  }

  /**
   * A value was there; who gave it away sees to it that it stays fresh.
   * @param {string} key
   * @param {Entry} entry
   * @param {Caller} caller
   */
  served(key, entry, { loader, terms }) {
    this.keep(key, { loader, terms }, entry)
    if (entry.fresh > 0 && !isDueEarly(entry, terms)) return
    if (entry.fresh > 0) this.counters.earlyRefreshes++
    this.rebuildLater(key, loader, terms, entry)
  }

  /**
   * Makes a value fresh that isn't, whether somebody asks for it or not; says for how long it is, ms.
   * @param {string} key
   * @param {Loader} loader
   * @param {Terms} terms
   */
  async refreshed(key, loader, terms) {
    const find = () => read(this.inner, this.full(key), this.codec)
    const { entry, state } = await find()
    if (entry && entry.fresh > 0) return entry.fresh
    if (state === 'closed') return 0
    const old = this.isKnown(key, entry) ? entry : undefined
    await this.rebuildLater(key, loader, terms, old ?? { ...this.codec.nothing(0), fresh: -Infinity })
    return (await find()).entry?.fresh ?? 0
  }

  /**
   * Remembers what is to be refreshed on time.
   * @param {string} key
   * @param {{ loader: Loader, terms: Terms }} order
   * @param {Entry} entry
   */
  keep(key, { loader, terms }, { fresh }) {
    if (terms.refreshEvery !== undefined) this.schedule.keep(key, loader, terms, fresh)
  }

  /**
   * A load that nobody waits for. It never rejects.
   * @param {string} key
   * @param {Loader} loader
   * @param {Terms} terms
   * @param {Entry} old what there is
   * @returns {Promise<unknown>}
   */
  rebuildLater(key, loader, terms, old) {
    const known = this.rebuilds.get(key)
    if (known) return known
    const left = new Promise(() => {})
    const seat = {
      background: true,
      forced: false,
      early: old.fresh,
      begins: () => ({ loader, terms }),
      left,
    }
    const done = rebuild(this, key, terms, old, seat)
      .then((result) => {
        if ('error' in result) this.failedToLoad(key, result.error)
        else if ('alone' in result) this.bypassed(result.alone)
      })
      .catch((error) => this.failedToLoad(key, error))
      .finally(() => this.rebuilds.delete(key))
    this.rebuilds.set(key, done)
    return done
  }

  /** @param {string} key */
  isBackingOff(key) {
    const until = this.backoffs.get(key)
    if (until === undefined) return false
    if (performance.now() < until) return true
    this.backoffs.delete(key)
    return false
  }

  /**
   * @param {string} key
   * @param {number} millis
   */
  backOff(key, millis) {
    if (millis === 0) return
    if (this.backoffs.size >= MOST_BACKOFFS) {
      const [oldest] = this.backoffs.keys()
      this.backoffs.delete(oldest)
    }
    this.backoffs.set(key, performance.now() + millis)
  }

  /** @param {string} key */
  succeeded(key) {
    this.backoffs.delete(key)
  }

  /**
   * @param {string} key
   * @param {Caller} caller
   * @param {boolean} forced
   */
  again(key, caller, forced) {
    caller.late = false
    this.enter(key, caller, forced)
  }

  /**
   * @param {string} key
   * @param {Caller} caller
   * @param {boolean} forced
   */
  enter(key, caller, forced) {
    const flights = forced ? this.refreshes : this.flights
    const known = flights.get(key)
    // What is ordered now isn't done by a load that has begun before.
    if (known && !(forced && known.loading)) return known.join(caller)
    const flight = new Flight(this, key, forced)
    flights.set(key, flight)
    if (!forced) return flight.read(caller)
    flight.callers.push(caller)
    flight.miss(undefined, undefined)
  }

  /**
   * @param {string} key
   * @param {Caller} caller
   * @param {Error} error
   */
  async fallBack(key, { terms: { hasFallback, fallback }, resolve, reject }, error) {
    if (!hasFallback) return reject(error)
    try {
      const value = await (typeof fallback === 'function' ? fallback(error, key) : fallback)
      this.count(key, 'fallback')
      resolve(value)
    } catch (cause) {
      reject(cause)
    }
  }

  /** Redis answers. */
  reachable() {
    this.bypassing = false
  }

  /** @param {Error} error */
  bypassed(error) {
    this.counters.bypasses++
    if (this.bypassing) return
    this.bypassing = error instanceof LockUnavailableError
    this.announce('bypassed', error)
  }

  /**
   * @param {string} key
   * @param {unknown} error
   */
  failedToRead(key, error) {
    this.counters.readFailures++
    this.announce('readFailed', valueError(key, 'could not be decoded', error))
  }

  /**
   * @param {string} key
   * @param {unknown} error
   */
  failedToWrite(key, error) {
    this.counters.writeFailures++
    this.announce('writeFailed', valueError(key, 'could not be stored', error))
  }

  /**
   * @param {string} key
   * @param {unknown} error
   */
  failedToLoad(key, error) {
    if (error instanceof LockClosedError) return
    this.announce(
      'loadFailed',
      error instanceof Error && 'key' in error ? error : new CacheLoadError(key, error),
    )
  }

  /**
   * An event, in a turn of its own: what a listener throws is the listener's.
   * @param {string} name
   * @param {Error} error
   */
  announce(name, error) {
    debug('%s %s: %s %s', this.inner.place, this.prefix, name, error.message)
    const { cache } = this
    if (cache.listenerCount(name) > 0) nextTick(() => cache.emit(name, error))
  }

  /** @param {Error} error */
  close(error) {
    this.schedule.stop()
    for (const abort of [...this.loading]) abort(error)
    for (const flight of [...this.flights.values(), ...this.refreshes.values()]) flight.close(error)
  }
}

/**
 * @param {string} key
 * @param {string} why
 * @param {unknown} error
 */
function valueError(key, why, error) {
  return error instanceof CacheValueError ? error : new CacheValueError(key, why, error)
}

module.exports = { Shared }
