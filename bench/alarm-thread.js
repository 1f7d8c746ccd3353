'use strict'

const { parentPort, workerData } = require('node:worker_threads')
const { now } = require('./machine-clock.js')

const { set, due } = workerData
const never = new Int32Array(new SharedArrayBuffer(4))

// This thread has nothing else to do than to sleep.
for (;;) {
  Atomics.wait(set, 0, 0)
  Atomics.store(set, 0, 0)
  const left = due[0] - now()
  if (left > 0) Atomics.wait(never, 0, 0, left)
  parentPort.postMessage(null)
}
