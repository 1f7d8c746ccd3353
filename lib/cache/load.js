'use strict'

const timers = require('node:timers')
const { claim } = require('../acquire')
const { channels } = require('../channels')
const { LockClosedError, LockLostError, LockTimeoutError } = require('../errors')
const { Lock } = require('../lock')
const { inside } = require('../nesting')
const { DEFAULTS } = require('../options')
const { endLoad, look, wait } = require('./calls')
const { isNothing } = require('./codec')
const { CacheError, CacheLoadError, CacheTimeoutError, fromWords, toWords } = require('./errors')
const { lifetime } = require('./options')

// How a value that isn't there, or isn't fresh, comes to be: one process of the fleet takes a lock, looks again, loads and stores;
// the others wait to be told.

/** @typedef {import('./shared').Shared} Shared */
/** @typedef {import('./calls').Entry} Entry */
/** @typedef {import('./options').Terms} Terms */
/** @typedef {(context: any) => any} Loader */
/** @typedef {{ loader: Loader, terms: Terms }} Order who loads, and by which terms */

/**
 * What came of it. `overruled`: a value was loaded that must not be kept, because somebody changed it meanwhile or the lock
 * was lost: it is good for those who asked before the loader began. `old`: a load failed a while ago, and the old value has to do.
 * `busy`: somebody else sees to it. `alone`: there is no lock to be had, and why.
 * @typedef {{ entry: Entry, overruled?: boolean } | { error: Error } | { old: true } | { busy: true } | { alone: Error } | { nobody: true }} Result
 */

/**
 * For whom: `begins` is called when the loader is to run, and says by whose terms, if anybody still wants the value; `left`
 * is fulfilled when nobody does. `background`: nobody waits for it. `forced`: whatever is there. `early`: although what was
 * seen is fresh for so long, ms.
 * @typedef {{ background: boolean, forced: boolean, early?: number, begins: () => Order | undefined, left: Promise<void> }} Seat
 */

const { setTimeout, clearTimeout } = timers
const LONGEST_TIMER = 2 ** 31 - 1
/** A load that takes longer than this share of the ttl isn't begun even earlier for that. */
const LONGEST_SHARE = 0.1
/** Refreshed values are kept for ten years: long enough to be called for ever. */
const FOR_EVER = 10 * 365 * 86_400_000

/**
 * @param {Shared} cache
 * @param {string} key
 * @param {Terms} terms
 * @param {Entry | undefined} old what there is, if it can be read
 * @param {Seat} seat
 * @returns {Promise<Result>}
 */
async function rebuild(cache, key, terms, old, seat) {
  const backsOff = !seat.forced && old !== undefined && isGoodEnough(old, terms)
  if (backsOff && cache.isBackingOff(key)) return { old: true }
  for (;;) {
    const taken = await take(cache, key, terms, seat.forced)
    if (!(taken instanceof Lock)) {
      if (taken !== null) return taken
      if (seat.background) return { busy: true }
      const found = await waitForOther(cache, key, backsOff, seat)
      if (found) return found
      continue
    }
    const found = seat.forced ? undefined : await lookAgain(cache, key, backsOff, taken, seat)
    const order = found ? undefined : seat.begins()
    if (order) return loadAndStore(cache, key, order, old, taken)
    giveBack(taken)
    return found ?? { nobody: true }
  }
}

/**
 * The lock of whoever loads; `null`: somebody else has it.
 * @param {Shared} cache
 * @param {string} key
 * @param {Terms} terms
 * @param {boolean} waits
 * @returns {Promise<Lock | null | Result>}
 */
async function take(cache, key, { lockTtl, waitTimeout }, waits) {
  const { maxStall, captureStacks } = cache.inner.defaults
  const own = { ttl: lockTtl, timeout: waits ? waitTimeout : 0, maxStall, captureStacks }
  try {
    return await claim(
      cache.inner,
      cache.lockOf(key),
      { ...DEFAULTS, ...own, own: true, quiet: true },
      !waits,
    )
  } catch (cause) {
    const error = /** @type {Error} */ (cause)
    if (error instanceof LockTimeoutError) {
      return { error: new CacheTimeoutError(key, waitTimeout, 'waiting') }
    }
    if (error instanceof LockClosedError) return { error }
    cache.counters.lockFailures++
    return { alone: error }
  }
}

/**
 * @param {Shared} cache
 * @param {string} key
 * @param {boolean} backsOff
 * @param {Seat} seat
 * @returns {Promise<Result | undefined>} nothing if it is for us to try
 */
async function waitForOther(cache, key, backsOff, { left }) {
  cache.counters.waits++
  const { answer, forget } = wait(cache.inner, cache.full(key), cache.codec, cache.lockOf(key), backsOff)
  const came = await Promise.race([answer, left])
  if (!came) {
    forget()
    return { nobody: true }
  }
  const { entry } = came
  if (entry) return cache.isReadable(key, entry) ? { entry } : undefined
  switch (came.state) {
    case 'nothing':
      return { entry: cache.codec.nothing(came.kind ?? 0) }
    case 'failed':
      return { error: new CacheLoadError(key, fromWords(came.words ?? '')) }
    case 'backs off':
      return { old: true }
    case 'closed':
      return { error: /** @type {Error} */ (came.error) }
    case 'unavailable':
    case 'foreign':
      return { alone: /** @type {Error} */ (came.error) }
  }
  return undefined
}

/**
 * Somebody may have loaded it between our look and our lock.
 * @param {Shared} cache
 * @param {string} key
 * @param {boolean} backsOff
 * @param {Lock} lock
 * @param {Seat} seat
 * @returns {Promise<Result | undefined>}
 */
async function lookAgain(cache, key, backsOff, lock, { early = 0 }) {
  const { id } = Lock.claimOf(lock)
  const { state, entry, error } = await look(
    cache.inner,
    cache.full(key),
    cache.codec,
    cache.lockOf(key),
    id,
    backsOff,
  )
  if (entry && entry.fresh > early && cache.isReadable(key, entry)) return { entry }
  if (state === 'backs off') return { old: true }
  if (state === 'closed') return { error: /** @type {Error} */ (error) }
  return undefined
}

/**
 * @param {Shared} cache
 * @param {string} key
 * @param {Order} order
 * @param {Entry | undefined} old
 * @param {Lock} lock
 * @returns {Promise<Result>}
 */
async function loadAndStore(cache, key, { loader, terms }, old, lock) {
  const full = cache.full(key)
  const claimed = Lock.claimOf(lock)
  const ends = (/** @type {(addon: any, number: number, slot: number, id: number) => boolean} */ end) =>
    endLoad(cache.inner, full, cache.codec, claimed, end)
  /** @type {Entry} */
  let entry
  try {
    entry = await load(cache, key, loader, terms, old, lock)
  } catch (cause) {
    const error = asLoadError(key, cause)
    const backoff = old === undefined || !isGoodEnough(old, terms) ? 0 : terms.errorBackoff
    cache.backOff(key, backoff)
    const words = toWords(error instanceof CacheLoadError ? error.cause : error)
    const answer = await ends((addon, number, slot, id) =>
      addon.failLoad(number, slot, id, full, words, backoff),
    )
    if (!answer) giveBack(lock)
    return { error }
  }
  const { kind, payload, spent, fresh } = entry
  const answer = await ends((addon, number, slot, id) =>
    fresh === 0
      ? addon.endLoad(number, slot, id, full, kind)
      : addon.storeLoaded(number, slot, id, full, written(entry, terms)),
  )
  if (!answer) giveBack(lock)
  if (!answer || answer.state === 'not done') {
    cache.counters.overruled++
    return { entry, overruled: true }
  }
  if (answer.state === 'done') cache.succeeded(key)
  // Everybody has the value all the same.
  else if (answer.state !== 'closed') cache.failedToWrite(key, answer.error)
  return { entry: { kind, payload, spent, fresh } }
}

/**
 * Runs a loader, with or without a lock.
 * @param {Shared} cache
 * @param {string} key
 * @param {Loader} loader
 * @param {Terms} terms
 * @param {Entry | undefined} old
 * @param {Lock | undefined} lock
 * @returns {Promise<Entry>} fresh for so long, ms; 0: it isn't to be kept
 */
async function load(cache, key, loader, terms, old, lock) {
  const { loadTimeout } = terms
  const controller = new AbortController()
  const abort = (/** @type {unknown} */ reason) => controller.abort(reason)
  const signal = lock?.signal
  const lost = () => {
    // One that was taken away by order is no failure, and counted when the load ends.
    if (signal?.reason?.reason !== 'taken') cache.counters.lockFailures++
    abort(signal?.reason)
  }
  signal?.addEventListener('abort', lost, { once: true })
  cache.loading.add(abort)
  /** @type {ReturnType<typeof setTimeout> | undefined} */
  let timer
  /** @type {Promise<never>} */
  const tooLong = new Promise((_, reject) => {
    if (loadTimeout > LONGEST_TIMER) return
    timer = setTimeout(() => {
      const error = new CacheTimeoutError(key, loadTimeout, 'loading')
      reject(error)
      abort(error)
    }, loadTimeout)
  })
  const context = {
    key,
    signal: controller.signal,
    get previous() {
      return old && cache.codec.read(old)
    },
  }
  const call = async () => loader(context)
  const began = performance.now()
  cache.counters.loads++
  let outcome = 'failed'
  let error
  try {
    const { detectDeadlock } = cache.inner.defaults
    const value = await Promise.race([
      detectDeadlock ? inside(holderOf(cache, key, lock), call) : call(),
      tooLong,
    ])
    const spent = Math.round(performance.now() - began)
    const { kind, payload } = cache.codec.write(key, value)
    outcome = 'loaded'
    return { kind, payload, spent, fresh: freshFor(kind, terms) }
  } catch (cause) {
    cache.counters.loadErrors++
    error = cause
    throw cause
  } finally {
    clearTimeout(timer)
    signal?.removeEventListener('abort', lost)
    cache.loading.delete(abort)
    const took = performance.now() - began
    cache.statistics.loadTimes.record(Math.max(1, Math.round(took * 1_000)))
    if (channels.load.hasSubscribers) channels.load.publish({ key: cache.full(key), outcome, took, error })
  }
}

/**
 * Who would wait for itself if the loader asked for its own key: also where there is no lock.
 * @param {Shared} cache
 * @param {string} key
 * @param {Lock | undefined} lock
 * @returns {any}
 */
function holderOf(cache, key, lock) {
  if (lock) return Lock.claimOf(lock)
  const keys = [cache.lockOf(key)]
  const whyNotHeld = () => new LockLostError(keys, 'unreachable')
  return { isHeld: true, manager: cache.inner, keys, whyNotHeld }
}

/**
 * @param {number} kind
 * @param {Terms} terms
 */
function freshFor(kind, terms) {
  const { refreshEvery, negativeTtl, ttlJitter } = terms
  if (!isNothing(kind)) {
    // Values that are refreshed on time needn't be spread.
    return refreshEvery ?? spread(lifetime(terms), ttlJitter)
  }
  return negativeTtl === undefined ? 0 : spread(negativeTtl, ttlJitter)
}

/**
 * @param {number} millis
 * @param {number} jitter
 */
function spread(millis, jitter) {
  return Math.max(1, Math.round(millis * (1 + jitter * (2 * Math.random() - 1))))
}

/**
 * A value as the addon takes it.
 * @param {Entry} entry
 * @param {Terms} terms
 */
function written({ kind, payload, spent, fresh }, { refreshEvery, staleFor, staleIfError }) {
  const longest = Math.max(staleFor, staleIfError ?? 0)
  const kept = refreshEvery === undefined || isNothing(kind) ? longest : FOR_EVER
  return { kind, payload, spent, kept, ttl: fresh === Infinity ? -1 : fresh + kept }
}

/**
 * Whether an old value is given to callers at once.
 * @param {Entry} old
 * @param {Pick<Terms, 'staleFor' | 'refreshEvery'>} terms
 */
function isYoungEnough(old, { staleFor, refreshEvery }) {
  return refreshEvery !== undefined || -old.fresh < staleFor
}

/**
 * Whether an old value will do if no other can be had.
 * @param {Entry} old
 * @param {Terms} terms
 */
function isGoodEnough(old, { staleFor, staleIfError, refreshEvery }) {
  return refreshEvery !== undefined || -old.fresh < (staleIfError ?? staleFor)
}

/**
 * Whether a fresh value is to be loaded before its time, by chance (XFetch: Vattani, Chierichetti, Lowenstein, "Optimal
 * Probabilistic Cache Stampede Prevention", VLDB 2015) or from some point on.
 * @param {Entry} entry
 * @param {Terms} terms
 */
function isDueEarly({ fresh, spent }, terms) {
  const { earlyRefresh, beta, ttl, refreshEvery } = terms
  if (earlyRefresh === false || refreshEvery !== undefined || ttl === undefined || ttl === Infinity)
    return false
  if (earlyRefresh !== 'xfetch') return fresh < earlyRefresh * ttl
  return fresh < -Math.min(spent, LONGEST_SHARE * ttl) * beta * Math.log(1 - Math.random())
}

/** @param {Lock} lock */
function giveBack(lock) {
  Lock.claimOf(lock)
    .release(true)
    .catch(() => {})
}

/**
 * @param {string} key
 * @param {unknown} cause
 */
function asLoadError(key, cause) {
  return cause instanceof CacheError && cause.key === key ? cause : new CacheLoadError(key, cause)
}

module.exports = { asLoadError, isDueEarly, isGoodEnough, isYoungEnough, load, rebuild, spread, written }
