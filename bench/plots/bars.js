'use strict'

const { card, MARGIN, TOP, WIDTH } = require('./chart.js')
const { lookOf } = require('./palette.js')
const { linear } = require('./scale.js')
const { element, text } = require('./svg.js')

const ROW = 26
const NAMES = 150
const GAP = 24
/** Right of a bar, for its figure. */
const FIGURE = 62

/** Horizontal bars side by side, one panel a figure. `panels` are `{ title, most, rows }`, rows `{ name, value, text }`. */
function bars({ title, lines, panels }) {
  const top = TOP + 28
  const names = panels[0].rows.map(({ name }) => name)
  const height = top + names.length * ROW + MARGIN
  const width = (WIDTH - 2 * MARGIN - NAMES - GAP * (panels.length - 1)) / panels.length
  return card(
    { title, lines, height },
    names.map((name, n) =>
      text(name, {
        class: name === 'holdfast' ? 'text strong' : 'text',
        x: MARGIN + NAMES - 10,
        y: top + n * ROW + 17,
        'text-anchor': 'end',
      }),
    ),
    panels.map((panel, n) => panelOf(panel, { left: MARGIN + NAMES + n * (width + GAP), top, width })),
  )
}

function panelOf({ title, most, rows }, { left, top, width }) {
  const largest = most ?? Math.max(...rows.map(({ value }) => value ?? 0), 1e-9)
  const x = linear([0, largest], [left, left + width - FIGURE])
  return [
    text(title, { class: 'text strong', x: left, y: top - 12 }),
    element('line', {
      class: 'muted',
      stroke: 'currentColor',
      x1: left,
      y1: top,
      x2: left,
      y2: top + rows.length * ROW,
    }),
    rows.map(({ name, value, text: figure }, n) => [
      value !== null &&
        element('rect', {
          class: lookOf(name).class,
          fill: 'currentColor',
          x: left,
          y: top + n * ROW + 4,
          width: Math.max(1, x(value) - left),
          height: ROW - 8,
          rx: 2,
        }),
      text(figure, { class: 'text', x: (value === null ? left : x(value)) + 6, y: top + n * ROW + 17 }),
    ]),
  ]
    .flat(Infinity)
    .filter(Boolean)
}

module.exports = { bars }
