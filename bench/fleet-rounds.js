'use strict'

const { setTimeout: sleep } = require('node:timers/promises')
const { contention } = require('./contention.js')
const countingProxy = require('./counting-proxy.js')
const delayProxy = require('./delay-proxy.js')
const { everywhere, measureTogether } = require('./fleet-window.js')
const { LibraryProcess } = require('./library-process.js')
const { Samples } = require('./samples.js')
const { now } = require('./machine-clock.js')

const OPTIONS = { ttl: 10_000, timeout: 60_000 }

/**
 * Callers of several processes that want one key, in timed windows. Every window has processes of its own, which are
 * killed when it is over: most libraries can't stop waiting. A window that fails is noted, and the library has no more:
 * it may have drowned in its waiters, and nobody else is to wait for that.
 *
 * `load` is `{ name, processes, callers, hold, think, rounds, windowMs, warmMs, pingEvery, delay }`: `callers` in each
 * process; with `pingEvery` they also send pings; with `delay`, the server is so many ms away, each way.
 */
async function run({ libraries, server, progress }, load) {
  const measured = new Map(
    libraries.map(({ name }) => [name, { windows: [], commands: null, failure: null }]),
  )
  const network = load.delay === undefined ? server : await delayProxy.start(server.port, load.delay)
  const attempt = async (library, text, work) => {
    const result = measured.get(library.name)
    if (result.failure) return
    progress(`${load.name}: ${text}, ${library.name}`)
    try {
      await work(result)
    } catch (error) {
      result.failure = error.message.split('\n', 1)[0].replace(`${library.name}: `, '')
    }
  }
  try {
    for (let round = 0; round < load.rounds; round++) {
      const first = round % libraries.length
      for (const library of [...libraries.slice(first), ...libraries.slice(0, first)]) {
        await attempt(library, `round ${round + 1} of ${load.rounds}`, async ({ windows }) => {
          windows.push(await window(library, server, network.url, load, round))
        })
      }
    }
    for (const library of libraries) {
      await attempt(library, 'counting commands', async (result) => {
        result.commands = await countCommands(library, server, network.port, load)
      })
    }
  } finally {
    if (network !== server) await network.stop()
  }
  return measured
}

async function window(library, server, url, load, round) {
  return competing(library, url, load, round, async (processes) => {
    const pings = load.pingEvery !== undefined
    const together = await measureTogether(processes, server, { ms: load.windowMs, pings })
    const { handOffs, ...figures } = contention(together.measured, together)
    return {
      ...figures,
      ...quantilesOf('handOff', handOffs),
      ...quantilesOf('ping', together.pings),
      foreignCores: together.foreignCores,
      handOffs,
      pings: together.pings,
      ...traceOf(together),
    }
  })
}

/** Requests per pair of all processes, in a window of its own, through a proxy that counts. */
async function countCommands(library, server, port, load) {
  const requests = []
  const proxy = await countingProxy.start(port, (name) => requests.push({ name, at: now() }))
  try {
    const counted = { ...load, pingEvery: undefined }
    return await competing(library, proxy.url, counted, 'count', async (processes) => {
      const { measured, from, until } = await measureTogether(processes, server, { ms: load.windowMs / 2 })
      const pairs = measured.reduce((sum, process) => sum + process.pairs, 0)
      const counts = {}
      for (const { name, at } of requests) {
        if (at >= from && at < until) counts[name] = (counts[name] ?? 0) + 1
      }
      const total = Object.values(counts).reduce((sum, count) => sum + count, 0)
      return { pairs, counts, perPair: pairs === 0 ? null : total / pairs }
    })
  } finally {
    await proxy.stop()
  }
}

/** Runs `work` with processes whose callers are in full swing. */
async function competing(library, url, load, part, work) {
  const { name, callers, hold, think, warmMs, pingEvery } = load
  // A key of its own: the last holder takes the lock along when it is killed.
  const key = `bench:${library.name}:${name}:${part}`
  const opening = Array.from({ length: load.processes }, () =>
    LibraryProcess.open(library.name, { ...OPTIONS, url }),
  )
  try {
    const processes = await Promise.all(opening)
    if (pingEvery !== undefined) await everywhere(processes, 'ping', { url, every: pingEvery })
    await everywhere(processes, 'compete', { key, callers, hold, think })
    await sleep(warmMs)
    return await work(processes)
  } finally {
    for (const opened of await Promise.allSettled(opening)) opened.value?.kill()
  }
}

function quantilesOf(name, values) {
  if (values.length === 0) return { [`${name}P50`]: null, [`${name}P99`]: null }
  const samples = new Samples()
  for (const value of values) samples.add(value)
  const [p50, p99] = samples.quantiles(0.5, 0.99)
  return { [`${name}P50`]: p50, [`${name}P99`]: p99 }
}

/**
 * What every caller did, ms from the beginning of the window: `[process, caller, from, until, waited]` of each
 * acquisition, and `[process, caller, waited so far]` of each that was still to come.
 */
function traceOf({ measured, from, until }) {
  const round = (value) => Math.round(value * 1_000) / 1_000
  const acquisitions = []
  const waiting = []
  for (const [process, all] of measured.entries()) {
    for (const [caller, asked, granted, left] of all.acquisitions) {
      if (granted < from || granted >= until) continue
      acquisitions.push([
        process,
        caller,
        round(granted - from),
        round((left ?? until) - from),
        round(granted - asked),
      ])
    }
    for (const [caller, since] of all.waiting) waiting.push([process, caller, round(until - since)])
  }
  return { ms: until - from, acquisitions, waiting }
}

module.exports = { run }
