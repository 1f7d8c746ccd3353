'use strict'

// One page of numbers: the two rounds side by side.

/**
 * @param {object[]} rounds without and with the lock
 * @param {{ orders: number, clients: number, stock: number }} what
 */
function report(rounds, { orders, clients, stock }) {
  const names = [...new Set(rounds.flatMap((round) => round.answers.map((answer) => nameOf(answer.status))))]
  const figures = rounds.map((round) => describe(round, names.sort(), stock))
  const rows = Object.keys(Object.assign({}, ...figures))
  console.log(`\n${orders} orders for ${stock} things in stock, from ${clients} clients at a time\n`)
  console.log(line('', ['without lock', 'with lock']))
  for (const name of rows) {
    const cells = figures.map((figure) => figure[name] ?? '–')
    console.log(line(name, cells))
  }
  const [off, on] = rounds
  console.log()
  console.log(`Without the lock ${off.oversold || 'no'} things were sold that were not there,`)
  console.log(
    `with it ${on.oversold || 'none'}; the fencing tokens of its orders ${on.tokensRise ? 'rise' : 'DO NOT RISE'}.`,
  )
}

/** What became of an order: a status, or a connection that failed. */
function nameOf(status) {
  const known = { 201: 'accepted (201)', 409: 'sold out (409)', 503: 'too busy, or no Redis (503)' }
  return known[status] ?? `error (${status})`
}

function describe({ lock, answers, seconds, stats, sold, oversold }, names, stock) {
  const count = (name) => answers.filter((answer) => nameOf(answer.status) === name).length
  const figures = {
    ...Object.fromEntries(names.map((name) => [`orders ${name}`, count(name)])),
    'things in stock at first': stock,
    'things sold': sold,
    'oversold by': oversold,
    'orders answered per second': (answers.length / seconds).toFixed(0),
  }
  if (lock === 'off') return figures
  const waits = answers.flatMap(({ status, answer }) => (status === 201 ? answer.waited : []))
  waits.sort((a, b) => a - b)
  const wait = (share) =>
    waits.length > 0 ? `${waits[Math.ceil(share * waits.length) - 1].toFixed(1)} ms` : '–'
  return {
    ...figures,
    'waits for the lock, p50': wait(0.5),
    'waits for the lock, p99': wait(0.99),
    'waits for the lock, max': wait(1),
    'locks taken': stats.acquired,
    'handed on inside a process': stats.handedOn,
    'commands of the locks': stats.commands,
    'commands per order': (stats.commands / stats.acquired).toFixed(2),
  }
}

function line(name, cells) {
  return `  ${name.padEnd(32)}${cells.map((cell) => String(cell).padStart(12)).join('')}`
}

module.exports = { report }
