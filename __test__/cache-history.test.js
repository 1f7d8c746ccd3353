'use strict'

// Random histories against a source that all share: who asks after an order is over never gets what was before it, whichever
// process ordered, and whatever happens to the server meanwhile.

const { once } = require('node:events')
const path = require('node:path')
const { setTimeout: sleep } = require('node:timers/promises')
const { Worker } = require('node:worker_threads')
const { onServer } = require('./support/stores')

const KEYS = 3
const THREADS = 4
const MS = process.env.HOLDFAST_LONG === '1' ? 60_000 : 3_000

async function history(url, fault) {
  const shared = new SharedArrayBuffer(8 * KEYS)
  const threads = Array.from({ length: THREADS }, (_, number) => {
    const workerData = { number, url, ms: MS, shared, keys: KEYS }
    return new Worker(path.join(__dirname, 'workers', 'cache-history.js'), { workerData })
  })
  let over = false
  const faults = (async () => {
    while (!over) {
      await sleep(50 + Math.random() * 300)
      if (!over) await fault?.()
    }
  })()
  const seen = (await Promise.all(threads.map((thread) => once(thread, 'message')))).map(([each]) => each)
  over = true
  await faults
  await Promise.all(threads.map((thread) => thread.terminate()))
  return seen
}

/** Nothing old was given, and enough was done for that to say something. */
function check(seen) {
  expect(seen.flatMap(({ old }) => old)).toEqual([])
  const sum = (name) => seen.reduce((all, each) => all + each[name], 0)
  expect(sum('reads')).toBeGreaterThan(200)
  expect(sum('orders')).toBeGreaterThan(20)
}

test(
  'in memory',
  async () => {
    const seen = await history('memory:cache-history')
    check(seen)
    expect(seen.map(({ errors }) => errors)).toEqual(Array(THREADS).fill({}))
  },
  MS + 30_000,
)

onServer((store) => {
  const ask = (...args) => store.server.command(...args)
  const faults = {
    'without faults': undefined,
    'connections are killed': () =>
      ask('CLIENT', 'KILL', 'TYPE', Math.random() < 0.5 ? 'normal' : 'pubsub', 'SKIPME', 'yes'),
    'scripts and data are flushed': () => ask(...(Math.random() < 0.5 ? ['SCRIPT', 'FLUSH'] : ['FLUSHALL'])),
    'the server stands still': async () => {
      process.kill(store.server.pid, 'SIGSTOP')
      await sleep(Math.random() * 800)
      process.kill(store.server.pid, 'SIGCONT')
    },
  }
  test.each(Object.keys(faults))(
    'on a server: %s',
    async (name) => {
      await ask('FLUSHALL')
      check(await history(store.url, faults[name]))
      for (const key of await ask('KEYS', '*')) {
        if (key !== 'lock:~f{0}') expect(await ask('PTTL', key)).not.toBe(-1)
      }
    },
    MS + 30_000,
  )
})
