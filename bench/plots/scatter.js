'use strict'

const { axes, card, MARGIN, plain, TOP, WIDTH } = require('./chart.js')
const { lookOf } = require('./palette.js')
const { linear, logarithmic } = require('./scale.js')
const { element, short, text } = require('./svg.js')

const COLUMNS = 3
/** Sizes of the dots. */
const SMALL = 2.5
const LARGE = 6
const PANEL = { height: 150, gap: 46 }

/**
 * One small panel a library: a dot for each acquisition, the time of its grant to the right, its wait upwards. `panels`
 * are `{ name, seconds, all, one, waiting }`: `[second, wait]` of all callers, of one of them, and the waits of those
 * that were still waiting at the end.
 */
function scatter({ title, lines, panels }) {
  const top = TOP + 52
  const left = 76
  const rows = Math.ceil(panels.length / COLUMNS)
  const height = top + rows * (PANEL.height + PANEL.gap) + 26
  const width = (WIDTH - left - MARGIN - (COLUMNS - 1) * 18) / COLUMNS
  const waits = panels.flatMap(({ all, waiting }) => [...all.map(([, wait]) => wait), ...waiting])
  const least = Math.max(
    0.1,
    waits.reduce((low, wait) => Math.min(low, wait), Infinity),
  )
  const most = waits.reduce((high, wait) => Math.max(high, wait), least)
  return card(
    { title, lines, height },
    key(TOP + 10),
    panels.map((panel, n) => {
      const column = n % COLUMNS
      const area = {
        left: left + column * (width + 18),
        top: top + Math.floor(n / COLUMNS) * (PANEL.height + PANEL.gap),
      }
      area.right = area.left + width
      area.bottom = area.top + PANEL.height
      const below = n + COLUMNS >= panels.length
      return panelOf(panel, area, { least, most, first: column === 0, below })
    }),
  )
}

function panelOf({ name, seconds, all, one, waiting }, area, { least, most, first, below }) {
  const x = linear([0, seconds], [area.left, area.right])
  const y = logarithmic([least, most], [area.bottom, area.top])
  // Too many lines for a small panel.
  y.minor = []
  const place = ([second, wait]) => `M${short(x(second))} ${short(y(Math.max(y.least, wait)))}h0`
  const dots = (points, width, opacity) =>
    element('path', {
      class: lookOf(name).class,
      stroke: 'currentColor',
      'stroke-width': width,
      'stroke-linecap': 'round',
      'stroke-opacity': opacity,
      d: points.map(place).join(''),
    })
  return [
    text(waiting.length > 0 ? `${name}: ${waiting.length} still waiting` : name, {
      class: name === 'holdfast' ? 'text strong' : 'text',
      x: area.left,
      y: area.top - 8,
    }),
    axes(
      area,
      { scale: x, title: below ? 'time, s' : undefined, format: plain },
      { scale: y, title: first ? 'wait, ms' : undefined, format: first ? plain : () => '' },
    ),
    all.length > 0 ? dots(all, SMALL, 0.45) : [],
    one.length > 0 ? dots(one, LARGE, 1) : [],
    waiting.map((wait) => triangle(area.right, y(Math.max(y.least, wait)))),
  ]
}

/** What the marks mean. */
function key(y) {
  const dot = (x, size, opacity) =>
    element('circle', {
      class: 'text',
      fill: 'currentColor',
      'fill-opacity': opacity,
      cx: x,
      cy: y,
      r: size / 2,
    })
  return [
    [dot(MARGIN + 6, LARGE), 'one caller'],
    [dot(MARGIN + 186, SMALL, 0.6), 'all other callers'],
    [triangle(MARGIN + 368, y), 'still waiting at the end, so long already'],
  ].map(([mark, meaning], n) => [mark, text(meaning, { class: 'text', x: MARGIN + 18 + n * 180, y: y + 4 })])
}

/** Points on from the edge: nobody knows how long it is going to be. */
function triangle(x, y) {
  return element('path', { class: 'text', fill: 'currentColor', d: `M${short(x)} ${short(y)}l-5 3v-6z` })
}

module.exports = { scatter }
