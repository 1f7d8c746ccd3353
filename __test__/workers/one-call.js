'use strict'

// A thread that makes one call, for a test that ends the thread in the middle of it.

const { parentPort, workerData } = require('node:worker_threads')
const { createLocks } = require('../..')
const { calls } = require('../support/calls')

const { manager, call, wanted, ticket, exit } = workerData
const locks = createLocks(manager)

async function main() {
  await locks.ready()
  const given = ticket ?? (await calls[call].before?.(locks, wanted))
  parentPort.once('message', () => {
    calls[call].begin(locks, given, wanted).catch(() => {})
    // In the turn of the call, before anything can have been sent.
    if (exit) process.exit()
  })
  parentPort.postMessage('ready')
}

main()
