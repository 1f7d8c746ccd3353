'use strict'

const timers = require('node:timers')
const { outside } = require('../nesting')

// Values that are refreshed on time, whether somebody asks for them or not: by one process of those that keep to the same time.

const { setTimeout, clearTimeout } = timers
const LONGEST_TIMER = 2 ** 31 - 1
/** Processes come one after the other, so that most find the work done. A share of the interval. */
const SPREAD = 0.05
/** When whoever came too late looks whether it was done, or has to do it. */
const SOONEST = 1_000

/** @typedef {import('./load').Loader} Loader */
/** @typedef {import('./options').Terms} Terms */
/** @typedef {{ loader: Loader, terms: Terms, timer: NodeJS.Timeout | undefined }} Kept */

class Schedule {
  /** @param {(key: string, loader: Loader, terms: Terms) => Promise<number>} refresh makes a value fresh, and says for how long it is, ms */
  constructor(refresh) {
    this.refresh = refresh
    /** @type {Map<string, Kept>} */
    this.kept = new Map()
    this.stopped = false
  }

  /**
   * Refreshes a value from now on, by the last loader that was given.
   * @param {string} key
   * @param {Loader} loader
   * @param {Terms} terms
   * @param {number} fresh for how long it is, ms
   */
  keep(key, loader, terms, fresh) {
    const known = this.kept.get(key)
    if (known && known.terms.refreshEvery === terms.refreshEvery) {
      known.loader = loader
      known.terms = terms
      return
    }
    clearTimeout(known?.timer)
    /** @type {Kept} */
    const kept = { loader, terms, timer: undefined }
    this.kept.set(key, kept)
    this.#plan(key, kept, fresh)
  }

  /**
   * @param {string} key
   * @param {Kept} kept
   * @param {number} fresh
   */
  #plan(key, kept, fresh) {
    if (this.stopped) return
    const every = kept.terms.refreshEvery ?? 0
    // Not fresh after an attempt: that failed, or somebody else is about to succeed.
    const soonest = fresh > 0 ? SOONEST : Math.max(SOONEST, kept.terms.errorBackoff)
    const pause = Math.min(Math.max(fresh, soonest), every) + Math.random() * SPREAD * every
    // Not in the context of whoever asked, and no reason to stay alive.
    kept.timer = outside(() => setTimeout(() => this.#tick(key, kept), Math.min(pause, LONGEST_TIMER)))
    kept.timer?.unref()
  }

  /**
   * @param {string} key
   * @param {Kept} kept
   */
  async #tick(key, kept) {
    const fresh = await this.refresh(key, kept.loader, kept.terms).catch(() => 0)
    if (this.kept.get(key) === kept) this.#plan(key, kept, fresh)
  }

  stop() {
    this.stopped = true
    for (const { timer } of this.kept.values()) clearTimeout(timer)
    this.kept.clear()
  }
}

module.exports = { Schedule }
