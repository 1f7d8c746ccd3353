'use strict'

const { setTimeout: sleep } = require('node:timers/promises')
const countingProxy = require('./counting-proxy.js')
const { LibraryProcess } = require('./library-process.js')
const { now } = require('./machine-clock.js')

const OPTIONS = { ttl: 10_000, timeout: 60_000 }

/**
 * Callers of one process that want one key, in timed windows. Every window has a process of its own, which is warm when
 * it begins and is killed when it is over: most libraries can't stop waiting, and some would go on for half a minute.
 */
async function run({ libraries, server, progress }, load) {
  const { name, rounds } = load
  const measured = new Map(libraries.map((library) => [library.name, { windows: [], commands: null }]))
  for (let round = 0; round < rounds; round++) {
    const first = round % libraries.length
    for (const library of [...libraries.slice(first), ...libraries.slice(0, first)]) {
      progress(`${name}: round ${round + 1} of ${rounds}, ${library.name}`)
      measured.get(library.name).windows.push(await window(library, server, load, round))
    }
  }
  for (const library of libraries) {
    progress(`${name}: counting commands of ${library.name}`)
    measured.get(library.name).commands = await countCommands(library, server, load)
  }
  return measured
}

async function window(library, server, load, round) {
  const { windowMs, timers } = load
  return competing(library, server.url, load, round, async (process) => {
    const from = now()
    const before = await server.cpu()
    const result = await process.order('measure', { from, until: from + windowMs, timers })
    const serverCpu = (await server.cpu()) - before
    return {
      ...result,
      serverCpu,
      // What everything else on this machine used meanwhile, in cores.
      foreignCores: (result.machineCpu - result.processCpu - serverCpu) / (result.ms * 1_000),
    }
  })
}

/** Requests per pair, in a window of its own, through a proxy that counts. */
async function countCommands(library, server, load) {
  const proxy = await countingProxy.start(server.port)
  try {
    return await competing(library, proxy.url, load, 'count', async (process) => {
      const from = now()
      proxy.reset()
      const { pairs } = await process.order('measure', { from, until: from + load.windowMs })
      return { pairs, counts: proxy.counts(), perPair: proxy.total() / pairs }
    })
  } finally {
    await proxy.stop()
  }
}

/** Runs `work` with a process whose callers are in full swing. */
async function competing(library, url, { name, callers, hold, warmMs }, part, work) {
  const process = await LibraryProcess.open(library.name, { ...OPTIONS, url })
  try {
    // A key of its own: the last holder takes the lock along when it is killed.
    await process.order('compete', { key: `bench:${library.name}:${name}:${part}`, callers, hold })
    await sleep(warmMs)
    return await work(process)
  } finally {
    process.kill()
  }
}

module.exports = { run }
