'use strict'

const timers = require('node:timers')
const { CODE, begin, end, flushSoon, freeSlot, takeSlot } = require('../bridge')
const { holderAround } = require('../nesting')
const { answerOf } = require('./calls')
const { CacheDeadlockError, CacheTimeoutError, CacheValueError } = require('./errors')
const { asLoadError, isGoodEnough, isYoungEnough, load, rebuild } = require('./load')

// The callers of one key in this process, who are served together: one read, and at most one load, for all of them.

/** @typedef {import('./shared').Shared} Shared */
/** @typedef {import('./calls').Entry} Entry */
/** @typedef {import('./load').Loader} Loader */
/** @typedef {import('./load').Result} Result */
/** @typedef {import('./options').Terms} Terms */

const { setTimeout, clearTimeout } = timers
const LONGEST_TIMER = 2 ** 31 - 1

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
    /** It came when the loader was running: what that has read may be older than the call. */
    this.late = false
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
    this.reading = false
    /** The loader runs here. */
    this.loading = false
    /** Whatever is there. */
    this.forced = forced
    /** @type {Entry | undefined} what there was */
    this.old = undefined
    /** @type {Promise<Entry> | undefined} a load without a lock */
    this.alone = undefined
    /** Nobody waits for it any more. */
    this.leave = () => {}
  }

  /** @param {Caller} caller */
  join(caller) {
    caller.late = this.loading
    if (this.loading && holderAround(this.inner.space, [this.cache.lockOf(this.name)], undefined)) {
      caller.reject(new CacheDeadlockError(this.name))
      return
    }
    this.callers.push(caller)
    if (!this.reading) this.setTimer(caller)
  }

  /** @param {Caller} caller */
  read(caller) {
    this.callers.push(caller)
    this.reading = true
    this.slot = takeSlot(this)
    begin()
    this.inner.addon.readValue(this.inner.number, this.slot, this.key)
    flushSoon(this.inner.number)
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
    this.reading = false
    if (code !== CODE.UNAVAILABLE) this.cache.reachable()
    const old = this.cache.isKnown(this.name, entry) ? entry : undefined
    if (old && this.serve(old)) {
      this.done()
    } else if (state === 'closed') {
      this.close(/** @type {Error} */ (error))
    } else {
      this.miss(old, state === 'unavailable' || state === 'foreign' ? error : undefined)
    }
    end()
  }

  /**
   * Gives what was read to those whom it is good enough for. `true`: to all.
   * @param {Entry} entry
   */
  serve(entry) {
    const { cache, name } = this
    const [first] = this.callers
    const fresh = entry.fresh > 0
    /** @type {Caller[]} */
    const rest = []
    try {
      for (const caller of this.callers) {
        if (fresh || isYoungEnough(entry, caller.terms)) this.give(caller, entry, fresh ? 'hit' : 'stale')
        else rest.push(caller)
      }
    } catch (error) {
      // Of one it can't be read for, it can't be read for any.
      cache.failedToRead(name, error)
      return false
    }
    this.callers = rest
    if (rest.length === 0) cache.served(name, entry, first)
    return rest.length === 0
  }

  /**
   * @param {Caller} caller
   * @param {Entry} entry
   * @param {'hit' | 'stale' | 'loaded'} outcome
   */
  give(caller, entry, outcome) {
    const value = this.codec.read(entry)
    this.cache.count(this.name, outcome)
    clearTimeout(caller.timer)
    caller.resolve(value)
  }

  /**
   * @param {Entry | undefined} old
   * @param {Error | undefined} trouble
   */
  async miss(old, trouble) {
    this.old = old
    // A promise that is pending keeps the process alive.
    begin()
    try {
      if (!this.callers.length) return
      this.cache.counters.misses += this.callers.length
      this.cache.statistics.herds.record(this.callers.length)
      for (const caller of this.callers) this.setTimer(caller)
      const { terms } = this.callers[0]
      const left = new Promise((/** @type {(value: void) => void} */ resolve) => {
        this.leave = resolve
      })
      const seat = { background: false, forced: this.forced, begins: () => this.begins(), left }
      const result = trouble ? { alone: trouble } : await rebuild(this.cache, this.name, terms, old, seat)
      if ('alone' in result) await this.bypass(result.alone)
      else this.finish(result)
    } catch (error) {
      // A defect, or a codec that throws: nobody is left without an answer.
      this.finish({ error: asLoadError(this.name, error) })
    } finally {
      end()
    }
  }

  /** The loader is to run: by the terms of the first who still waits. */
  begins() {
    const [first] = this.callers
    if (first) {
      this.loading = true
      clearTimeout(first.timer)
    }
    return first
  }

  /** @param {Exclude<Result, { alone: Error }>} result */
  finish(result) {
    this.done()
    const callers = this.callers
    this.callers = []
    const [first] = callers
    if (first && 'entry' in result) this.cache.keep(this.name, first, result.entry)
    for (const caller of callers) {
      clearTimeout(caller.timer)
      if ('entry' in result) {
        if (result.overruled && caller.late) this.cache.again(this.name, caller, this.forced)
        else this.giveLoaded(caller, result.entry)
      } else if ('old' in result && this.old) this.give(caller, this.old, 'stale')
      else
        this.fail(caller, 'error' in result ? result.error : new CacheTimeoutError(this.name, 0, 'waiting'))
    }
  }

  /**
   * @param {Caller} caller
   * @param {Entry} entry
   */
  giveLoaded(caller, entry) {
    try {
      this.give(caller, entry, 'loaded')
    } catch (cause) {
      caller.reject(new CacheValueError(this.name, 'could not be decoded', cause))
    }
  }

  /**
   * @param {Caller} caller
   * @param {Error} error
   */
  fail(caller, error) {
    clearTimeout(caller.timer)
    const { old } = this
    if (old && isGoodEnough(old, caller.terms)) return this.give(caller, old, 'stale')
    this.cache.fallBack(this.name, caller, error)
  }

  /**
   * There is no lock to be had: each process loads for itself, once.
   * @param {Error} why
   */
  async bypass(why) {
    const first = this.begins()
    if (!first) return this.done()
    this.cache.bypassed(why)
    try {
      this.finish({ entry: await this.loadAlone(first) })
    } catch (error) {
      this.finish({ error: asLoadError(this.name, error) })
    }
  }

  /**
   * Without a lock, and without storing what comes of it; once for all who want that.
   * @param {Caller} first
   */
  loadAlone({ loader, terms }) {
    this.alone ??= load(this.cache, this.name, loader, terms, this.old, undefined)
    return this.alone
  }

  /**
   * For a caller that has waited for long enough.
   * @param {Caller} caller
   */
  async loadFor(caller) {
    begin()
    try {
      this.giveLoaded(caller, await this.loadAlone(caller))
    } catch (error) {
      this.fail(caller, asLoadError(this.name, error))
    } finally {
      end()
    }
  }

  /** @param {Caller} caller */
  setTimer(caller) {
    const { waitTimeout } = caller.terms
    if (waitTimeout > LONGEST_TIMER || this.forced) return
    caller.timer = setTimeout(() => this.timeUp(caller), waitTimeout)
  }

  /** @param {Caller} caller */
  timeUp(caller) {
    const { onWaitTimeout, waitTimeout } = caller.terms
    // It runs here: another one beside it would not be quicker.
    if (onWaitTimeout === 'load' && this.loading) return
    this.cache.counters.waitTimeouts++
    this.callers = this.callers.filter((other) => other !== caller)
    if (onWaitTimeout === 'load') this.loadFor(caller)
    else if (onWaitTimeout === 'stale' && this.old) this.give(caller, this.old, 'stale')
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
