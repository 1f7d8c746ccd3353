'use strict'

// Several callers in one process increment a counter in the server, by a read and a write that nothing but the
// lock protects, and write down when they held it.

const { createLocks } = require('../..')
const { RespClient } = require('../support/resp')
const { settings, tell, hear, endWithParent } = require('../support/parent')

const now = () => process.hrtime.bigint()

async function main() {
  const { url, port, key, callers, turns, strategy, sets, unlocked } = settings
  const client = new RespClient({ port })
  const locks = createLocks({ url, timeout: 120_000, strategy })
  const holdings = []

  async function increment() {
    const value = Number(await client.command('GET', 'value'))
    await client.command('SET', 'value', value + 1)
  }

  // With settings.sets the key is one of several most of the time, in any order.
  const wanted = [key, [`${key}:a`, key, `${key}:b`], [`${key}:b`, `${key}:c`, key]]

  async function locked(turn) {
    const lock = await locks.acquire(sets ? wanted[turn % 3] : key)
    const from = now()
    await increment()
    lock.assertHeld()
    holdings.push({ key, owner: lock.token, from, until: now(), fence: lock.fencingToken })
    await lock.release()
  }

  async function bare() {
    const from = now()
    await increment()
    holdings.push({ key, owner: 'nobody', from, until: now(), fence: holdings.length })
  }

  async function caller() {
    for (let turn = 0; turn < turns; turn++) await (unlocked ? bare() : locked(turn))
  }

  await Promise.all([client.command('PING'), unlocked || locks.ready()])
  await tell('ready')
  await hear()
  await Promise.all(Array.from({ length: callers }, caller))
  await tell('done', { holdings })
  await locks.close()
  client.close()
  process.disconnect()
}

endWithParent()
main()
