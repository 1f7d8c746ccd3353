'use strict'

const { setTimeout: sleep } = require('node:timers/promises')
const { contention } = require('../contention.js')
const { everywhere, measureTogether } = require('../fleet-window.js')
const { LibraryProcess } = require('../library-process.js')
const { markdown, text } = require('../strategy-report.js')

// Longer than any cell lasts.
const OPTIONS = { ttl: 10_000, timeout: 600_000 }

/** Each way of waiting, by its name in tables. */
const STRATEGIES = {
  handoff: 'handoff',
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
            let cell
            try {
              cell = { name, ...load, ...(await measure(processes, server, load, `${cells.length}`)) }
            } catch (error) {
              problems.push(`${name} is not measured: ${error.message.split('\n', 1)[0]}`)
              continue
            }
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
  // Nobody has waited for this key before: what `adaptive` knows of it, it has learnt here.
  const load = { key: `bench:strategies:${part}`, callers: callers / processes, hold, options: { strategy } }
  const round = callers * hold * 1.1
  const warm = round > WARM.most ? WARM.least : Math.max(WARM.least, round)
  const ms = Math.min(MOST, Math.max(least, ENOUGH * hold, callers * hold))

  await everywhere(used, 'compete', load)
  await sleep(warm)
  const window = await measureTogether(used, server, { ms })
  await everywhere(used, 'stopCompeting', {}, hold)
  const { handOffs, ...cell } = contention(window.measured, window)
  return { ...cell, growing: round > WARM.most, foreignCores: window.foreignCores }
}
