'use strict'

const { setTimeout: pause } = require('node:timers/promises')
const { isMainThread, parentPort, workerData } = require('node:worker_threads')
const { createLocks } = require('../..')
const { openCounter } = require('./counter')

// One worker: a thread, or a process with a thread of its own. It is told when to begin and tells what it did.

const settings = isMainThread ? JSON.parse(process.argv[2]) : workerData
const { key, jobs, work, rest, ttl } = settings
// A process finds the address in HOLDFAST_URL, as any service would.
const locks = createLocks({ url: settings.url, ttl, timeout: 8_000 })
const counter = openCounter(settings.counter)

const tell = (message) => (isMainThread ? process.send(message) : parentPort.postMessage(message))

// One clock for all: this one starts with the machine, not with the thread or the process.
const now = () => Number(process.hrtime.bigint()) / 1e6
const between = ([low, high]) => low + Math.random() * (high - low)

async function addOne() {
  const value = counter.read()
  await pause(between(work)) // whoever reads now reads the same value
  counter.write(value + 1)
}

async function job(locked) {
  const asked = now()
  let from
  let fencingToken
  const body = async (lock) => {
    from = now()
    fencingToken = lock?.fencingToken
    await addOne()
    return now()
  }
  const until = locked ? await locks.withLock(key, body) : await body()
  tell({ type: 'held', holding: { asked, from, until, fencingToken } })
}

async function run(locked) {
  const before = locks.stats().commands
  let failure
  try {
    for (let i = 0; i < jobs; i++) {
      await pause(between(rest))
      await job(locked)
    }
  } catch (error) {
    failure = error.message
  }
  tell({ type: 'done', failure, commands: { before, after: locks.stats().commands } })
}

async function hear(message) {
  if (message.type === 'run') return run(message.locked)
  await locks.close()
  // Nothing is left to listen for; the worker ends.
  if (isMainThread) process.disconnect()
  else parentPort.close()
}

if (isMainThread) {
  process.on('message', hear)
  // Without a parent there is nothing to do.
  process.on('disconnect', () => process.exit())
  // Ctrl-C reaches every process of the terminal; the parent's word comes as well.
  process.on('SIGINT', () => process.exit())
} else {
  parentPort.on('message', hear)
}
locks.ready().then(
  () => tell({ type: 'ready' }),
  (error) => tell({ type: 'failed', message: error.message }),
)
