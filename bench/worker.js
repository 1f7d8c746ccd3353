'use strict'

// A process of one library. run.js forks it and gives it one order after the other.

const busyHolder = require('./busy-holder.js')
const { CacheReaders } = require('./cache-readers.js')
const { Competitors } = require('./competitors.js')
const { Holders } = require('./holders.js')
const { load } = require('./libraries/index.js')
const { Pings } = require('./pings.js')
const vitals = require('./vitals.js')
const { Waiters } = require('./waiters.js')
const { Workload } = require('./workload.js')

let lock
let workload
let competitors
let pings
let waiters
let holders
let readers
const handles = new Map()

const orders = {
  async open({ library, ...options }) {
    lock = await load(library).create(options)
  },

  callers({ keys, hold }) {
    workload = new Workload(lock, keys, hold)
  },
  window: ({ ms }) => workload.window(ms),
  pairs: ({ each }) => workload.pairs(each),

  compete(load) {
    competitors = new Competitors(lock, load)
    competitors.start()
  },
  measure: (times) => competitors.measure(times),
  stopCompeting: () => competitors.stop(),

  async ping(load) {
    pings = await Pings.open(load)
  },
  pings: (times) => pings.measure(times),

  wait(load) {
    waiters = new Waiters(lock)
    return waiters.start(load)
  },
  waiting: () => waiters.counts(),
  served: () => waiters.served(),
  async take({ keys }) {
    holders = new Holders(lock)
    await holders.take(keys)
  },
  letGo: () => holders.release(),

  async openCache(options) {
    readers = await CacheReaders.open(options)
  },
  readWindow: (load) => readers.window(load),
  readEach: (load) => readers.readEach(load),
  readHerd: (load) => readers.herd(load),

  usage: ({ ms }) => vitals.usage(ms),
  loopDelay: ({ ms }) => vitals.loopDelay(ms),
  memory: () => vitals.memory(),

  async acquire({ key }) {
    handles.set(key, await lock.acquire(key))
  },
  async tryAcquire({ key }) {
    const handle = await lock.tryAcquire(key)
    if (handle) handles.set(key, handle)
    return Boolean(handle)
  },
  async release({ key }) {
    const released = await lock.release(handles.get(key))
    return released !== false && released !== 0
  },

  hold: ({ key, ...times }) => busyHolder.hold(lock, key, times, report),
  contend: ({ key }) => busyHolder.contend(lock, key),

  close: () => (lock ?? readers).close(),
}

function report(event, value) {
  return new Promise((resolve) => process.send({ event, value }, resolve))
}

process.on('message', async ({ id, order, args }) => {
  try {
    process.send({ id, result: await orders[order](args) })
  } catch (error) {
    process.send({ id, error: error?.stack ?? String(error) })
  }
})

// The run is over, or gone.
process.once('disconnect', () => process.exit())
