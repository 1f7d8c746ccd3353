'use strict'

// Waves of threads that are terminated at any moment: while they start, wait for locks, hold them, and in the middle of every kind of
// call. Meanwhile the main thread holds a lock and works with others. This file is the process and each of its threads.

const { once } = require('node:events')
const { setTimeout: sleep } = require('node:timers/promises')
const { Worker, isMainThread, parentPort, workerData } = require('node:worker_threads')
const { createLocks } = require('../..')

// A lease that outlives the test by far: what can be had was given back.
const ttl = 600_000

async function main() {
  const { settings, tell } = require('../support/parent')
  const { url, key, waves, threads } = settings
  const locks = createLocks({ url, ttl })
  const taken = await locks.acquire(`${key}:taken`)
  const work = { going: true, turns: 0 }
  const working = workAway(locks, key, work)
  // How long it took until a thread's lock could be had by others, at most.
  let slowest = 0
  for (let wave = 0; wave < waves; wave++) {
    const started = Array.from(
      { length: threads },
      (_, i) => new Worker(__filename, { workerData: { url, key, name: `${wave}:${i}` } }),
    )
    const holding = started.map((thread) => once(thread, 'message'))
    await Promise.all(started.map((thread, i) => terminate(thread, holding[i], i)))
    const from = performance.now()
    const theirs = started.map((_, i) => `${key}:own:${wave}:${i}`)
    await Promise.all(theirs.map((own) => locks.withLock(own, { timeout: 10_000 }, () => {})))
    slowest = Math.max(slowest, performance.now() - from)
  }
  work.going = false
  await working
  const held = await taken.release()
  const { lost, waiting } = locks.stats()
  await tell('done', { held, lost, waiting, turns: work.turns, slowest })
}

/** A third of them as soon as they hold their lock, the others at any moment from their start on. */
async function terminate(thread, holding, i) {
  if (i % 3 === 0) await holding
  else {
    await once(thread, 'online')
    await sleep(Math.random() * 150)
  }
  await thread.terminate()
}

async function workAway(locks, key, work) {
  while (work.going) {
    await locks.withLock(`${key}:shared`, { timeout: 20_000 }, () => {
      work.turns++
    })
    await sleep(1)
  }
}

async function thread() {
  const { url, key, name } = workerData
  const locks = createLocks({ url, ttl, timeout: 60_000 })
  locks.acquire(`${key}:taken`)
  for (let i = 0; i < 5; i++) locks.acquire([`${key}:taken`, `${key}:own:${name}`])
  await locks.acquire(`${key}:own:${name}`)
  parentPort.postMessage('holding')
  for (;;) {
    await Promise.allSettled([
      ...Array.from({ length: 5 }, () => locks.withLock(`${key}:shared`, () => {})),
      locks.withLock([`${key}:shared`, `${key}:together`], (lock) => lock.extend(ttl)),
      locks.acquire(`${key}:owned`, { owner: 'threads' }).then((lock) => lock.release()),
      locks.tryAcquire(`${key}:shared`).then((lock) => lock?.release()),
      locks.acquire(`${key}:taken`, { signal: AbortSignal.timeout(1) }),
    ])
  }
}

isMainThread ? main() : thread()
