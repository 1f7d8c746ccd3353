'use strict'

const { once } = require('node:events')
const path = require('node:path')
const { Worker } = require('node:worker_threads')
const { createLocks } = require('..')

// The holder ends while its process' turn has just begun, so that the lock is handed on within the very call that takes
// it from the dead thread.
const HOLDER = `
const { parentPort, workerData } = require('node:worker_threads')
const { createLocks } = require(workerData.holdfast)
createLocks({ url: 'memory:thread-end' }).acquire('k').then(() => {
  parentPort.postMessage('held')
  while (Atomics.load(workerData.queued, 0) === 0);
  process.exit()
})
`

const locks = createLocks({ url: 'memory:thread-end' })
// Also after a failure: a call that is never answered would keep the process alive.
afterAll(() => locks.close())

test('P8 liveness: a thread that ends hands its lock to the one that waits in another thread', async () => {
  for (let round = 0; round < 20; round++) {
    const queued = new Int32Array(new SharedArrayBuffer(4))
    const workerData = { holdfast: path.join(__dirname, '..'), queued }
    const worker = new Worker(HOLDER, { eval: true, workerData })
    await once(worker, 'message')
    const waiting = locks.acquire('k', { timeout: 5_000 })
    Atomics.store(queued, 0, 1)
    const lock = await waiting
    expect(lock.held).toBe(true)
    expect(await lock.release()).toBe(true)
    await worker.terminate()
  }
})
