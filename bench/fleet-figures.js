'use strict'

const { median } = require('./figures.js')
const { number } = require('./table.js')

/** The round trips that a hand-off may take: one, and some time for those who take part. */
const ROUND_TRIPS = 1.2

/**
 * What is made of a library's windows in a fleet, one function a figure: `null` where it can't be had. `spread`: smallest
 * and largest window stand behind the median. `atLeast`: whether those who still waited could make it larger.
 */
const figures = {
  held: { title: 'held', unit: '% of time', of: (w) => w.held, spread: true },
  rate: { title: 'pairs/s', of: (w) => w.perSecond },
  waitP50: { title: 'wait p50', unit: 'ms', of: (w) => w.p50, atLeast: (w) => w.atLeast.p50 },
  waitP99: { title: 'wait p99', unit: 'ms', of: (w) => w.p99, atLeast: (w) => w.atLeast.p99 },
  waitMax: { title: 'longest wait', unit: 'ms', of: (w) => w.max, atLeast: (w) => w.atLeast.max },
  toIdeal: { title: 'p99', unit: '÷ ideal', of: (w) => w.toIdeal, atLeast: (w) => w.atLeast.p99 },
  starved: { title: 'starved', unit: 'callers', of: (w) => w.starved, whole: true },
  jainProcesses: { title: 'Jain', unit: 'processes', of: (w) => w.jainProcesses, three: true },
  jainCallers: { title: 'Jain', unit: 'callers', of: (w) => w.jainCallers, three: true },
  clientCpu: { title: 'all CPU', unit: 'µs/pair', of: (w) => w.clientCpu },
  serverCpu: { title: 'server CPU', unit: 'µs/pair', of: (w) => w.serverCpu },
  handOffP50: { title: 'hand-off p50', unit: 'ms', of: (w) => w.handOffP50, spread: true },
  handOffP99: { title: 'hand-off p99', unit: 'ms', of: (w) => w.handOffP99 },
  pingP50: { title: 'PING p50', unit: 'ms', of: (w) => w.pingP50 },
  pingP99: { title: 'PING p99', unit: 'ms', of: (w) => w.pingP99 },
  toPing: { title: 'hand-off p50', unit: '÷ PING p50', of: (w) => quotient(w.handOffP50, w.pingP50) },
  // What is left of the time if nothing but the network lies between two holders, and a fifth more than that.
  toNetwork: {
    title: 'held ÷ hold/',
    unit: `(hold + ${ROUND_TRIPS} trips)`,
    of: (w, { hold, delay }) => w.held / ((100 * hold) / (hold + ROUND_TRIPS * 2 * delay)),
  },
}

function quotient(above, below) {
  return above === null || below === null ? null : above / below
}

/** The median of a figure over a library's windows, smallest and largest, and whether it is a lower bound. */
function summary(windows, figure, load) {
  const { of, atLeast = () => false } = figures[figure]
  const values = windows.map((window) => of(window, load)).filter((value) => Number.isFinite(value))
  if (values.length === 0) return { median: null, min: null, max: null, atLeast: false }
  return {
    median: median(values),
    min: Math.min(...values),
    max: Math.max(...values),
    atLeast: windows.some(atLeast),
  }
}

function shown(windows, figure, load) {
  const { spread, three, whole } = figures[figure]
  const { median, min, max, atLeast } = summary(windows, figure, load)
  if (median === null) return '–'
  const digits = (value) => (three ? value.toFixed(3) : whole ? String(Math.round(value)) : number(value))
  const range = spread && windows.length > 1 ? ` (${digits(min)}–${digits(max)})` : ''
  return `${atLeast ? '≥ ' : ''}${digits(median)}${range}`
}

function heading(figure) {
  const { title, unit } = figures[figure]
  return unit ? `${title}\n${unit}` : title
}

module.exports = { figures, summary, shown, heading }
