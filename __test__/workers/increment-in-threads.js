'use strict'

// Several threads, each with several callers, increment a counter in shared memory by a read and a later write
// that nothing but the embedded store's lock protects. This file is the process and each of its threads.

const { once } = require('node:events')
const { Worker, isMainThread, parentPort, workerData } = require('node:worker_threads')
const { createLocks } = require('../..')

const now = () => process.hrtime.bigint()

async function main() {
  const { settings, tell } = require('../support/parent')
  const memory = new SharedArrayBuffer(4)
  const threads = Array.from(
    { length: settings.threads },
    () => new Worker(__filename, { workerData: { ...settings, memory } }),
  )
  const holdings = await Promise.all(
    threads.map(async (thread) => {
      // The exit may follow in the same turn of the loop as the message.
      const exited = once(thread, 'exit')
      const [message] = await once(thread, 'message')
      await exited
      return message
    }),
  )
  await tell('done', { value: new Int32Array(memory)[0], holdings: holdings.flat() })
}

async function thread() {
  const { memory, key, callers, turns } = workerData
  const counter = new Int32Array(memory)
  const locks = createLocks({ url: 'memory:increments', timeout: 120_000 })
  const holdings = []

  async function caller() {
    for (let turn = 0; turn < turns; turn++) {
      await locks.withLock(key, async (lock) => {
        const from = now()
        const value = counter[0]
        await new Promise(setImmediate)
        counter[0] = value + 1
        lock.assertHeld()
        holdings.push({ key, owner: lock.token, from, until: now(), fence: lock.fencingToken })
      })
    }
  }

  await Promise.all(Array.from({ length: callers }, caller))
  await locks.close()
  parentPort.postMessage(holdings)
}

isMainThread ? main() : thread()
