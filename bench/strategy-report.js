'use strict'

const { verdict } = require('./noise.js')
const { markdownTable, number, table } = require('./table.js')

const COLUMNS = {
  'hold, ms': ({ hold }) => number0(hold),
  strategy: ({ name }) => name,
  'wait p50, ms': ({ p50, atLeast, growing }) => wait(p50, atLeast.p50 || growing),
  'p99, ms': ({ p99, atLeast, growing }) => wait(p99, atLeast.p99 || growing),
  'longest, ms': ({ max, atLeast, growing }) => wait(max, atLeast.max || growing),
  'held, % of time': ({ held }) => number(held),
  'commands per acquisition': ({ commands }) => number(commands),
  'client CPU, µs': ({ clientCpu }) => number(clientCpu),
  'server CPU, µs': ({ serverCpu }) => number(serverCpu),
  acquisitions: ({ acquisitions }) => number0(acquisitions),
}

const FOOTNOTES = [
  'Every caller takes the lock, holds it, gives it back and asks for it again at once.',
  'Wait: from the call of acquire until it is resolved, the queue of all others included.',
  'Held: the share of the time in which somebody had the lock; the rest is what handing over cost.',
  'CPU: of all processes that wait or hold together, and of the server, per acquisition.',
  '≥: some were still waiting at the end, or the queue was longer than the window.',
]

function text(cells) {
  return groups(cells)
    .map(({ title, cells }) => `  ${title}\n\n${table(heads(), rows(cells))}`)
    .concat(FOOTNOTES.map((line) => `  ${line}`).join('\n'))
    .concat(verdict(cells.map(({ foreignCores }) => foreignCores)))
    .join('\n\n')
}

/** For a page: first what matters at a glance, then everything. */
function markdown(cells) {
  const parts = groups(cells).flatMap(({ title, cells }) => [
    `### ${title[0].toUpperCase()}${title.slice(1)}`,
    'Held, % of the time / commands per acquisition:',
    markdownTable(...glance(cells)),
    'In full:',
    markdownTable(Object.keys(COLUMNS), rows(cells)),
  ])
  return [FOOTNOTES.join(' '), ...parts, verdict(cells.map(({ foreignCores }) => foreignCores)).trim()].join(
    '\n\n',
  )
}

function groups(cells) {
  return [...new Set(cells.map(({ callers }) => callers))].map((callers) => {
    const own = cells.filter((cell) => cell.callers === callers)
    const { processes } = own[0]
    const spread = callers === processes ? 'one in each' : `${callers / processes} in each`
    return { title: `${callers} callers in ${processes} processes, ${spread}`, cells: own }
  })
}

function glance(cells) {
  const holds = [...new Set(cells.map(({ hold }) => hold))]
  const names = [...new Set(cells.map(({ name }) => name))]
  const cell = (name, hold) => cells.find((each) => each.name === name && each.hold === hold)
  return [
    ['strategy', ...holds.map((hold) => `${hold} ms hold`)],
    names.map((name) => [
      name,
      ...holds.map((hold) => `${number(cell(name, hold).held)} / ${number(cell(name, hold).commands)}`),
    ]),
  ]
}

function heads() {
  return Object.keys(COLUMNS).map((head) => head.replace(', ', '\n').replace(' per ', '\nper '))
}

function rows(cells) {
  return cells.map((cell) => Object.values(COLUMNS).map((of) => of(cell)))
}

function wait(value, atLeast) {
  return `${atLeast ? '≥ ' : ''}${number(value)}`
}

function number0(value) {
  return value.toLocaleString('en')
}

module.exports = { text, markdown }
