'use strict'

// A thread that asks for a lock whenever it is told to, tells when it has asked, and gives the lock back as soon as it is told
// to, or at once.

const { parentPort, workerData } = require('node:worker_threads')
const { createLocks } = require('../..')

const { url, key } = workerData
const locks = createLocks({ url, timeout: 60_000 })
let held

async function ask(name, keep) {
  const acquired = locks.acquire(key, { ttl: 600_000 })
  parentPort.postMessage({ asked: name })
  const lock = await acquired
  parentPort.postMessage({ granted: name, fence: lock.fencingToken, at: process.hrtime.bigint() })
  if (keep) held = lock
  else await lock.release()
}

parentPort.on('message', ({ name, keep, release }) => (release ? held.release() : ask(name, keep)))
