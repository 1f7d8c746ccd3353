'use strict'

const { createHistogram } = require('node:perf_hooks')

// The figures of a cache, as `stats()` shows them.

/** @typedef {import('../../index').CacheStats} CacheStats */

const NO_COUNTERS = {
  hits: 0,
  staleHits: 0,
  misses: 0,
  loads: 0,
  loadErrors: 0,
  earlyRefreshes: 0,
  waits: 0,
  waitTimeouts: 0,
  fallbacks: 0,
  lockFailures: 0,
  overruled: 0,
  bypasses: 0,
  writeFailures: 0,
  readFailures: 0,
}

class CacheStatistics {
  constructor() {
    this.counters = { ...NO_COUNTERS }
    /** How long loaders took, µs. Made at the first load. */
    this.loadTimes = histogram()
    /** How many callers of this process each load or wait served. */
    this.herds = histogram()
  }

  /** @returns {CacheStats} */
  snapshot() {
    return {
      ...this.counters,
      loadTimes: distribution(this.loadTimes, 1_000),
      herds: distribution(this.herds, 1),
    }
  }
}

function histogram() {
  return createHistogram({ lowest: 1, highest: 3_600_000_000, figures: 2 })
}

/**
 * @param {import('node:perf_hooks').RecordableHistogram} from
 * @param {number} unit
 */
function distribution(from, unit) {
  const { count, max } = from
  if (count === 0) return { count, p50: undefined, p90: undefined, p99: undefined, max: undefined }
  const at = (/** @type {number} */ share) => from.percentile(share) / unit
  return { count, p50: at(50), p90: at(90), p99: at(99), max: max / unit }
}

module.exports = { CacheStatistics }
