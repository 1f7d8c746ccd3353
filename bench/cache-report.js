'use strict'

const { yardstick } = require('./caches/index.js')
const { figures, median, ratio, spread } = require('./figures.js')
const { bound, judged } = require('./judged.js')
const { verdict } = require('./noise.js')
const { markdownTable, number, table, times } = require('./table.js')
const { targets } = require('./targets.js')

const columns = ['hitRate', 'hitP50', 'hitP99', 'threadCpuOfHit', 'processCpuOfHit', 'serverCpuOfHit']

function ofHits(load, measured) {
  const { windows: base, commands: baseCommands } = measured.get(yardstick)
  const head = [
    'cache',
    ...columns.map((figure) => {
      const { title, unit } = figures[figure]
      return unit ? `${title}\n${unit}` : title
    }),
    'commands\nper hit',
  ]
  const rows = [...measured].map(([cache, { windows, commands }]) => [
    cache,
    ...columns.map((figure, column) => {
      const { median, min, max } = spread(windows, figure)
      return column === 0 ? `${number(median)} (${number(min)}–${number(max)})` : number(median)
    }),
    number(commands.perRead),
  ])
  const ratioHead = ['cache', ...columns.map((figure) => figures[figure].title), 'commands']
  const ratios = [...measured].map(([cache, { windows, commands }]) => [
    cache,
    ...columns.map((figure) => times(ratio(windows, base, figure))),
    times(commands.perRead / baseCommands.perRead),
  ])
  const own = measured.get('holdfast').windows
  const lines = targets[load.name].map(({ figure, least, most }) => {
    const value = ratio(own, base, figure)
    const what = `${figures[figure].title} ${bound({ least, most }, ' ×')} ${yardstick}`
    return { what, least, most, value, text: `${times(value)} ×` }
  })
  const windows = [...measured.values()].flatMap((of) => of.windows)
  return section(load, measured, {
    note: `${load.rounds} windows of ${load.windowMs} ms for each cache; medians (smallest–largest)`,
    tables: [
      [head, rows],
      [ratioHead, ratios],
    ],
    between: `the same as ratios to ${yardstick}`,
    lines,
    last: verdict(windows.map((window) => window.foreignCores)),
    problems: [
      ...wrongValues(measured, (of) => of.windows),
      ...found(measured, ({ windows }) => windows.some(({ loads }) => loads > 0), 'loaded what was there'),
    ],
  })
}

function ofMisses(load, measured) {
  const head = [
    'cache',
    'commands per miss,\none after the other',
    'commands per miss,\nall at once',
    'which',
  ]
  const rows = [...measured].map(([cache, { oneByOne, atOnce }]) => [
    cache,
    number(oneByOne.perRead),
    number(atOnce.perRead),
    Object.entries(oneByOne.counts)
      .map(([name, count]) => `${number(count / oneByOne.reads)} ${name}`)
      .join(', '),
  ])
  const [base, own] = [yardstick, 'holdfast'].map((cache) => measured.get(cache))
  const { more } = targets[load.name]
  const lines = ['oneByOne', 'atOnce'].map((how) => {
    const value = own[how].perRead - base[how].perRead
    const when = how === 'atOnce' ? 'all at once' : 'one after the other'
    return {
      what: `commands per miss, ${when}, ≤ ${more} more than ${yardstick}`,
      most: more,
      value,
      text: `${number(value)} more`,
    }
  })
  return section(load, measured, {
    note: `${load.keys} keys, none of which is there; requests that clients sent`,
    tables: [[head, rows]],
    lines,
    problems: [],
  })
}

function ofHerds(load, measured) {
  const head = ['cache', 'loads', 'in each round', 'slowest caller\nms']
  const rows = [...measured].map(([cache, herds]) => [
    cache,
    number(median(herds.map(({ loads }) => loads))),
    herds.map(({ loads }) => loads).join(', '),
    number(median(herds.map(({ slowest }) => slowest))),
  ])
  const { loads: most } = targets[load.name]
  const value = Math.max(...measured.get('holdfast').map(({ loads }) => loads))
  return section(load, measured, {
    note: `${load.rounds} rounds, each with a key of its own and new processes; medians`,
    tables: [[head, rows]],
    lines: [{ what: `loads ${bound({ most })} in each round`, most, value, text: String(value) }],
    problems: wrongValues(measured, (herds) => herds),
  })
}

function section({ name, title, ...load }, measured, { note, tables, between, lines, last, problems }) {
  const text = [`  ${note}`, '']
  const markdown = [`${note}:`]
  for (const [n, [head, rows]] of tables.entries()) {
    if (n > 0) {
      text.push('', `  ${between}`, '')
      markdown.push(`${between[0].toUpperCase()}${between.slice(1)}:`)
    }
    text.push(table(head, rows))
    markdown.push(markdownTable(head, rows))
  }
  text.push(...judged(lines))
  if (last) {
    text.push('', last)
    markdown.push(last.trim())
  }
  return {
    name,
    title,
    text: text.join('\n'),
    markdown: markdown.join('\n\n'),
    problems,
    raw: { ...load, comparedTo: yardstick, caches: Object.fromEntries(measured) },
  }
}

function wrongValues(measured, partsOf) {
  return found(measured, (of) => partsOf(of).some(({ wrong }) => wrong > 0), 'gave the value of another key')
}

function found(measured, isTrue, words) {
  return [...measured].filter(([, of]) => isTrue(of)).map(([cache]) => `${cache} ${words}`)
}

module.exports = { ofHits, ofMisses, ofHerds }
