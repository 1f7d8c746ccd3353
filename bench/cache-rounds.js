'use strict'

const countingProxy = require('./counting-proxy.js')
const { LibraryProcess } = require('./library-process.js')
const { now } = require('./machine-clock.js')

/** Nothing expires, or comes near to it, while it is measured. */
const TTL = 600_000
/** How long before a herd its processes are told when it begins, ms. */
const NOTICE = 100

/**
 * Callers with a key each that read values which are there, in timed windows. Every cache has a process of its own, which
 * stays connected and idle while the others have their turn. The order changes every round.
 */
async function hits({ caches, server, progress }, { name, callers, rounds, windowMs, warmMs, countEach }) {
  const measured = new Map(caches.map((cache) => [cache.name, { windows: [] }]))
  const processes = new Map()
  try {
    for (const cache of caches) {
      progress(`${name}: warming up ${cache.name}`)
      const process = await LibraryProcess.openCache(cache.name, { url: server.url, ttl: TTL })
      processes.set(cache.name, process)
      await process.order('readEach', { keys: keysOf(name, cache, callers), atOnce: true })
      await process.order('readWindow', { keys: keysOf(name, cache, callers), ms: warmMs })
    }
    await inTurns(caches, rounds, async (cache, round) => {
      progress(`${name}: round ${round + 1} of ${rounds}, ${cache.name}`)
      const order = { keys: keysOf(name, cache, callers), ms: windowMs }
      const before = await server.cpu()
      const window = await processes.get(cache.name).order('readWindow', order)
      window.serverCpu = (await server.cpu()) - before
      // What everything else on this machine used meanwhile, in cores.
      window.foreignCores = (window.machineCpu - window.processCpu - window.serverCpu) / (window.ms * 1_000)
      measured.get(cache.name).windows.push(window)
    })
  } finally {
    for (const process of processes.values()) process.kill()
  }

  progress(`${name}: counting commands`)
  for (const cache of caches) {
    const keys = keysOf(name, cache, callers)
    const repeated = Array.from({ length: countEach }, () => ({ keys, atOnce: true }))
    measured.get(cache.name).commands = await countCommands(cache, server, repeated)
  }
  return measured
}

/** Requests per read of a value that isn't there: one after the other, and many keys at once. */
async function misses({ caches, server, progress }, { name, keys }) {
  const measured = new Map()
  for (const cache of caches) {
    progress(`${name}: counting commands of ${cache.name}`)
    measured.set(cache.name, {
      oneByOne: await countCommands(cache, server, [{ keys: keysOf(`${name}:one`, cache, keys) }]),
      atOnce: await countCommands(cache, server, [
        { keys: keysOf(`${name}:all`, cache, keys), atOnce: true },
      ]),
    })
  }
  return measured
}

/** Processes with many callers each that all want one value at the same moment, which isn't there. */
async function herds({ caches, server, progress }, { name, processes, callers, loadMs, rounds }) {
  const measured = new Map(caches.map((cache) => [cache.name, []]))
  await inTurns(caches, rounds, async (cache, round) => {
    progress(`${name}: round ${round + 1} of ${rounds}, ${cache.name}`)
    const options = { url: server.url, ttl: TTL, loadMs }
    const open = Array.from({ length: processes }, () => LibraryProcess.openCache(cache.name, options))
    const all = (await Promise.allSettled(open)).map(({ value }) => value)
    try {
      await Promise.all(open)
      // Connecting and whatever else comes first is over, and the code is warm.
      await Promise.all(
        all.map((process, n) => process.order('readEach', { keys: [`${name}:${round}:${n}`] })),
      )
      const herd = { key: `bench:${name}:${cache.name}:${round}`, callers, at: now() + NOTICE }
      const results = await Promise.all(all.map((process) => process.order('readHerd', herd)))
      const sum = (figure) => results.reduce((total, result) => total + result[figure], 0)
      measured.get(cache.name).push({
        reads: sum('reads'),
        loads: sum('loads'),
        wrong: sum('wrong'),
        slowest: Math.max(...results.map(({ slowest }) => slowest)),
      })
    } finally {
      for (const process of all) process?.kill()
    }
  })
  return measured
}

/** Calls `work` for each cache in each round; the next round starts with another one. */
async function inTurns(caches, rounds, work) {
  for (let round = 0; round < rounds; round++) {
    const first = round % caches.length
    for (const cache of [...caches.slice(first), ...caches.slice(0, first)]) await work(cache, round)
  }
}

/** Requests per read, in a pass of its own, through a proxy that counts. */
async function countCommands(cache, server, orders) {
  const proxy = await countingProxy.start(server.port)
  let process
  try {
    process = await LibraryProcess.openCache(cache.name, { url: proxy.url, ttl: TTL })
    // Connecting and loading scripts belong to the first reads only: a miss, and a hit.
    const first = [`bench:${cache.name}:first`]
    await process.order('readEach', { keys: first })
    await process.order('readEach', { keys: first })
    proxy.reset()
    let reads = 0
    for (const order of orders) reads += (await process.order('readEach', order)).reads
    const counts = proxy.counts()
    const perRead = proxy.total() / reads
    await process.close()
    return { reads, counts, perRead }
  } finally {
    process?.kill()
    await proxy.stop()
  }
}

function keysOf(name, cache, count) {
  return Array.from({ length: count }, (_, n) => `bench:${name}:${cache.name}:${n}`)
}

module.exports = { hits, misses, herds }
