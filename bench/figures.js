'use strict'

/** What is made of a window, one function a figure: `null` where it can't be had. `title` and `unit` are for tables. */
const figures = {
  rate: { title: 'pairs/s', of: (w) => w.pairs / (w.ms / 1_000) },
  acquireP50: { title: 'acquire p50', unit: 'µs', of: (w) => w.acquireP50 },
  acquireP99: { title: 'acquire p99', unit: 'µs', of: (w) => w.acquireP99 },
  pairP50: { title: 'pair p50', unit: 'µs', of: (w) => w.pairP50 },
  pairP99: { title: 'pair p99', unit: 'µs', of: (w) => w.pairP99 },
  threadCpu: {
    title: 'JS CPU',
    unit: 'µs/pair',
    of: (w) => (w.threadCpu === undefined ? null : w.threadCpu / w.pairs),
  },
  processCpu: { title: 'all CPU', unit: 'µs/pair', of: (w) => w.processCpu / w.pairs },
  serverCpu: { title: 'server CPU', unit: 'µs/pair', of: (w) => w.serverCpu / w.pairs },
  waitP50: { title: 'wait p50', unit: 'ms', of: (w) => w.waitP50 },
  waitP99: { title: 'wait p99', unit: 'ms', of: (w) => w.waitP99 },
  waitMax: { title: 'longest wait', unit: 'ms', of: (w) => w.waitMax },
  // Of some nobody knows how long they would have waited.
  unevenness: {
    title: 'longest wait',
    unit: '÷ median',
    of: (w) => (w.starved > 0 ? Infinity : w.waitMax / w.waitP50),
  },
  starved: { title: 'starved', unit: 'callers', of: (w) => w.starved },
  hitRate: { title: 'hits/s', of: (w) => w.reads / (w.ms / 1_000) },
  hitP50: { title: 'p50', unit: 'µs', of: (w) => w.hitP50 },
  hitP99: { title: 'p99', unit: 'µs', of: (w) => w.hitP99 },
  threadCpuOfHit: {
    title: 'JS CPU',
    unit: 'µs/hit',
    of: (w) => (w.threadCpu === undefined ? null : w.threadCpu / w.reads),
  },
  processCpuOfHit: { title: 'all CPU', unit: 'µs/hit', of: (w) => w.processCpu / w.reads },
  serverCpuOfHit: { title: 'server CPU', unit: 'µs/hit', of: (w) => w.serverCpu / w.reads },
  timerP99: { title: '1 ms timer', unit: 'late p99, ms', of: (w) => w.timerP99 },
}

/** Those of a load that doesn't name its own. */
const usual = [
  'rate',
  'acquireP50',
  'acquireP99',
  'pairP50',
  'pairP99',
  'threadCpu',
  'processCpu',
  'serverCpu',
]

function median(values) {
  if (values.length === 0 || values.includes(null)) return null
  const sorted = [...values].sort((a, b) => a - b)
  const middle = sorted.length >> 1
  return sorted.length % 2 === 1 ? sorted[middle] : (sorted[middle - 1] + sorted[middle]) / 2
}

/** Median, smallest and largest of a figure over the windows of one library. */
function spread(windows, figure) {
  const values = windows.map(figures[figure].of)
  if (values.includes(null)) return { median: null, min: null, max: null }
  return { median: median(values), min: Math.min(...values), max: Math.max(...values) }
}

/**
 * The median over the rounds of `windows` / `others`, each divided within its round: what slowed the machine down
 * in a round slowed both.
 */
function ratio(windows, others, figure) {
  const { of } = figures[figure]
  return median(
    windows.map((window, round) => {
      const above = of(window)
      const below = of(others[round])
      return above === null || below === null ? null : above / below
    }),
  )
}

module.exports = { figures, usual, median, spread, ratio }
