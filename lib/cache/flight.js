'use strict'

const { AsyncResource } = require('node:async_hooks')
const timers = require('node:timers')
const { CODE, begin, burst, end, flushReadSoon, freeSlot, takeSlot } = require('../bridge')
const { LockClosedError } = require('../errors')
const { holderAround } = require('../nesting')
const { answerOf } = require('./calls')
const { CacheDeadlockError, CacheTimeoutError, CacheValueError, asLoadError } = require('./errors')
const { isGoodEnough, isYoungEnough, load, rebuild } = require('./load')

// The callers of one key in this process, who are served together: one read, and at most one load, for all of them.

/** @typedef {import('./shared').Shared} Shared */
/** @typedef {import('./calls').Entry} Entry */
/** @typedef {import('./load').Loader} Loader */
/** @typedef {import('./load').Result} Result */
/** @typedef {import('./options').Terms} Terms */

const { setTimeout, clearTimeout } = timers
const LONGEST_TIMER = 2 ** 31 - 1
/** How often a caller begins anew whose load was overruled while its loader ran. */
const MOST_AGAIN = 5

class Caller {
  /**
   * @param {Loader} loader
   * @param {Terms} terms
   * @param {(value: any) => void} resolve
   * @param {(reason: any) => void} reject
   */
  constructor(loader, terms, resolve, reject) {
    this.loader = loader
    this.terms = terms
    this.resolve = resolve
    this.reject = reject
    /** Where it was called: its loader and fallback run there. */
    this.context = new AsyncResource('HoldfastCache', { requireManualDestroy: true })
    /** It came when the value was being loaded: what is found may have been read before the call. */
    this.late = false
    this.again = 0
    /** When it began to wait. */
    this.since = 0
    /** @type {ReturnType<typeof setTimeout> | undefined} */
    this.timer = undefined
  }
}

class Flight {
  /**
   * @param {Shared} cache
   * @param {string} key
   * @param {boolean} forced
   */
  constructor(cache, key, forced) {
    this.cache = cache
    this.inner = cache.inner
    this.codec = cache.codec
    this.name = key
    /** Full key of the value. */
    this.key = cache.full(key)
    /** @type {Caller[]} */
    this.callers = []
    this.slot = 0
    /** That of its read: until that is sent, others may share it. */
    this.burst = 0
    this.asked = 0
    /** Somebody else loads. */
    this.waiting = false
    /** The loader runs here. */
    this.loading = false
    /** Whatever is there. */
    this.forced = forced
    /** @type {Entry | undefined} what there was, if it can be read */
    this.old = undefined
    this.readAt = 0
    /** @type {{ loaded: ReturnType<typeof load>, began: number } | undefined} a load without a lock */
    this.alone = undefined
    /** Nobody waits for it any more. */
    this.leave = () => {}
  }

  /**
   * While the value is loaded.
   * @param {Caller} caller
   */
  join(caller) {
    caller.late = true
    if (this.#wouldWaitForItself(caller)) return
    this.callers.push(caller)
    if (this.waiting || this.loading) this.#setTimer(caller)
  }

  /** @param {Caller} caller */
  read(caller) {
    this.callers.push(caller)
    this.burst = burst()
    this.asked = performance.now()
    this.slot = takeSlot(this)
    begin()
    this.inner.addon.readValue(this.inner.number, this.slot, this.key)
    flushReadSoon(this.inner.number)
  }

  /**
   * Whatever there is.
   * @param {Caller} caller
   */
  load(caller) {
    this.callers.push(caller)
    this.#miss(undefined, undefined)
  }

  /**
   * The value was read.
   * @param {number} code
   * @param {number} a
   * @param {number} b
   * @param {number} c
   */
  settle(code, a, b, c) {
    const { entry, state, error } = answerOf(this, code, a, b, c)
    freeSlot(this.slot)
    this.cache.wasRead(this)
    try {
      if (code !== CODE.UNAVAILABLE) this.cache.reachable()
      if (state === 'closed') this.close(/** @type {Error} */ (error))
      else this.#found(entry, state === 'unavailable' || state === 'foreign' ? error : undefined)
    } finally {
      end()
    }
  }

  /**
   * @param {Entry | undefined} entry
   * @param {Error | undefined} trouble
   */
  #found(entry, trouble) {
    const { cache, name, callers } = this
    const [first] = callers
    // All were refused when the cache was closed.
    if (!first) return
    let old = cache.isKnown(name, entry) ? entry : undefined
    try {
      if (old) this.callers = this.#serve(callers, old)
    } catch (error) {
      // Of one it can't be read for, it can't be read for any.
      cache.failedToRead(name, error)
      old = undefined
    }
    if (old && this.callers.length === 0) cache.served(name, old, first, this.asked)
    else this.#miss(old, trouble)
  }

  /**
   * Gives what was read to those whom it is good enough for; returns the others.
   * @param {Caller[]} callers
   * @param {Entry} entry
   */
  #serve(callers, entry) {
    const fresh = entry.fresh > 0
    /** @type {Caller[]} */
    const rest = []
    for (const caller of callers) {
      if (fresh || isYoungEnough(entry, caller.terms)) this.#give(caller, entry, fresh ? 'hit' : 'stale')
      else rest.push(caller)
    }
    return rest
  }

  /**
   * @param {Caller} caller
   * @param {Entry} entry
   * @param {'hit' | 'stale' | 'loaded'} outcome
   */
  #give(caller, entry, outcome) {
    const value = this.codec.read(entry)
    this.cache.count(this.name, outcome)
    clearTimeout(caller.timer)
    caller.resolve(value)
  }

  /**
   * @param {Entry | undefined} old
   * @param {Error | undefined} trouble
   */
  async #miss(old, trouble) {
    const other = this.cache.begin(this)
    if (other) {
      for (const caller of this.callers.splice(0)) other.join(caller)
      return
    }
    // A promise that is pending keeps the process alive.
    begin()
    try {
      this.old = this.cache.isReadable(this.name, old) ? old : undefined
      this.readAt = performance.now()
      this.callers = this.callers.filter((caller) => !this.#wouldWaitForItself(caller))
      const [first] = this.callers
      if (!first) return this.done()
      this.cache.counters.misses += this.callers.length
      this.cache.statistics.herds.record(this.callers.length)
      const left = new Promise((/** @type {(value: void) => void} */ resolve) => {
        this.leave = resolve
      })
      const seat = {
        background: false,
        forced: this.forced,
        waits: () => this.#waits(),
        begins: () => this.#begins(),
        ends: () => this.done(),
        left,
      }
      const result = trouble
        ? { alone: trouble }
        : await rebuild(this.cache, this.name, first.terms, this.old, seat)
      if ('alone' in result && this.forced) this.#finish({ error: result.alone })
      else if ('alone' in result) await this.#bypass(result.alone)
      else this.#finish(result)
    } catch (error) {
      // A defect: nobody is left without an answer.
      this.#finish({ error: asLoadError(this.name, error) })
    } finally {
      end()
    }
  }

  /** @param {Caller} caller */
  #wouldWaitForItself(caller) {
    const keys = [this.cache.lockOf(this.name)]
    const { space } = this.inner
    if (!caller.context.runInAsyncScope(holderAround, undefined, space, keys, undefined)) return false
    caller.reject(new CacheDeadlockError(this.name))
    return true
  }

  #waits() {
    this.waiting = true
    for (const caller of this.callers) this.#setTimer(caller)
  }

  /** The loader is to run: the one of the first who still waits. The others wait for it. */
  #begins() {
    const [first, ...others] = this.callers
    if (!first) return undefined
    this.loading = true
    // What is ordered now isn't done by a load that has begun before.
    if (this.forced) this.done()
    clearTimeout(first.timer)
    for (const caller of others) this.#setTimer(caller)
    return first
  }

  /** @param {Exclude<Result, { alone: Error }>} result */
  #finish(result) {
    this.done()
    const callers = this.callers
    this.callers = []
    const [first] = callers
    if (first && 'entry' in result) this.cache.keep(this.name, first, result.entry)
    for (const caller of callers) {
      clearTimeout(caller.timer)
      caller.timer = undefined
      if ('entry' in result) {
        // Who has ordered that it be stored is told if it isn't.
        if (this.forced && result.trouble) this.#fail(caller, result.trouble)
        else if (this.forced && !result.confirmed && caller.again < MOST_AGAIN) this.#again(caller)
        else if (caller.late && !result.confirmed) this.#again(caller)
        else this.#giveLoaded(caller, result.entry)
      } else if ('error' in result) {
        if (result.lost && caller.again < MOST_AGAIN) this.#again(caller)
        else this.#fail(caller, result.error)
      } else if (this.old) this.#give(caller, this.old, 'stale')
      else this.#fail(caller, new CacheTimeoutError(this.name, 0, 'waiting'))
    }
  }

  /** @param {Caller} caller */
  #again(caller) {
    caller.late = false
    caller.again++
    if (this.cache.closed) caller.reject(this.cache.closed)
    else this.cache.enter(this.name, caller, this.forced)
  }

  /**
   * @param {Caller} caller
   * @param {Entry} entry
   */
  #giveLoaded(caller, entry) {
    try {
      this.#give(caller, entry, 'loaded')
    } catch (cause) {
      caller.reject(new CacheValueError(this.name, 'could not be decoded', cause))
    }
  }

  /**
   * @param {Caller} caller
   * @param {Error} error
   */
  #fail(caller, error) {
    clearTimeout(caller.timer)
    const { old } = this
    // As old as it is by now.
    const good =
      old && isGoodEnough({ ...old, fresh: old.fresh - (performance.now() - this.readAt) }, caller.terms)
    if (good && !(error instanceof LockClosedError)) return this.#give(caller, old, 'stale')
    this.cache.fallBack(this.name, caller, error)
  }

  /**
   * There is no lock to be had: each process loads for itself, once.
   * @param {Error} why
   */
  async #bypass(why) {
    const first = this.#begins()
    if (!first) return this.done()
    this.cache.bypassed(this.name, why)
    const { entry, error } = await this.#loadAlone(first)
    this.#finish(entry ? { entry } : { error: this.#whyNot(error) })
  }

  /**
   * Without a lock, and without storing what comes of it; once for all who want that and came before it began.
   * @param {Caller} caller
   */
  #loadAlone(caller) {
    if (this.alone && this.alone.began >= caller.since) return this.alone.loaded
    const loaded = load(this.cache, this.name, caller, this.old, undefined, false)
    this.alone = { loaded, began: performance.now() }
    return loaded
  }

  /**
   * For a caller that has waited for long enough.
   * @param {Caller} caller
   */
  async #loadFor(caller) {
    begin()
    try {
      const { entry, error } = await this.#loadAlone(caller)
      if (entry) this.#giveLoaded(caller, entry)
      else this.#fail(caller, this.#whyNot(error))
    } finally {
      end()
    }
  }

  /** @param {unknown} error */
  #whyNot(error) {
    const { closed } = this.cache
    return closed && error === closed ? closed : asLoadError(this.name, error)
  }

  /** @param {Caller} caller */
  #setTimer(caller) {
    const { waitTimeout } = caller.terms
    // Who asks for a load waits for its lock, which has a time-out of its own.
    if (caller.timer !== undefined || this.forced) return
    caller.since = performance.now()
    if (waitTimeout <= LONGEST_TIMER) caller.timer = setTimeout(() => this.#timeUp(caller), waitTimeout)
  }

  /** @param {Caller} caller */
  #timeUp(caller) {
    const { onWaitTimeout, waitTimeout } = caller.terms
    // It runs here: another one beside it would not be quicker.
    if (onWaitTimeout === 'load' && this.loading) return
    this.cache.counters.waitTimeouts++
    this.callers = this.callers.filter((other) => other !== caller)
    if (onWaitTimeout === 'load') this.#loadFor(caller)
    else if (onWaitTimeout === 'stale' && this.old) this.#give(caller, this.old, 'stale')
    else this.cache.fallBack(this.name, caller, new CacheTimeoutError(this.name, waitTimeout, 'waiting'))
    if (this.callers.length === 0 && !this.loading) {
      this.done()
      this.leave()
    }
  }

  /** Who comes from now on begins anew. */
  done() {
    this.cache.forget(this)
  }

  /** @param {Error} error */
  close(error) {
    this.done()
    for (const caller of this.callers.splice(0)) {
      clearTimeout(caller.timer)
      caller.reject(error)
    }
    this.leave()
  }
}

module.exports = { Caller, Flight }
