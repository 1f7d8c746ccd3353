'use strict'

const { axes, card, legend, MARGIN, plain, stroke, TOP, WIDTH } = require('./chart.js')
const { lookOf } = require('./palette.js')
const { linear, logarithmic } = require('./scale.js')
const { element, short } = require('./svg.js')

const HEIGHT = 480
/** As fine as a line in this size can be. */
const POINTS = 250

/**
 * Which share of values stayed below each value. `series` are `{ name, values, more }`: `more` is how many there are
 * besides that nobody knows but that they are larger, so the line ends below 100 %.
 */
function distribution({ title, lines, axis, series }) {
  const known = series.filter(({ values }) => values.length > 0)
  const area = { left: 80, right: WIDTH - MARGIN - 10, top: TOP + 58, bottom: HEIGHT - 50 }
  const smallest = Math.max(0.01, Math.min(...known.map(({ values }) => quantile(values, 0.01))))
  const largest = Math.max(...known.map(({ values }) => Math.max(...values)))
  const x = logarithmic([smallest, largest], [area.left, area.right])
  const y = linear([0, 100], [area.bottom, area.top])
  return card(
    { title, lines, height: HEIGHT },
    legend(
      known.map(({ name }) => name),
      { x: MARGIN, y: TOP + 10 },
    ),
    axes(area, { scale: x, title: axis, format: plain }, { scale: y, title: 'share, %', format: plain }),
    // The own line on top of the others.
    inFront(known).map(({ name, values, more = 0 }) => {
      const sorted = Float64Array.from(values).sort()
      const points = Array.from({ length: POINTS }, (_, n) => {
        const index = Math.min(sorted.length - 1, Math.floor((n / (POINTS - 1)) * sorted.length))
        const share = (100 * (index + 1)) / (sorted.length + more)
        return `${short(x(Math.max(x.least, sorted[index])))} ${short(y(share))}`
      })
      return element('path', {
        ...stroke(lookOf(name)),
        'stroke-linejoin': 'round',
        d: `M${points.join('L')}`,
      })
    }),
  )
}

function inFront(series) {
  return [...series].sort((one, other) => (one.name === 'holdfast') - (other.name === 'holdfast'))
}

function quantile(values, share) {
  const sorted = Float64Array.from(values).sort()
  return sorted[Math.floor(share * (sorted.length - 1))]
}

module.exports = { distribution }
