'use strict'

const timers = require('node:timers')
const { setTimeout: sleep } = require('node:timers/promises')
const { claim } = require('../acquire')
const { channels } = require('../channels')
const { LockClosedError, LockLostError, LockTimeoutError } = require('../errors')
const { Lock } = require('../lock')
const { inside } = require('../nesting')
const { DEFAULTS } = require('../options')
const { endLoad, look, wait } = require('./calls')
const { isNothing } = require('./codec')
const { CacheLoadError, CacheTimeoutError, asLoadError, fromWords, toWords } = require('./errors')
const { inTurn } = require('./large')
const { lifetime } = require('./options')

// How a value that isn't there, or isn't fresh, comes to be: one process of the fleet takes a lock, looks again, loads and stores;
// the others wait to be told.

/** @typedef {import('./shared').Shared} Shared */
/** @typedef {import('./calls').Entry} Entry */
/** @typedef {import('./options').Terms} Terms */
/** @typedef {(context: any) => any} Loader */
/** @typedef {{ fresh: number, asked: number, answered: number }} Seen for how long a value was fresh, ms, at some moment between these two */
/** @typedef {{ loader: Loader, terms: Terms, context?: import('node:async_hooks').AsyncResource }} Order who loads, by which terms, and where that was called */

/**
 * What came of it. `confirmed`: nobody has changed the value until the load was over; otherwise it may be older than the call
 * of whoever came when it was being loaded. `trouble`: why it isn't stored. `lost`: somebody did, and the loader gave up for that. `old`: a load failed a while ago, and the old value has to do.
 * `busy`: somebody else sees to it. `alone`: there is no lock to be had, and why.
 * @typedef {{ entry: Entry, confirmed?: boolean, trouble?: Error } | { error: Error, lost?: boolean } | { old: true } | { busy: true } | { alone: Error } | { nobody: true }} Result
 */

/**
 * For whom: `waits` is called when somebody else loads; `begins` when the loader is to run, and says by whose terms, if anybody
 * still wants the value; `ends` before it is said that the load is over: who comes later reads for himself; `left` is fulfilled when nobody does. `background`: nobody waits for it. `forced`: whatever is there. `early`: although what was
 * seen was fresh.
 * @typedef {{ background: boolean, forced: boolean, early?: Seen, waits: () => void, begins: () => Order | undefined,
 *   ends: () => void, left: Promise<void> }} Seat
 */

const { setTimeout, clearTimeout } = timers
const LONGEST_TIMER = 2 ** 31 - 1
/** A load that takes longer than this share of the ttl isn't begun even earlier for that. */
const LONGEST_SHARE = 0.1
/** The pause of who waits for another process while there is a value that can't be read, ms. */
const UNREADABLE = 250
/** Times are of whole milliseconds, and clocks not quite as fast as each other. */
const SAME = 5
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
    if (cache.closed) return { error: cache.closed }
    const taken = await take(cache, key, terms, seat.forced)
    if (!(taken instanceof Lock)) {
      if (taken !== null) return taken
      if (seat.background) return { busy: true }
      seat.waits()
      const found = await waitForOther(cache, key, backsOff, seat)
      if (found) return found
      continue
    }
    const found = seat.forced ? undefined : await lookAgain(cache, key, backsOff, taken, seat)
    if (found === 'lost') {
      giveBack(taken)
      continue
    }
    const order = found ? undefined : seat.begins()
    if (order) return loadAndStore(cache, key, order, old, taken, seat)
    giveBack(taken)
    if (found && 'old' in found) cache.backOff(key, terms.errorBackoff)
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
  const own = { ttl: lockTtl, timeout: waitTimeout, maxStall, captureStacks }
  const options = { ...DEFAULTS, ...own, own: true, quiet: true }
  const lock = cache.lockOf(key)
  try {
    // A try says at once if Redis can't be used.
    const taken = await claim(cache.inner, lock, options, true)
    return taken === null && waits ? await claim(cache.inner, lock, options, false) : taken
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
  if (entry && cache.canRead(entry)) return { entry }
  // Until it is replaced, looking says that it is there.
  if (entry) await Promise.race([sleep(UNREADABLE), left])
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
 * @returns {Promise<Result | 'lost' | undefined>}
 */
async function lookAgain(cache, key, backsOff, lock, { early }) {
  const { id } = Lock.claimOf(lock)
  const asked = performance.now()
  const { state, entry, error } = await look(
    cache.inner,
    cache.full(key),
    cache.codec,
    cache.lockOf(key),
    id,
    backsOff,
  )
  const is = entry && early && isSame({ fresh: entry.fresh, asked, answered: performance.now() }, early)
  if (entry && !is && cache.isReadable(key, entry)) return { entry }
  if (state === 'taken') return 'lost'
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
 * @param {Seat} seat
 * @returns {Promise<Result>}
 */
async function loadAndStore(cache, key, order, old, lock, { background, ends }) {
  // Also when the lock is lost: whoever comes then isn't to wait for what won't be stored.
  lock.signal.addEventListener('abort', ends, { once: true })
  try {
    const { entry, error } = await load(cache, key, order, old, lock, background)
    ends()
    return entry
      ? await store(cache, key, order, entry, lock)
      : await fail(cache, key, order, error, old, lock)
  } finally {
    lock.signal.removeEventListener('abort', ends)
    // Whatever happened; given back already, this does nothing.
    giveBack(lock)
  }
}

/**
 * @param {Shared} cache
 * @param {string} key
 * @param {Order} order
 * @param {Entry} entry
 * @param {Lock} lock
 * @returns {Promise<Result>}
 */
async function store(cache, key, { terms }, entry, lock) {
  const full = cache.full(key)
  const claimed = Lock.claimOf(lock)
  const answer = await inTurn(cache.inner.largeValues, entry.payload, () =>
    endLoad(cache.inner, full, cache.codec, claimed, (addon, number, slot, id) =>
      entry.fresh === 0
        ? addon.endLoad(number, slot, id, full, entry.kind)
        : addon.storeLoaded(number, slot, id, full, written(entry, terms)),
    ),
  )
  if (!answer || answer.state === 'not done') {
    cache.counters.overruled++
    return { entry }
  }
  const confirmed = answer.state === 'done'
  if (confirmed) cache.succeeded(key)
  // Callers have the value all the same.
  else if (answer.state !== 'closed') cache.failedToWrite(key, answer.error)
  return { entry, confirmed, trouble: answer.error }
}

/**
 * @param {Shared} cache
 * @param {string} key
 * @param {Order} order
 * @param {unknown} cause
 * @param {Entry | undefined} old
 * @param {Lock} lock
 * @returns {Promise<Result>}
 */
async function fail(cache, key, { terms }, cause, old, lock) {
  const full = cache.full(key)
  if (cache.closed && cause === cache.closed) return { error: cache.closed }
  const error = asLoadError(key, cause)
  const backoff = old === undefined || !isGoodEnough(old, terms) ? 0 : terms.errorBackoff
  const words = toWords(error instanceof CacheLoadError ? cause : error)
  const answer = await endLoad(
    cache.inner,
    full,
    cache.codec,
    Lock.claimOf(lock),
    (addon, number, slot, id) => addon.failLoad(number, slot, id, full, words, backoff),
  )
  // Who is told that its load is pointless is right to give up.
  if (!answer || answer.state === 'not done') {
    cache.counters.overruled++
    return { error, lost: true }
  }
  cache.backOff(key, backoff)
  return { error }
}

/**
 * Runs a loader, with or without a lock.
 * @param {Shared} cache
 * @param {string} key
 * @param {Order} order
 * @param {Entry | undefined} old
 * @param {Lock | undefined} lock
 * @param {boolean} background
 * @returns {Promise<{ entry: Entry, error?: undefined } | { entry?: undefined, error: unknown }>} `fresh` is for how long it is, ms; 0: it isn't to be kept
 */
async function load(cache, key, { loader, terms, context: caller }, old, lock, background) {
  const { loadTimeout } = terms
  const controller = new AbortController()
  const signal = lock?.signal
  const lost = () => {
    // One that was taken away by order is no failure, and counted when the load ends.
    if (signal?.reason?.reason !== 'taken') cache.counters.lockFailures++
    controller.abort(signal?.reason)
  }
  signal?.addEventListener('abort', lost, { once: true })
  /** @type {(error: Error) => void} */
  let cut = () => {}
  /** @type {Promise<never>} */
  const isCut = new Promise((_, reject) => {
    cut = (error) => {
      reject(error)
      controller.abort(error)
    }
  })
  cache.loading.add(cut)
  const tooLong = () => cut(new CacheTimeoutError(key, loadTimeout, 'loading'))
  const timer = loadTimeout > LONGEST_TIMER ? undefined : setTimeout(tooLong, loadTimeout)
  if (background) timer?.unref()
  const context = {
    key,
    signal: controller.signal,
    get previous() {
      return old && cache.canRead(old) ? cache.codec.read(old) : undefined
    },
  }
  const call = async () => loader(context)
  const detects = cache.inner.defaults.detectDeadlock
  const run = () => (detects ? inside(holderOf(cache, key, lock), call) : call())
  const began = performance.now()
  cache.counters.loads++
  /** @type {unknown} */
  let failure
  let outcome = 'failed'
  try {
    const value = await Promise.race([caller ? caller.runInAsyncScope(run) : run(), isCut])
    const spent = Math.round(performance.now() - began)
    const { kind, payload } = cache.codec.write(key, value)
    outcome = 'loaded'
    return { entry: { kind, payload, spent, fresh: freshFor(kind, terms) } }
  } catch (error) {
    cache.counters.loadErrors++
    failure = error
    return { error }
  } finally {
    clearTimeout(timer)
    signal?.removeEventListener('abort', lost)
    cache.loading.delete(cut)
    const took = performance.now() - began
    cache.statistics.loadTimes.record(Math.max(1, Math.round(took * 1_000)))
    if (channels.load.hasSubscribers) {
      channels.load.publish({ key: cache.full(key), outcome, took, error: failure })
    }
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
 * Whether what is found is what was seen before: then so much less of its time is left as has passed since.
 * @param {Seen} found
 * @param {Seen} seen
 */
function isSame(found, seen) {
  const passed = seen.fresh - found.fresh
  return passed > found.asked - seen.answered - SAME && passed < found.answered - seen.asked + SAME
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

module.exports = { isDueEarly, isGoodEnough, isYoungEnough, load, rebuild, spread, written }
