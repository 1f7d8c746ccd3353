'use strict'

// A thread that reads, and orders changes of, values of a source that all threads share; and notes what it got that was older
// than what had been ordered before it asked.

const { setTimeout: sleep } = require('node:timers/promises')
const { parentPort, workerData } = require('node:worker_threads')
const { createLocks } = require('../..')

const { number, url, ms, shared, keys } = workerData
/** What the source says. */
const source = new Int32Array(shared, 0, keys)
/** What it said at the latest when an order was over, by any thread. */
const visible = new Int32Array(shared, 4 * keys, keys)

// A connection, and so a process of its own to the server, for each thread.
const locks = createLocks({ url, commandTimeout: 2_000 + number })
const terms = { ttl: 1_000, lockTtl: 1_000, waitTimeout: 2_000, onWaitTimeout: number % 2 ? 'load' : 'throw' }
const caches = [locks.cache(terms), locks.cache(terms)]

function raise(key, version) {
  for (;;) {
    const known = Atomics.load(visible, key)
    if (known >= version || Atomics.compareExchange(visible, key, known, version) === known) return
  }
}

const load = (key) => async () => {
  const seen = Atomics.load(source, key)
  await sleep(Math.random() * (Math.random() < 0.1 ? 300 : 20))
  return seen
}

async function caller(end, seen) {
  while (performance.now() < end) {
    const key = Math.floor(Math.random() * keys)
    const cache = caches[Math.floor(Math.random() * 2)]
    const kind = Math.random()
    try {
      if (kind < 0.85) {
        const least = Atomics.load(visible, key)
        const got = kind < 0.8 ? await cache.getOrSet(`k${key}`, load(key)) : await cache.get(`k${key}`)
        if (got < least) seen.old.push({ key, got, least })
        seen.reads++
      } else {
        const version = Atomics.add(source, key, 1) + 1
        if (kind < 0.93) await cache.delete(`k${key}`)
        else if (kind < 0.96) await cache.expire(`k${key}`)
        else await cache.refresh(`k${key}`, load(key))
        raise(key, version)
        seen.orders++
      }
    } catch (error) {
      seen.errors[error.code] = (seen.errors[error.code] ?? 0) + 1
    }
    await sleep(Math.random() * 10)
  }
}

async function main() {
  const seen = { old: [], reads: 0, orders: 0, errors: {} }
  const end = performance.now() + ms
  await Promise.all(Array.from({ length: 6 }, () => caller(end, seen)))
  await locks.close()
  parentPort.postMessage(seen)
}

main()
