'use strict'

const { burst, nextTick } = require('../bridge')
const { channels, debug } = require('../channels')
const { LockClosedError, LockUnavailableError } = require('../errors')
const { read } = require('./calls')
const { CacheLoadError, CacheValueError } = require('./errors')
const { Flight } = require('./flight')
const { isDueEarly, rebuild } = require('./load')
const { reservedFor } = require('./options')
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

/** How many keys a process remembers that failed a while ago, or that somebody else loads. */
const MOST_REMEMBERED = 1_000
/** How long it isn't asked again whether a key is loaded after a failure, ms. */
const KNOWN_FOR = 1_000
/** How often it is told that a key holds something else, ms. */
const TELLS_AGAIN = 60_000
/** How long a process that has met another one's load in the background leaves it alone, ms. */
const LOOKS_AGAIN = 250

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
    this.reserved = reservedFor(prefix, inner.prefix)
    this.statistics = new CacheStatistics()
    this.counters = this.statistics.counters
    /** @type {Map<string, Flight>} reads that may not be sent yet */
    this.reads = new Map()
    /** @type {Map<string, Flight>} loads, here or elsewhere, that further callers join */
    this.flights = new Map()
    /** @type {Map<string, Flight>} loads by order that haven't begun */
    this.refreshes = new Map()
    /** @type {Map<string, Promise<unknown>>} loads that nobody waits for */
    this.rebuilds = new Map()
    /** @type {Set<(error: Error) => void>} what cuts off the loaders that run */
    this.loading = new Set()
    /** @type {Map<string, number>} until when a key whose load failed isn't loaded again by who has an older value */
    this.backoffs = new Map()
    this.schedule = new Schedule((key, loader, terms) => this.refreshed(key, loader, terms))
    /** @type {Map<string, number>} until when nobody here looks again whether somebody else loads */
    this.busy = new Map()
    this.bypassing = false
    /** @type {Map<string, number>} until when it isn't told again that a key holds something else */
    this.told = new Map()
    /** @type {Error | undefined} */
    this.closed = undefined
  }

  /** @param {string} key */
  full(key) {
    return this.prefix + key
  }

  /** @param {string} key */
  lockOf(key) {
    return `load:${this.prefix}${key}`
  }

  /**
   * A flight is about to load; returns the one that does so already.
   * @param {Flight} flight
   */
  begin(flight) {
    const { name, forced } = flight
    const flights = forced ? this.refreshes : this.flights
    const known = flights.get(name)
    if (!known) flights.set(name, flight)
    return known
  }

  /** @param {Flight} flight */
  wasRead(flight) {
    if (this.reads.get(flight.name) === flight) this.reads.delete(flight.name)
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

  /** @param {Entry} entry */
  canRead(entry) {
    try {
      if (!this.codec.knows(entry.kind)) return false
      this.codec.read(entry)
      return true
    } catch {
      return false
    }
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
   * @param {number} asked when
   */
  served(key, entry, caller, asked) {
    this.keep(key, caller, entry)
    if (entry.fresh > 0 && !isDueEarly(entry, caller.terms)) return
    if (entry.fresh > 0) this.counters.earlyRefreshes++
    this.rebuildLater(key, caller, entry, { ...entry, asked, answered: performance.now() })
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
    await this.rebuildLater(key, { loader, terms }, old ?? { ...this.codec.nothing(), fresh: -Infinity })
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
   * @param {import('./load').Order} order
   * @param {Entry} old what there is
   * @param {import('./load').Seen} [seen] if it is fresh
   * @returns {Promise<unknown>}
   */
  rebuildLater(key, order, old, seen) {
    const known = this.rebuilds.get(key)
    if (known) return known
    if (isBefore(this.busy, key)) return Promise.resolve()
    const seat = {
      background: true,
      forced: false,
      early: old.fresh > 0 ? seen : undefined,
      waits: () => {},
      begins: () => order,
      ends: () => {},
      left: new Promise(() => {}),
    }
    const done = rebuild(this, key, order.terms, old, seat)
      .then((result) => {
        if ('busy' in result) remember(this.busy, key, LOOKS_AGAIN)
        else if ('alone' in result) this.bypassed(key, result.alone)
        // What was overruled is loaded again when somebody asks.
        else if ('error' in result && !result.lost) this.failedToLoad(key, result.error)
      })
      .catch((error) => this.failedToLoad(key, error))
      .finally(() => this.rebuilds.delete(key))
    this.rebuilds.set(key, done)
    return done
  }

  /** @param {string} key */
  isBackingOff(key) {
    return isBefore(this.backoffs, key)
  }

  /**
   * @param {string} key
   * @param {number} millis
   */
  backOff(key, millis) {
    // The mark in Redis counts, which a value that is stored takes away.
    if (millis > 0) remember(this.backoffs, key, Math.min(millis, KNOWN_FOR))
  }

  /** @param {string} key */
  succeeded(key) {
    this.backoffs.delete(key)
    this.busy.delete(key)
  }

  /**
   * @param {string} key
   * @param {Caller} caller
   * @param {boolean} forced
   */
  enter(key, caller, forced) {
    const known = (forced ? this.refreshes : this.flights).get(key)
    if (known) return known.join(caller)
    if (forced) return new Flight(this, key, true).load(caller)
    const read = this.reads.get(key)
    // One that is sent may be answered by what was there before this call.
    if (read && read.burst === burst()) return read.callers.push(caller)
    const flight = new Flight(this, key, false)
    this.reads.set(key, flight)
    flight.read(caller)
  }

  /**
   * @param {string} key
   * @param {Caller} caller
   * @param {Error} error
   */
  async fallBack(key, { terms: { hasFallback, fallback }, context, resolve, reject }, error) {
    if (!hasFallback) return reject(error)
    try {
      /** @type {any} */
      const call = typeof fallback === 'function' ? fallback : () => fallback
      const value = await context.runInAsyncScope(call, undefined, error, key)
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

  /**
   * @param {string} key
   * @param {Error} error
   */
  bypassed(key, error) {
    this.counters.bypasses++
    if (error instanceof LockUnavailableError) {
      if (this.bypassing) return
      this.bypassing = true
    } else {
      if (isBefore(this.told, key)) return
      remember(this.told, key, TELLS_AGAIN)
    }
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
    this.closed = error
    this.schedule.stop()
    for (const flight of [...this.flights.values(), ...this.refreshes.values()]) flight.close(error)
    for (const cut of [...this.loading]) cut(error)
  }
}

/**
 * @param {Map<string, number>} times
 * @param {string} key
 * @param {number} millis
 */
function remember(times, key, millis) {
  if (times.size >= MOST_REMEMBERED) {
    const [oldest] = times.keys()
    times.delete(oldest)
  }
  times.set(key, performance.now() + millis)
}

/**
 * Whether it isn't yet that time.
 * @param {Map<string, number>} times
 * @param {string} key
 */
function isBefore(times, key) {
  const until = times.get(key)
  if (until === undefined) return false
  if (performance.now() < until) return true
  times.delete(key)
  return false
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
