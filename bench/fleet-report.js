'use strict'

const { heading, figures, shown, summary } = require('./fleet-figures.js')
const { plotsOf } = require('./fleet-plots.js')
const { bound, judged } = require('./judged.js')
const { verdict } = require('./noise.js')
const { markdownTable, number, table } = require('./table.js')
const { targets } = require('./targets.js')

/** The section of a measurement in a fleet. `load.figures` are its columns. */
function of(load, measured) {
  const alive = [...measured].filter(([, { windows }]) => windows.length > 0)
  const [head, rows] = tableOf(load, alive)
  const failed = [...measured]
    .filter(([, { failure }]) => failure)
    .map(([library, { failure }]) => `${library} failed: ${failure}`)
  const note = `${load.rounds === 1 ? 'One window' : `${load.rounds} windows`} of ${load.windowMs / 1_000} s for each library${load.rounds === 1 ? '' : '; medians (smallest–largest)'}.`
  const quiet =
    alive.length === 0
      ? []
      : [verdict(alive.flatMap(([, { windows }]) => windows.map(({ foreignCores }) => foreignCores)))]
  return {
    name: load.name,
    title: load.title,
    text: [
      `  ${note}`,
      '',
      table(head, rows),
      ...failed.map((line) => `  ${line}`),
      ...judged(lines(load, measured)),
      '',
      ...quiet,
    ].join('\n'),
    markdown: [
      `${load.about} ${note}`,
      markdownTable(head, rows),
      ...failed,
      ...quiet.map((line) => line.trim()),
    ].join('\n\n'),
    plots: plotsOf(load, measured),
    problems: problems(load, measured),
    raw: { ...load, libraries: Object.fromEntries(measured) },
  }
}

function tableOf(load, alive) {
  const head = ['library', ...load.figures.map(heading), 'commands\nper pair', 'overlaps']
  const rows = alive.map(([library, { windows, commands }]) => [
    library,
    ...load.figures.map((figure) => shown(windows, figure, load)),
    number(commands?.perPair),
    windows.reduce((sum, { overlaps }) => sum + overlaps, 0),
  ])
  return [head, rows]
}

function lines(load, measured) {
  const own = measured.get('holdfast')
  if (!own || own.windows.length === 0) return []
  return (targets[load.name] ?? []).map((target) => {
    if (target.figure === 'commands') {
      const value = own.commands?.perPair
      return { what: `commands per pair ${bound(target)}`, ...target, value, text: number(value) }
    }
    const value = summary(own.windows, target.figure, load).median
    const { title, unit } = figures[target.figure]
    if (target.to) return toBestPeer(target, value, load, measured)
    const what = `${title}${unit ? `, ${unit},` : ''} ${bound(target)}`
    return { what, ...target, value, text: shown(own.windows, target.figure, load) }
  })
}

/** Against the peer whose figure is the smallest. */
function toBestPeer({ figure, most }, own, load, measured) {
  const peers = [...measured]
    .filter(([library]) => library !== 'holdfast')
    .map(([, { windows }]) => summary(windows, figure, load).median)
    .filter((value) => value !== null)
  const value = peers.length === 0 || own === null ? null : own / Math.min(...peers)
  return { what: `${figures[figure].title} ${bound({ most }, ' ×')} the best peer`, most, value }
}

function problems({ name }, measured) {
  return [...measured].flatMap(([library, { windows, failure }]) => {
    const overlaps = windows.reduce((sum, window) => sum + window.overlaps, 0)
    const notOurs = windows.reduce((sum, window) => sum + window.notOurs, 0)
    return [
      ...(overlaps ? [`${name}: ${library}: two holders of one key at once, ${overlaps} times`] : []),
      ...(notOurs ? [`${name}: ${library}: a release found the lock gone, ${notOurs} times`] : []),
      ...(failure && library === 'holdfast' ? [`${name}: ${library}: ${failure}`] : []),
    ]
  })
}

module.exports = { of }
