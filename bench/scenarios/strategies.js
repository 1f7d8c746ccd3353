'use strict'

const { setTimeout: sleep } = require('node:timers/promises')
const { LibraryProcess } = require('../library-process.js')
const noise = require('../noise.js')
const { now } = require('../shared-clock.js')
const { cellOf } = require('../strategy-cell.js')
const { markdown, text } = require('../strategy-report.js')

// Longer than any cell lasts.
const OPTIONS = { ttl: 10_000, timeout: 600_000 }

/** Each way of waiting, by its name in tables. */
const STRATEGIES = {
  fixed: 'fixed',
  spin: 'spin',
  backoff: 'backoff',
  hybrid: 'hybrid',
  'spin-subscribe': 'spin-subscribe',
  adaptive: 'adaptive',
  'low latency': poll(0, 500, 500),
  throughput: poll(5, 50, 1_000),
  'mixed loads': poll(2, 200, 2_000),
}

/** How many callers there are, and over how many processes they are spread. */
const CROWDS = [
  { callers: 2, processes: 2 },
  { callers: 8, processes: 4 },
  { callers: 64, processes: 4 },
]
const HOLDS = [1, 5, 50, 300]

/** Acquisitions that a cell should have, in a window of at least and at most so long, ms. */
const ENOUGH = 30
const LEAST = 2_000
const MOST = 9_000
/** A cell is warm when every caller may have had a turn; but not everything can be waited for, ms. */
const WARM = { least: 200, most: 3_600 }
/** A process that answers an order so much later than it should hangs, ms. */
const PATIENCE = 30_000

/** Holdfast's ways of waiting for other processes, against each other. */
module.exports = {
  name: 'strategies',
  byDefault: false,
  async run({ libraries, server, quick, progress }) {
    const library = libraries.find(({ name }) => name === 'holdfast')
    if (!library) return []
    const holds = quick ? [5, 50] : HOLDS
    const crowds = quick ? [CROWDS[1]] : CROWDS
    const total = holds.length * crowds.length * Object.keys(STRATEGIES).length
    const cells = []
    const problems = []
    const processes = await Promise.all(
      Array.from({ length: 4 }, () => LibraryProcess.open('holdfast', { ...OPTIONS, url: server.url })),
    )
    try {
      for (const crowd of crowds) {
        for (const hold of holds) {
          for (const [name, strategy] of Object.entries(STRATEGIES)) {
            progress(
              `strategies: ${cells.length + 1} of ${total}: ${crowd.callers} callers, ${hold} ms, ${name}`,
            )
            const load = { ...crowd, hold, strategy, least: quick ? LEAST / 2 : LEAST }
            const cell = { name, ...load, ...(await measure(processes, server, load, `${cells.length}`)) }
            if (cell.overlaps > 0) {
              problems.push(`${name}: two holders of one key at once, ${cell.overlaps} times`)
            }
            cells.push(cell)
          }
        }
      }
      await Promise.all(processes.map((process) => process.close()))
    } finally {
      for (const process of processes) process.kill()
    }
    return [
      {
        name: 'strategies',
        title: 'strategies: ways of waiting for other processes, one key, every caller comes back at once',
        text: text(cells),
        markdown: markdown(cells),
        problems,
        raw: { cells },
      },
    ]
  },
}

function poll(interval, maxAttempts, maxDuration) {
  return { type: 'poll', interval, maxAttempts, maxDuration, then: 'backoff' }
}

async function measure(all, server, { callers, processes, hold, strategy, least }, part) {
  const used = all.slice(0, processes)
  const everywhere = (order, args, limit) =>
    Promise.all(used.map((process) => process.order(order, args, { limit: limit + PATIENCE })))
  // Nobody has waited for this key before: what `adaptive` knows of it, it has learnt here.
  const load = { key: `bench:strategies:${part}`, callers: callers / processes, hold, options: { strategy } }
  const round = callers * hold * 1.1
  const warm = round > WARM.most ? WARM.least : Math.max(WARM.least, round)
  const window = Math.min(MOST, Math.max(least, ENOUGH * hold, callers * hold))

  await everywhere('compete', load, 0)
  await sleep(warm)
  // Long enough from now for all processes to have heard of it.
  const from = now() + 20
  const until = from + window
  const measuring = everywhere('measure', { from, until, everything: true }, window)
  // Whoever waits for it below hears of its failure.
  measuring.catch(() => {})
  await sleep(from - now())
  const others = await noise.watch(server)
  const before = await server.cpu()
  const measured = await measuring
  const serverCpu = (await server.cpu()) - before
  const foreignCores = await others(measured.reduce((sum, { processCpu }) => sum + processCpu, 0))
  await everywhere('stopCompeting', {}, hold)
  return { ...cellOf(measured, { from, until, serverCpu }), growing: round > WARM.most, foreignCores }
}
