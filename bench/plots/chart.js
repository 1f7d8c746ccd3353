'use strict'

const { lookOf, style } = require('./palette.js')
const { element, text } = require('./svg.js')

const WIDTH = 840
const MARGIN = 20

/** Where the head of a card ends. */
const TOP = 82

/** A whole picture: a card with a title, two lines that explain it, and the content below `TOP`. */
function card({ title, lines, height }, ...content) {
  return `${element(
    'svg',
    {
      xmlns: 'http://www.w3.org/2000/svg',
      viewBox: `0 0 ${WIDTH} ${height}`,
      width: WIDTH,
      height,
      role: 'img',
      'aria-label': `${title}. ${lines.join('. ')}`,
    },
    style(),
    element('rect', { class: 'card', x: 0.5, y: 0.5, width: WIDTH - 1, height: height - 1, rx: 6 }),
    text(title, { class: 'title text', x: MARGIN, y: 30 }),
    lines.map((line, n) => text(line, { class: 'muted', x: MARGIN, y: 50 + n * 17 })),
    ...content,
  )}\n`
}

/** Lines and labels of both axes of the area between the scales' ends. `x` and `y` are `{ scale, title, format }`. */
function axes({ left, right, top, bottom }, x, y) {
  const line = (x1, y1, x2, y2, opacity) =>
    element('line', { class: 'grid', stroke: 'currentColor', 'stroke-opacity': opacity, x1, y1, x2, y2 })
  return [
    x.scale.minor.map((value) => line(x.scale(value), top, x.scale(value), bottom, 0.35)),
    y.scale.minor.map((value) => line(left, y.scale(value), right, y.scale(value), 0.35)),
    x.scale.ticks.map((value) => [
      line(x.scale(value), top, x.scale(value), bottom),
      text(x.format(value), { class: 'muted', x: x.scale(value), y: bottom + 17, 'text-anchor': 'middle' }),
    ]),
    y.scale.ticks.map((value) => [
      line(left, y.scale(value), right, y.scale(value)),
      text(y.format(value), { class: 'muted', x: left - 7, y: y.scale(value) + 4, 'text-anchor': 'end' }),
    ]),
    x.title &&
      text(x.title, { class: 'text', x: (left + right) / 2, y: bottom + 36, 'text-anchor': 'middle' }),
    y.title && upright(y.title, left - 46, (top + bottom) / 2),
  ].filter(Boolean)
}

function upright(content, x, y) {
  return text(content, {
    class: 'text',
    transform: `translate(${x} ${y}) rotate(-90)`,
    'text-anchor': 'middle',
  })
}

/** The names with their lines, in columns from `x`, `y` on. */
function legend(names, { x, y, columns = 4, width = (WIDTH - 2 * MARGIN) / columns }) {
  return names.map((name, n) => {
    const left = x + (n % columns) * width
    const middle = y + Math.floor(n / columns) * 20
    const look = lookOf(name)
    return [
      element('line', { ...stroke(look), x1: left, y1: middle, x2: left + 28, y2: middle }),
      text(name, { class: name === 'holdfast' ? 'text strong' : 'text', x: left + 35, y: middle + 4 }),
    ]
  })
}

function stroke(look) {
  return {
    class: look.class,
    stroke: 'currentColor',
    fill: 'none',
    'stroke-width': look.width,
    'stroke-dasharray': look.dash,
  }
}

/** A label of an axis: thousands marked, no digits that say nothing. */
function plain(value) {
  return value.toLocaleString('en', { maximumSignificantDigits: 6 })
}

module.exports = { WIDTH, MARGIN, TOP, card, axes, legend, stroke, plain }
