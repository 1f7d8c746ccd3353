'use strict'

const { table, times } = require('./table.js')

/**
 * The table of targets. Each line is `{ what, least | most, value, text }`: what is bounded by which number, the value
 * (`null` if there is none) and how it is shown.
 */
function judged(lines) {
  if (lines.length === 0) return []
  const rows = lines.map(({ what, least = -Infinity, most = Infinity, value, text }) => {
    if (value === null || value === undefined) return [what, '–', 'not measured']
    return [what, text ?? times(value), value >= least && value <= most ? 'reached' : 'missed']
  })
  return ['', table(['target', 'measured', ''], rows)]
}

/** The words of a bound. */
function bound({ least, most }, unit = '') {
  return `${least === undefined ? `≤ ${most}` : `≥ ${least}`}${unit}`
}

module.exports = { judged, bound }
