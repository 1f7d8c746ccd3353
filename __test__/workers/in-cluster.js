'use strict'

// A cluster: the primary starts workers, each of which does what settings.act says. This file is the primary and each of them.

const cluster = require('node:cluster')
const { once } = require('node:events')
const { createLocks } = require('../..')
const { RespClient } = require('../support/resp')
const { settings, tell, hear } = require('../support/parent')

const { url, port, key, act, workers } = settings
const locks = createLocks({ url, ttl: 600_000, timeout: 60_000 })
const now = () => process.hrtime.bigint()

async function primary() {
  // Primary and workers are processes like any others, each with a core of its own.
  const own = await locks.acquire(`${key}:primary`)
  cluster.setupPrimary({ serialization: 'advanced' })
  const started = Array.from({ length: workers }, () => cluster.fork())
  const exits = started.map((worker) => once(worker, 'exit'))
  const messages = await Promise.all(started.map((worker) => once(worker, 'message')))
  await tell('told', { told: messages.map(([message]) => message) })
  if (act === 'hold') {
    const how = await hear()
    if (how === 'process.exit()') for (const worker of started) worker.send('exit')
    else for (const worker of started) worker[how]()
  }
  await Promise.all(exits)
  await tell('ended', { held: own.held })
  await locks.close()
  process.disconnect()
}

const acts = {
  async increment() {
    const client = new RespClient({ port })
    const holdings = []
    for (let turn = 0; turn < 40; turn++) {
      await locks.withLock(key, async (lock) => {
        const from = now()
        const value = Number(await client.command('GET', 'value'))
        await client.command('SET', 'value', value + 1)
        lock.assertHeld()
        holdings.push({ key, owner: lock.token, from, until: now(), fence: lock.fencingToken })
      })
    }
    const isTaken = (await locks.tryAcquire(`${key}:primary`)) === null
    await locks.close()
    client.close()
    process.send({ holdings, isTaken }, () => cluster.worker.disconnect())
  },

  async hold() {
    await locks.acquire(`${key}:${cluster.worker.id}`)
    process.once('message', () => process.exit(0))
    process.send({ held: true })
  },
}

cluster.isPrimary ? primary() : acts[act]()
