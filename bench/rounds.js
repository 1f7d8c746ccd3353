'use strict'

const countingProxy = require('./counting-proxy.js')
const { LibraryProcess } = require('./library-process.js')

const OPTIONS = { ttl: 10_000, timeout: 60_000 }

/**
 * Callers with a key each, in timed windows. Every library has a process of its own, which stays connected and idle
 * while the others have their turn. The order changes every round.
 */
async function run({ libraries, server, progress }, { name, callers, rounds, windowMs, warmMs, countEach }) {
  const keysOf = (library) => Array.from({ length: callers }, (_, n) => `bench:${library.name}:${name}:${n}`)
  const measured = new Map(libraries.map((library) => [library.name, { windows: [], commands: null }]))
  const processes = new Map()

  try {
    progress(`${name}: starting`)
    await Promise.all(
      libraries.map(async (library) => {
        const process = await LibraryProcess.open(library.name, { ...OPTIONS, url: server.url })
        processes.set(library.name, process)
        await process.order('callers', { keys: keysOf(library) })
      }),
    )
    for (const library of libraries) {
      progress(`${name}: warming up ${library.name}`)
      await processes.get(library.name).order('window', { ms: warmMs })
    }

    for (let round = 0; round < rounds; round++) {
      const first = round % libraries.length
      for (const library of [...libraries.slice(first), ...libraries.slice(0, first)]) {
        progress(`${name}: round ${round + 1} of ${rounds}, ${library.name}`)
        const before = await server.cpu()
        const window = await processes.get(library.name).order('window', { ms: windowMs })
        window.serverCpu = (await server.cpu()) - before
        // What everything else on this machine used meanwhile, in cores.
        window.foreignCores = (window.machineCpu - window.processCpu - window.serverCpu) / (window.ms * 1_000)
        measured.get(library.name).windows.push(window)
      }
    }
    await Promise.all([...processes.values()].map((process) => process.close()))
  } catch (error) {
    for (const process of processes.values()) process.kill()
    throw error
  }

  // Nothing is timed any more: all at once.
  progress(`${name}: counting commands`)
  await Promise.all(
    libraries.map(async (library) => {
      measured.get(library.name).commands = await countCommands(library, server, keysOf(library), countEach)
    }),
  )
  return measured
}

/** Requests per pair, in a pass of its own: all callers at once, `each` pairs a caller, through a proxy that counts. */
async function countCommands(library, server, keys, each) {
  const proxy = await countingProxy.start(server.port)
  let process
  try {
    process = await LibraryProcess.open(library.name, { ...OPTIONS, url: proxy.url })
    await process.order('callers', { keys })
    // Connecting and loading scripts belong to the first pairs only.
    await process.order('pairs', { each: 1 })
    proxy.reset()
    const { pairs } = await process.order('pairs', { each })
    const counts = proxy.counts()
    const perPair = proxy.total() / pairs
    await process.close()
    return { pairs, counts, perPair }
  } finally {
    process?.kill()
    await proxy.stop()
  }
}

module.exports = { run }
