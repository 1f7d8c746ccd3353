'use strict'

const { figures, median, ratio, spread } = require('./figures.js')
const { yardstick } = require('./libraries/index.js')
const { number, table, times } = require('./table.js')
const { targets } = require('./targets.js')

/** More foreign load than this, in cores, and the figures aren't to be trusted. */
const QUIET = 0.1

/** The section of a measurement in rounds. */
function of(load, measured) {
  const text = [
    `  ${load.rounds} windows of ${load.windowMs} ms for each library; medians (smallest–largest)`,
    '',
    absolute(measured),
    '',
    `  the same as ratios to ${yardstick}`,
    '',
    relative(measured),
    ...reached(load.name, measured),
    '',
    quiet(measured),
  ].join('\n')
  return { name: load.name, title: load.title, text, problems: problems(measured), raw: raw(load, measured) }
}

function absolute(measured) {
  const columns = Object.entries(figures)
  const head = [
    'library',
    ...columns.map(([, { title, unit }]) => (unit ? `${title}\n${unit}` : title)),
    'commands\nper pair',
    'overlaps',
  ]
  const rows = [...measured].map(([library, { windows, commands }]) => [
    library,
    ...columns.map(([figure]) => {
      const { median, min, max } = spread(windows, figure)
      return figure === 'rate' ? `${number(median)} (${number(min)}–${number(max)})` : number(median)
    }),
    number(commands.perPair),
    windows.reduce((sum, window) => sum + window.overlaps, 0),
  ])
  return table(head, rows)
}

function relative(measured) {
  const base = measured.get(yardstick)
  const columns = Object.entries(figures)
  const head = ['library', ...columns.map(([, { title }]) => title), 'commands']
  const rows = [...measured].map(([library, { windows, commands }]) => [
    library,
    ...columns.map(([figure]) => times(ratio(windows, base.windows, figure))),
    times(commands.perPair / base.commands.perPair),
  ])
  return table(head, rows)
}

function reached(name, measured) {
  const own = measured.get('holdfast')
  if (!own || !targets[name]) return []
  const lines = targets[name].map(({ figure, to, least, most, stretch }) => {
    const others =
      to === 'every library'
        ? [...measured.keys()].filter((library) => library !== 'holdfast' && library !== yardstick)
        : [to]
    const ratios = others
      .filter((library) => measured.has(library))
      .map((library) => ratio(own.windows, measured.get(library).windows, figure))
    const bound = least === undefined ? `≤ ${most} ×` : `≥ ${least} ×`
    const what = `${stretch ? 'stretch: ' : ''}${figures[figure].title} ${bound} ${to}`
    if (ratios.length === 0 || ratios.includes(null)) return [what, '–', 'not measured']
    // The one of them that is hardest to meet.
    const value = least === undefined ? Math.max(...ratios) : Math.min(...ratios)
    const met = least === undefined ? value <= most : value >= least
    return [what, `${times(value)} ×`, met ? 'reached' : 'missed']
  })
  return ['', table(['target', 'measured', ''], lines)]
}

function quiet(measured) {
  const shares = [...measured.values()].flatMap(({ windows }) => windows.map((window) => window.foreignCores))
  const most = Math.max(...shares)
  const line = `  used by other processes meanwhile: ${number(median(shares))} cores (median window), ${number(most)} (worst)`
  return median(shares) > QUIET ? `${line}: TOO NOISY, run it again` : line
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

function raw(load, measured) {
  const base = measured.get(yardstick)
  const libraries = [...measured].map(([library, { windows, commands }]) => [
    library,
    {
      figures: Object.fromEntries(
        Object.keys(figures).map((figure) => [
          figure,
          { ...spread(windows, figure), ratio: ratio(windows, base.windows, figure) },
        ]),
      ),
      commands,
      windows,
    },
  ])
  return { ...load, libraries: Object.fromEntries(libraries) }
}

module.exports = { of }
