'use strict'

const { invalidType } = require('./lib/invalid')
const { checkNames } = require('./lib/checks')

// The figures of managers and caches as metrics of prom-client, the copy of whoever installed it. Nothing is measured here: each
// time the metrics are collected, `stats()` is asked.

/**
 * @typedef {{ stats(): any }} Source
 * @typedef {{ name: string, help: string, labels?: string[], values: (stats: any) => [labels: object, value: number | undefined][] }} Metric
 */

const QUANTILES = /** @type {const} */ ([
  ['0.5', 'p50'],
  ['0.9', 'p90'],
  ['0.99', 'p99'],
  ['1', 'max'],
])

/** @type {Metric[]} */
const OF_LOCKS = [
  {
    name: 'lock_acquired_total',
    help: 'Locks granted, by the way they came',
    labels: ['way'],
    values: ({ atOnce, handedOn, fromQueue, polled }) => [
      [{ way: 'at_once' }, atOnce],
      [{ way: 'handed_on' }, handedOn],
      [{ way: 'queue' }, fromQueue],
      [{ way: 'polled' }, polled],
    ],
  },
  {
    name: 'lock_refused_total',
    help: 'Acquisitions that came to no lock',
    labels: ['outcome'],
    values: ({ timeouts, busy, failed }) => [
      [{ outcome: 'timeout' }, timeouts],
      [{ outcome: 'busy' }, busy],
      [{ outcome: 'failed' }, failed],
    ],
  },
  one('lock_released_total', 'Locks given back', 'released'),
  {
    name: 'lock_lost_total',
    help: 'Locks lost while they were held, by reason',
    labels: ['reason'],
    values: ({ losses }) => Object.entries(losses).map(([reason, count]) => [{ reason }, count]),
  },
  one('lock_abandoned_total', 'Grants that a blocked event loop did not fetch in time', 'abandoned'),
  one('lock_held', 'Locks held', 'held'),
  one('lock_waiting', 'Callers waiting', 'waiting'),
  quantiles('lock_wait_seconds', 'How long acquisitions waited since the process began', 'waits', 1_000),
  quantiles('lock_hold_seconds', 'How long locks were held since the process began', 'holds', 1_000),
  one('commands_total', 'Requests sent by the connection', 'commands'),
  one('renewals_total', 'Locks renewed or extended over the connection', 'renewals'),
  one('reconnects_total', 'How often the connection was re-established', 'reconnects'),
]

/** @type {Metric[]} */
const OF_CACHES = [
  {
    name: 'cache_requests_total',
    help: 'Callers, by what they found',
    labels: ['outcome'],
    values: ({ hits, staleHits, misses }) => [
      [{ outcome: 'hit' }, hits],
      [{ outcome: 'stale' }, staleHits],
      [{ outcome: 'miss' }, misses],
    ],
  },
  one('cache_loads_total', 'Loaders run', 'loads'),
  one('cache_load_errors_total', 'Loaders that failed', 'loadErrors'),
  one('cache_early_refreshes_total', 'Loads tried before the value expired', 'earlyRefreshes'),
  one('cache_waits_total', 'Waits for the load of another process', 'waits'),
  one('cache_wait_timeouts_total', 'Callers who waited for too long', 'waitTimeouts'),
  one('cache_fallbacks_total', 'Callers who got their fallback', 'fallbacks'),
  one('cache_lock_failures_total', 'Locks of loads that could not be had or renewed', 'lockFailures'),
  one('cache_overruled_total', 'Loaded values that were not stored', 'overruled'),
  one('cache_bypasses_total', 'Loads without a lock, because Redis could not be used', 'bypasses'),
  one('cache_write_failures_total', 'Values that could not be stored', 'writeFailures'),
  one('cache_read_failures_total', 'Values that could not be decoded', 'readFailures'),
  quantiles('cache_load_seconds', 'How long loaders took since the process began', 'loadTimes', 1_000),
  quantiles('cache_herd_size', 'How many callers one load or wait served', 'herds', 1),
]

/**
 * @param {string} name
 * @param {string} help
 * @param {string} figure
 * @returns {Metric}
 */
function one(name, help, figure) {
  return { name, help, values: (stats) => [[{}, stats[figure]]] }
}

/**
 * @param {string} name
 * @param {string} help
 * @param {string} figure
 * @param {number} unit
 * @returns {Metric}
 */
function quantiles(name, help, figure, unit) {
  const values = (/** @type {any} */ stats) =>
    QUANTILES.map(([quantile, at]) => {
      const value = stats[figure][at]
      return /** @type {[object, number | undefined]} */ ([{ quantile }, value && value / unit])
    })
  return { name, help, labels: ['quantile'], values }
}

/**
 * @param {any} options
 * @returns {() => void}
 */
function register(options) {
  checkNames(['locks', 'caches', 'registry', 'prefix'], options, 'options', 'register')
  const client = promClient()
  const { locks = {}, caches = {}, registry = client.register, prefix = 'holdfast_' } = options
  if (typeof registry?.registerMetric !== 'function')
    throw invalidType('registry', registry, 'a Registry of prom-client')
  if (typeof prefix !== 'string') throw invalidType('prefix', prefix, 'a string')
  checkSources('locks', locks)
  checkSources('caches', caches)
  const made = [
    ...metrics(client, registry, prefix, OF_LOCKS, 'manager', locks),
    ...metrics(client, registry, prefix, OF_CACHES, 'cache', caches),
  ]
  return () => {
    for (const name of made) registry.removeSingleMetric(name)
  }
}

/**
 * @param {any} client
 * @param {any} registry
 * @param {string} prefix
 * @param {Metric[]} metrics
 * @param {'manager' | 'cache'} label
 * @param {Record<string, Source>} sources
 */
function* metrics(client, registry, prefix, metrics, label, sources) {
  const all = Object.entries(sources)
  if (all.length === 0) return
  for (const { name, help, labels = [], values } of metrics) {
    const counts = name.endsWith('_total')
    const Type = counts ? client.Counter : client.Gauge
    new Type({
      name: prefix + name,
      help,
      labelNames: [label, ...labels],
      registers: [registry],
      /** @this {any} */
      collect() {
        this.reset()
        for (const [source, of] of all) {
          const stats = of.stats()
          for (const [own, value] of values(stats)) {
            // Nothing was measured yet.
            if (value !== undefined) this[counts ? 'inc' : 'set']({ [label]: source, ...own }, value)
          }
        }
      },
    })
    yield prefix + name
  }
}

/**
 * @param {string} name
 * @param {any} sources
 */
function checkSources(name, sources) {
  if (typeof sources !== 'object' || sources === null || Array.isArray(sources)) {
    throw invalidType(name, sources, 'an object: names, and what they are of')
  }
  for (const [each, source] of Object.entries(sources)) {
    if (typeof source?.stats !== 'function')
      throw invalidType(`${name}.${each}`, source, 'something with stats()')
  }
}

function promClient() {
  try {
    return require('prom-client')
  } catch (cause) {
    const error = new Error('holdfast/prometheus needs prom-client: `npm install prom-client`', { cause })
    throw Object.assign(error, { code: 'MODULE_NOT_FOUND' })
  }
}

module.exports = { register }
