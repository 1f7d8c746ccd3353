'use strict'

// A process that guards the same key with another library, and writes down when it held it.

const Redis = require('ioredis')
const { settings, tell, hear, endWithParent } = require('../support/parent')

endWithParent()

const { library, port, key, turns, hold } = settings
const TTL = 5_000
const sleep = (ms) => new Promise((resolve) => setTimeout(resolve, ms))

const libraries = {
  redlock(client) {
    const Redlock = require('redlock').default
    const redlock = new Redlock([client], { retryCount: -1, retryDelay: 5, retryJitter: 3 })
    return async () => {
      const lock = await redlock.acquire([key], TTL)
      return () => lock.release()
    }
  },

  'redis-semaphore'(client) {
    const { Mutex } = require('redis-semaphore')
    return async () => {
      const mutex = new Mutex(client, key, { lockTimeout: TTL, acquireTimeout: 60_000, retryInterval: 5 })
      await mutex.acquire()
      return () => mutex.release()
    }
  },
}

async function main() {
  const client = new Redis(port, '127.0.0.1')
  const acquire = libraries[library](client)
  await client.ping()
  await tell('ready')
  await hear()
  const holdings = []
  for (let turn = 0; turn < turns; turn++) {
    const release = await acquire()
    const from = process.hrtime.bigint()
    const value = Number(await client.get('value'))
    await sleep(hold)
    await client.set('value', value + 1)
    holdings.push({ owner: `${library} ${process.pid} ${turn}`, from, until: process.hrtime.bigint() })
    await release()
    // Who asks again at once would never let another poller in.
    await sleep(hold)
  }
  await tell('done', { holdings })
  client.disconnect()
  process.disconnect()
}

main()
