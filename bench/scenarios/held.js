'use strict'

const { setTimeout: sleep } = require('node:timers/promises')
const countingProxy = require('../counting-proxy.js')
const { median } = require('../figures.js')
const { bound, judged } = require('../judged.js')
const { LibraryProcess } = require('../library-process.js')
const noise = require('../noise.js')
const { markdownTable, number, table } = require('../table.js')
const { targets } = require('../targets.js')

const LOCKS = 10_000
const TIMEOUT = 60_000
const PARTS = 10
/** How often the keys' times to live are looked at, ms. */
const LOOK_EVERY = 2_000
/** A request that keeps the server longer than this keeps everybody else waiting, µs. */
const LONG = 1_000

/** Ten thousand locks that one process holds and does nothing with: what does keeping them cost? */
module.exports = {
  name: 'held',
  byDefault: false,
  async run(context) {
    const ttl = context.quick ? 3_000 : 10_000
    const seconds = context.seconds ?? (context.quick ? 6 : 60)
    const results = []
    for (const library of context.libraries) {
      if (!library.renews) continue
      context.progress(`held: ${library.name}`)
      const most = library.name === 'holdfast' ? Infinity : (2 * ttl) / 1_000
      results.push({
        library,
        ...(await measure(library, context.server, ttl, Math.min(seconds, most) * 1_000)),
      })
    }
    return [section(results, ttl, seconds)]
  },
}

async function measure(library, server, ttl, ms) {
  const keys = Array.from({ length: LOCKS }, (_, n) => `bench:${library.name}:held:${n}`)
  const stored = keys.map((key) => library.redisKey(key))
  const times = []
  const proxy = await countingProxy.start(server.port, () => times.push(performance.now()))
  let holder
  try {
    holder = await LibraryProcess.open(library.name, { url: proxy.url, ttl, timeout: TIMEOUT })
    await holder.order('take', { keys })
    // Until each has been renewed, and the order of renewals isn't that of the calls any more.
    await sleep(ttl)

    await server.watchRequests(LONG)
    const others = await noise.watch(server)
    times.length = 0
    const from = performance.now()
    const [usage, lowestPttl] = await Promise.all([
      holder.order('usage', { ms }, { limit: ms + TIMEOUT }),
      lowestOf(server.control, stored, ms),
    ])
    const foreignCores = await others(usage.cpu * 10 * usage.ms)
    const requests = spread(times, from, usage.ms, library.renewsEvery(ttl))
    const { longer, usPerScript } = await server.watchedRequests()

    const there = await existing(server.control, stored)
    const { lost } = await holder.order('letGo')
    return {
      cpu: usage.cpu,
      lowestPttl,
      ...requests,
      longer,
      usPerScript,
      lost: Math.max(lost, LOCKS - there),
      foreignCores,
    }
  } finally {
    holder?.kill()
    await proxy.stop()
  }
}

/** The shortest time to live of any of the keys, looked at every now and then for `ms`. */
async function lowestOf(control, stored, ms) {
  let lowest = Infinity
  for (const until = performance.now() + ms; performance.now() < until; await sleep(LOOK_EVERY)) {
    for (const [, pttl] of await control.pipeline(stored.map((key) => ['pttl', key])).exec()) {
      lowest = Math.min(lowest, Math.max(0, pttl))
    }
  }
  return lowest
}

async function existing(control, stored) {
  const replies = await control.pipeline(stored.map((key) => ['exists', key])).exec()
  return replies.reduce((sum, [, exists]) => sum + exists, 0)
}

/** How requests at `times` lie in the whole intervals between `from` and `ms` later. */
function spread(times, from, ms, interval) {
  const intervals = Array.from({ length: Math.floor(ms / interval) }, () => new Array(PARTS).fill(0))
  for (const time of times) {
    const position = (time - from) / interval
    const parts = intervals[Math.floor(position)]
    if (parts) parts[Math.floor((position % 1) * PARTS)]++
  }
  const totals = intervals.map((parts) => parts.reduce((sum, count) => sum + count, 0))
  const shares = intervals.flatMap((parts, n) =>
    totals[n] > 0 ? [(100 * Math.max(...parts)) / totals[n]] : [],
  )
  return {
    interval,
    commands: median(totals),
    mostCommands: Math.max(...totals),
    busiestPart: median(shares),
    worstPart: shares.length > 0 ? Math.max(...shares) : null,
  }
}

function section(results, ttl, seconds) {
  const head = [
    'library',
    'renewed\nevery ms',
    'commands\nper interval',
    'at most',
    'in its busiest\ntenth, %',
    'at most',
    'CPU\n%',
    'server\nµs/script',
    'longer than\n1 ms',
    'lowest PTTL\nms',
    'lost',
  ]
  const rows = results.map((result) => [
    result.library.name,
    number(result.interval),
    number(result.commands),
    number(result.mostCommands),
    number(result.busiestPart),
    number(result.worstPart),
    number(result.cpu),
    number(result.usPerScript),
    result.longer,
    number(result.lowestPttl),
    result.lost,
  ])
  const own = results.find(({ library }) => library.name === 'holdfast')
  const note = 'CPU in % of one core; only libraries that renew'
  const quiet = noise.verdict(results.map(({ foreignCores }) => foreignCores))
  return {
    name: 'held',
    title: `held: ${number(LOCKS)} locks held by one process, ttl ${number(ttl)} ms; ${seconds} s`,
    text: [`  ${note}`, '', table(head, rows), ...judged(lines(own)), '', quiet].join('\n'),
    markdown: [`${note}:`, markdownTable(head, rows), quiet.trim()].join('\n\n'),
    problems: results
      .filter(({ library, lost }) => library.name === 'holdfast' && lost > 0)
      .map(({ lost }) => `holdfast: ${lost} of ${LOCKS} held locks were lost`),
    raw: Object.fromEntries(results.map(({ library, ...result }) => [library.name, result])),
  }
}

function lines(own) {
  if (!own) return []
  const { commands, cpu } = targets.held
  return [
    {
      what: `commands per interval ${bound({ most: commands })}, in each`,
      most: commands,
      value: own.mostCommands,
      text: number(own.mostCommands),
    },
    { what: `CPU ${bound({ most: cpu })} %`, most: cpu, value: own.cpu, text: `${number(own.cpu)} %` },
    { what: 'locks lost: none', most: 0, value: own.lost, text: String(own.lost) },
  ]
}
