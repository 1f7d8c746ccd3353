'use strict'

// Worker threads that come and go with locks: the scenario of settings.scenario, run by the main thread. With
// settings.loadInMain the main thread uses the package as well. This file is each of the threads, too.

const { once } = require('node:events')
const { Worker, isMainThread, parentPort, workerData } = require('node:worker_threads')
const { setTimeout: sleep } = require('node:timers/promises')

const start = (act, more) => new Worker(__filename, { workerData: { act, ...more } })

function main() {
  const { settings, tell, hear } = require('../support/parent')
  const { url, key, scenario } = settings
  if (settings.loadInMain) require('../..').createLocks({ url }).acquire(`${key}:main`, { ttl: 600_000 })

  const scenarios = {
    async 'a thread that holds a lock ends'() {
      const thread = start(settings.end === 'terminate' ? 'hold' : settings.end, { url, key })
      await once(thread, 'message')
      await tell('held')
      await hear()
      if (settings.end === 'terminate') {
        await thread.terminate()
      } else {
        thread.postMessage('end')
        await once(thread, 'exit')
      }
      await tell('ended')
      // The process lives on: its end must not be what gives the lock back.
      await hear()
    },

    async 'threads are terminated in the middle of it'() {
      for (let round = 0; round < settings.rounds; round++) {
        const threads = Array.from({ length: 10 }, () => start('work', { url, key }))
        await Promise.all(threads.map((thread) => once(thread, 'online')))
        await sleep(20 + round * 7)
        await Promise.all(threads.map((thread) => thread.terminate()))
      }
      await tell('ended')
    },

    async 'threads do their work'() {
      const threads = Array.from({ length: 4 }, () => start('count', { url, key }))
      const counts = await Promise.all(threads.map((thread) => once(thread, 'message')))
      await Promise.all(threads.map((thread) => thread.terminate()))
      await tell('ended', { counts: counts.flat() })
    },
  }
  scenarios[scenario]()
}

async function thread() {
  const { createLocks } = require('../..')
  const { act, url, key } = workerData
  const locks = createLocks({ url, timeout: 60_000 })
  const acts = {
    async hold() {
      await locks.acquire(key, { ttl: 600_000 })
      parentPort.postMessage('held')
      await once(parentPort, 'message')
    },

    async 'run out of work'() {
      await acts.hold()
      parentPort.close()
    },

    async 'process.exit()'() {
      await acts.hold()
      process.exit(0)
    },

    // As many calls in flight as possible, of every kind.
    async work() {
      for (;;) {
        await Promise.allSettled([
          ...Array.from({ length: 20 }, (_, i) => locks.withLock(`${key}:${i}`, { ttl: 1_000 }, () => {})),
          locks.tryAcquire(`${key}:tried`, { ttl: 1_000 }).then((lock) => lock?.extend(2_000)),
          locks.acquire(`${key}:called off`, { ttl: 1_000, signal: AbortSignal.timeout(1) }),
        ])
      }
    },

    async count() {
      let count = 0
      while (count < 50) count += await locks.withLock(key, () => 1)
      parentPort.postMessage(count)
    },
  }
  await acts[act]()
}

isMainThread ? main() : thread()
