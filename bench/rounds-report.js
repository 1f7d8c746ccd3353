'use strict'

const { figures, ratio, spread, usual } = require('./figures.js')
const { bound, judged } = require('./judged.js')
const { yardstick } = require('./libraries/index.js')
const { verdict } = require('./noise.js')
const { markdownTable, number, table, times } = require('./table.js')
const { targets } = require('./targets.js')

/** The section of a measurement in rounds. `load.figures` are its columns; the first is the rate. */
function of(load, measured) {
  const columns = load.figures ?? usual
  const base = baseOf(load, columns[0], measured)
  const note = `${load.rounds} windows of ${load.windowMs} ms for each library; medians (smallest–largest)`
  const ratios = `the same as ratios to ${base}${load.comparedTo ? `, ${load.comparedTo}` : ''}`
  const quiet = verdict(
    [...measured.values()].flatMap(({ windows }) => windows.map((window) => window.foreignCores)),
  )
  const text = [
    `  ${note}`,
    '',
    table(...absolute(columns, measured)),
    '',
    `  ${ratios}`,
    '',
    table(...relative(columns, base, measured)),
    ...judged(lines(load.name, measured)),
    '',
    quiet,
  ].join('\n')
  const markdown = [
    `${note}:`,
    markdownTable(...absolute(columns, measured)),
    `${ratios[0].toUpperCase()}${ratios.slice(1)}:`,
    markdownTable(...relative(columns, base, measured)),
    quiet.trim(),
  ].join('\n\n')
  return {
    name: load.name,
    title: load.title,
    text,
    markdown,
    problems: problems(measured),
    raw: raw(load, columns, base, measured),
  }
}

/** Whom the others are compared to: the yardstick, or whoever but Holdfast was the fastest. */
function baseOf(load, rate, measured) {
  if (load.comparedTo !== 'the fastest peer') return yardstick
  const peers = [...measured].filter(([library]) => library !== 'holdfast')
  const rates = peers.map(([, { windows }]) => spread(windows, rate).median)
  return peers[rates.indexOf(Math.max(...rates))][0]
}

function absolute(columns, measured) {
  const head = [
    'library',
    ...columns.map((figure) => heading(figures[figure])),
    'commands\nper pair',
    'overlaps',
  ]
  const rows = [...measured].map(([library, { windows, commands }]) => [
    library,
    ...columns.map((figure, column) => {
      const { median, min, max } = spread(windows, figure)
      return column === 0 ? `${number(median)} (${number(min)}–${number(max)})` : number(median)
    }),
    number(commands.perPair),
    windows.reduce((sum, window) => sum + window.overlaps, 0),
  ])
  return [head, rows]
}

function heading({ title, unit }) {
  return unit ? `${title}\n${unit}` : title
}

function relative(columns, base, measured) {
  const other = measured.get(base)
  const head = [
    'library',
    // Two columns of one title are told apart by their units.
    ...columns.map((figure) => {
      const { title } = figures[figure]
      const twice = columns.filter((another) => figures[another].title === title).length > 1
      return twice ? heading(figures[figure]) : title
    }),
    'commands',
  ]
  const rows = [...measured].map(([library, { windows, commands }]) => [
    library,
    ...columns.map((figure) => times(ratio(windows, other.windows, figure))),
    times(commands.perPair / other.commands.perPair),
  ])
  return [head, rows]
}

function lines(name, measured) {
  const own = measured.get('holdfast')
  if (!own) return []
  return (targets[name] ?? []).map((target) => (target.to ? compared : alone)(target, own, measured))
}

/** A target that is a ratio to others. */
function compared({ figure, to, least, most, stretch }, own, measured) {
  const others = to.startsWith('every ')
    ? [...measured.keys()].filter(
        (library) => library !== 'holdfast' && (to === 'every peer' || library !== yardstick),
      )
    : [to]
  const ratios = others
    .filter((library) => measured.has(library))
    .map((library) => ratio(own.windows, measured.get(library).windows, figure))
  const what = `${stretch ? 'stretch: ' : ''}${figures[figure].title} ${bound({ least, most }, ' ×')} ${to}`
  if (ratios.length === 0 || ratios.includes(null)) return { what, value: null }
  // The one of them that is hardest to meet.
  const value = least === undefined ? Math.max(...ratios) : Math.min(...ratios)
  return { what, least, most, value, text: `${times(value)} ×` }
}

/** A target that is a figure of its own. */
function alone({ figure, most, inEach }, own) {
  if (figure === 'commands') {
    const value = own.commands.perPair
    return { what: `commands per pair ${bound({ most })}`, most, value, text: value.toFixed(4) }
  }
  const { title, unit } = figures[figure]
  const { median, max } = spread(own.windows, figure)
  const value = inEach ? max : median
  const what = `${title}, ${unit}, ${bound({ most })}${inEach ? ' in each window' : ''}`
  return { what, most, value, text: number(value) }
}

function problems(measured) {
  return [...measured].flatMap(([library, { windows }]) => {
    const overlaps = windows.reduce((sum, window) => sum + window.overlaps, 0)
    const notOurs = windows.reduce((sum, window) => sum + window.notOurs, 0)
    return [
      ...(overlaps ? [`${library}: two holders of one key at once, ${overlaps} times`] : []),
      ...(notOurs ? [`${library}: a release found the lock gone, ${notOurs} times`] : []),
    ]
  })
}

function raw(load, columns, base, measured) {
  const other = measured.get(base)
  const libraries = [...measured].map(([library, { windows, commands }]) => [
    library,
    {
      figures: Object.fromEntries(
        columns.map((figure) => [
          figure,
          { ...spread(windows, figure), ratio: ratio(windows, other.windows, figure) },
        ]),
      ),
      commands,
      windows,
    },
  ])
  return { ...load, comparedTo: base, libraries: Object.fromEntries(libraries) }
}

module.exports = { of }
